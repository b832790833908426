package hub

import (
	"sync"
	"sync/atomic"
)

// topic is one service: what it is now, and who wants to know.
type topic struct {
	name  string
	state atomic.Pointer[state]

	building sync.Mutex            // one snapshot is built at a time, for all who wait for it
	whole    atomic.Pointer[delta] // the last one built; nil once it is older than the state

	mu      sync.Mutex // guards what follows, and the order of publishes; never taken to read the state
	subs    []*subscription
	dropped bool // out of the hub's map: whoever still holds the topic looks it up again
}

// state is a topic at one number. It is immutable.
type state struct {
	number uint64 // of the newest change; 0: none was published
	ring   []delta
	bytes  int // of the ring
	dead   int // slots of its array before the ring's first, which still hold what was let go
}

// delta is an encoded change to number from the one before it; in topic.whole the whole at number.
type delta struct {
	number uint64
	frame  []byte
}

// publish tells whether the topic is still the hub's; a dropped one must be looked up again.
func (t *topic) publish(cfg *Config, number uint64, frame []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped {
		return false
	}
	old := t.state.Load()
	if number <= old.number {
		return true
	}
	next := &state{number: number}
	if number == old.number+1 {
		next.ring, next.bytes, next.dead = old.ring, old.bytes, old.dead
	}
	next.push(cfg, delta{number, frame})
	t.state.Store(next)
	if whole := t.whole.Load(); whole != nil && whole.number < number {
		t.whole.CompareAndSwap(whole, nil) // by now a newer one may be there
	}
	for _, s := range t.subs {
		s.watcher.mark(s)
	}
	return true
}

// push adds the newest delta and lets the oldest go until the bounds hold. The ring's array is shared
// with older states: what they see is never overwritten, since a ring only grows past its own end. It
// moves when more slots are dead than alive, so the array holds at most twice the bounds.
func (s *state) push(cfg *Config, d delta) {
	s.bytes += len(d.frame)
	for len(s.ring) > 0 && (len(s.ring) >= cfg.MaxDeltas || s.bytes > cfg.MaxBytes) {
		s.bytes -= len(s.ring[0].frame)
		s.ring = s.ring[1:]
		s.dead++
	}
	if s.dead > len(s.ring) {
		s.ring, s.dead = append(make([]delta, 0, 2*len(s.ring)+2), s.ring...), 0
	}
	s.ring = append(s.ring, d)
}

// since returns the deltas that lead from number to the newest one; false if the ring doesn't reach back.
func (s *state) since(number uint64) ([]delta, bool) {
	behind := s.number - number
	if number == 0 || number > s.number || behind > uint64(len(s.ring)) {
		return nil, false
	}
	return s.ring[uint64(len(s.ring))-behind:], true
}

// snapshot returns the whole at a number or a later one. Under churn, whoever comes while one is built
// shares the next: the builds of a topic never run beside each other.
func (t *topic) snapshot(h *Hub, number uint64) (*delta, error) {
	if whole := t.whole.Load(); whole != nil && whole.number >= number {
		return whole, nil
	}
	t.building.Lock()
	defer t.building.Unlock()
	if whole := t.whole.Load(); whole != nil && whole.number >= number {
		return whole, nil
	}
	whole := new(delta)
	var err error
	if whole.number, whole.frame, err = h.cfg.Snapshot(t.name); err != nil {
		return nil, err
	}
	h.counts.snapshots.Add(1)
	t.whole.Store(whole)
	return whole, nil
}

// join adds a subscription; false if the topic was dropped and must be looked up again.
func (t *topic) join(s *subscription) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped {
		return false
	}
	s.topic, s.place = t, len(t.subs)
	t.subs = append(t.subs, s)
	return true
}

// leave removes a subscription and tells whether the topic is of no use any more: unwatched and never
// published.
func (t *topic) leave(s *subscription) (useless bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.subs) - 1
	t.subs[s.place] = t.subs[last]
	t.subs[s.place].place = s.place
	t.subs[last] = nil
	t.subs = t.subs[:last]
	return last == 0 && t.state.Load().number == 0
}
