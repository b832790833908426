package roster

import (
	"maps"
	"sync"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// inbox keeps the making of companions off the goroutine that reads the stream: whoever makes them is a
// stranger and may block. The usual view brings nobody new and is taken at once. One that does is taken by
// a goroutine of the roster's own, and so is what comes meanwhile, newest wins.
type inbox struct {
	mu   sync.Mutex
	busy bool             // that goroutine is at it
	next *registry.Update // what it takes next
}

// pushed takes what the reader of the stream has. Calls don't overlap.
func (r *Roster) pushed(u registry.Update) {
	b := &r.inbox
	b.mu.Lock()
	if b.busy || r.bringsSomebody(u.View) {
		b.next = &u
		if !b.busy {
			b.busy = true
			r.run.done.Go(r.takeAll)
		}
		b.mu.Unlock()
		if r.disk != nil {
			r.disk.ring(r.disk.needed)
		}
		return
	}
	b.mu.Unlock() // nobody else takes: only a call of this makes it busy
	r.take(u)
}

// takeAll takes until nothing is left.
func (r *Roster) takeAll() {
	b := &r.inbox
	for {
		b.mu.Lock()
		u := b.next
		b.next = nil
		if u == nil {
			b.busy = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		r.take(*u)
	}
}

// bringsSomebody tells whether a view may need a companion to be made; it may say so too often, never too seldom.
func (r *Roster) bringsSomebody(v *eider.View) bool {
	if v == nil || r.config.Companion == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	for k := range v.Instances {
		in := &v.Instances[k]
		for i < len(r.members) && r.members[i].id < in.ID {
			i++
		}
		if i == len(r.members) {
			return true
		}
		m := r.members[i]
		if m.id != in.ID || m.nonce != in.Incarnation.Nonce || !m.born || m.marked && in.Status == eider.Up ||
			m.in.Address != in.Address || !maps.Equal(m.in.Ports, in.Ports) {
			return true
		}
	}
	return false
}
