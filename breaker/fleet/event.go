package fleet

import (
	"sync"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// Event is a change of a fleet's breaker, as one caller sees it.
type Event struct {
	Key      string
	Joined   bool  // this caller goes by the fleet's breaker from now on
	Parted   error // it goes by its own from now on, because of this
	From, To breaker.State
	Rule     breaker.Rule // why it opens
	Count    uint64       // what the rule counted, of all callers
	Of       uint64
	Seers    int    // how many callers saw it
	Holder   string // HalfOpen: who tries
	At       time.Time
	Missed   int // events before this one that OnEvent was too slow for
}

// note keeps a change of the view, with the lock held.
func (b *Breaker) note(old, v *view) {
	now := time.Now()
	if old == nil {
		b.stats.joined++
		b.stats.since, b.stats.why = now, nil
	} else if old.State == v.State && old.Holder == v.Holder {
		return
	}
	ev := Event{Key: b.c.Key, Joined: old == nil, To: v.State, Rule: v.Rule, Count: v.Count, Of: v.Of, Seers: v.Seers, Holder: v.Holder, At: now}
	if old != nil {
		ev.From = old.State
	}
	b.post.add(ev)
}

// deliver has the callbacks told of what has happened, beside whatever is going on: they may use the breaker, be slow, and close it.
func (b *Breaker) deliver() {
	b.post.deliver(func(ev Event, missed int) {
		if b.c.OnEvent != nil {
			ev.Missed = missed
			b.c.OnEvent(ev)
		}
	})
	b.own.deliver(func(ev breaker.Event, missed int) {
		if b.c.Local.OnEvent != nil {
			ev.Missed += missed
			b.c.Local.OnEvent(ev)
		}
	})
}

// ofLocal takes what the caller's own breaker tells.
func (b *Breaker) ofLocal(ev breaker.Event) {
	b.own.add(ev)
	if ev.To == breaker.Open {
		b.poke()
	}
	b.deliver()
}

// post is what a callback hasn't been told yet.
type post[E any] struct {
	mu      sync.Mutex
	news    []E
	missed  int
	telling bool // somebody delivers
}

// mostNews is how many changes wait for a callback that is slow. The oldest are dropped then, and the next one says how many.
const mostNews = 64

func (p *post[E]) add(ev E) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.news) == mostNews {
		p.news = p.news[1:]
		p.missed++
	}
	p.news = append(p.news, ev)
}

// deliver tells what has happened, in order, from a goroutine that ends when there is nothing left.
func (p *post[E]) deliver(tell func(ev E, missed int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.telling && len(p.news) > 0 {
		p.telling = true
		go p.empty(tell)
	}
}

func (p *post[E]) empty(tell func(ev E, missed int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.telling = false }()
	for len(p.news) > 0 {
		ev, missed := p.news[0], p.missed
		p.news, p.missed = p.news[1:], 0
		func() {
			p.mu.Unlock()
			defer p.mu.Lock()
			defer func() { _ = recover() }() // its panic is its own
			tell(ev, missed)
		}()
	}
}
