package solo

import (
	"maps"
	"slices"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

const (
	window  = 5 * time.Millisecond // changes of a service this soon after its last travel together
	atATime = 256                  // services published in one turn of Run
)

// services is what the replica keeps of each service beside the table: its number, and what of it has
// changed since.
//
//	         changed, quiet for a window; or flushed
//	    ┌──────────────────────────────────────────────┐
//	idle ── changed soon after ──► batched ── window ──►ready ── taken by Run ──► idle
//	                                   └──── flushed ───┘
type services struct {
	known   map[string]*service
	floor   uint64 // what a new service counts from: at least every number ever given to a forgotten one
	ready   []*service
	batched []*service // those that were flushed since are in ready too
	batchAt time.Time  // when the batched become ready; zero if there are none
}

type service struct {
	name    string
	number  uint64              // of its last published change
	changed map[string]struct{} // ids; what they changed to is asked of the table when they are taken
	flipped bool                // its completeness changed
	place   place
	taken   time.Time         // when it was last published
	owned   map[string]*owned // attached instances, by id
	bound   time.Duration     // as its attached processes were last told
	seen    time.Duration     // the bound when it was last looked at
}

type place uint8

const (
	idle place = iota
	batched
	ready
)

// A new node's services count from 1, so that number 0 stays free for "nothing yet".
func newServices() services { return services{known: make(map[string]*service), floor: 1} }

// get returns the service, made if it is new.
func (ss *services) get(name string) *service {
	s := ss.known[name]
	if s == nil {
		s = &service{name: name, number: ss.floor, changed: make(map[string]struct{}), owned: make(map[string]*owned)}
		ss.known[name] = s
	}
	return s
}

// mark makes a changed service ready: now if it was quiet or must not wait, else with the next batch.
func (ss *services) mark(now time.Time, s *service, flush bool) {
	switch {
	case s.place == ready:
	case flush || now.Sub(s.taken) >= window:
		s.place = ready
		ss.ready = append(ss.ready, s)
	case s.place == idle:
		s.place = batched
		ss.batched = append(ss.batched, s)
		if ss.batchAt.IsZero() {
			ss.batchAt = now.Add(window)
		}
	}
}

// markAll publishes every service's completeness.
func (ss *services) markAll(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(ss.known)) {
		s := ss.known[name]
		s.flipped = true
		ss.mark(now, s, true)
	}
}

// drop forgets a service. Its number is never given again: a cursor from before must not find its
// place in what comes after.
func (ss *services) drop(s *service) {
	delete(ss.known, s.name)
	ss.floor = max(ss.floor, s.number)
}

// batch is one change of one service, as the table had it when it was taken.
type batch struct {
	service   string
	number    uint64
	complete  bool
	instances []eider.Instance
	gone      []eider.Gone
}

// take collects the lines of ready services and numbers them.
func (ss *services) take(now time.Time, table *ledger.Table, complete bool) []batch {
	if !ss.batchAt.IsZero() && !now.Before(ss.batchAt) {
		for _, s := range ss.batched {
			if s.place == batched {
				s.place = ready
				ss.ready = append(ss.ready, s)
			}
		}
		clear(ss.batched)
		ss.batched, ss.batchAt = ss.batched[:0], time.Time{}
	}
	n := min(len(ss.ready), atATime)
	if n == 0 {
		return nil
	}
	batches := make([]batch, 0, n)
	for _, s := range ss.ready[:n] {
		s.place, s.taken = idle, now
		if b, some := s.collect(table); some || s.flipped {
			s.number++
			s.flipped = false
			b.number, b.complete = s.number, complete
			batches = append(batches, b)
		}
	}
	left := copy(ss.ready, ss.ready[n:])
	clear(ss.ready[left:])
	ss.ready = ss.ready[:left]
	return batches
}

// collect asks the table for the lines that changed, and tells whether there are any.
func (s *service) collect(table *ledger.Table) (batch, bool) {
	b := batch{service: s.name}
	for _, id := range slices.Sorted(maps.Keys(s.changed)) {
		key := eider.Key{Service: s.name, ID: id}
		if in, ok := table.Instance(key); ok {
			b.instances = append(b.instances, in)
		} else if gone, ok := table.GoneOf(key); ok {
			b.gone = append(b.gone, gone)
		}
	}
	if len(s.changed) > 1024 { // a cleared map keeps its size
		s.changed = make(map[string]struct{})
	}
	clear(s.changed)
	return b, len(b.instances)+len(b.gone) > 0
}

// forget drops services that neither the table nor a watcher knows any more.
func (r *Registry) forget() {
	for name := range r.services.known {
		r.tidy(name)
	}
}

// tidy drops a service that nothing is known of, once nobody watches it any more.
func (r *Registry) tidy(name string) {
	s := r.services.known[name]
	if s != nil && s.place == idle && len(s.owned) == 0 && !r.table.Knows(name) && r.hub.Forget(name) {
		r.services.drop(s)
	}
}

// boundSlack is told on top of a bound that has grown. Retry-afters raise it while a node is overloaded:
// that must not bring every process a notice each second, and a bound may be told too long, never too short.
const boundSlack = 5 * time.Second

// pushBounds tells attached processes of a bound that is longer than they know, or that stands still at
// another value.
func (r *Registry) pushBounds() {
	for name, s := range r.services.known {
		if len(s.owned) == 0 {
			continue
		}
		bound := r.table.Bound(name)
		still := bound == s.seen
		s.seen = bound
		switch {
		case bound > s.bound:
			s.bound = bound + boundSlack
		case still && bound != s.bound:
			s.bound = bound
		default:
			continue
		}
		for _, o := range s.owned {
			o.bound = true
			o.by.queue(o)
		}
	}
}
