// Package hub gives the latest state of each topic to any number of watchers, encoded once.
//
// It knows bytes and numbers only. A topic (a service) has a number that counts its published changes;
// each change comes as one encoded delta. A watcher whose number is in the bounded ring of deltas gets
// those, any other the topic's snapshot, which is built by the first who needs it and shared until the
// next change. So the cost of a change for a further watcher is a push onto its list and one wake-up:
// nothing is encoded, copied or allocated for it.
//
// Who reads takes no lock that another core wants: a topic's state is immutable behind an atomic
// pointer, and a watcher's list of changed topics is its own. Who publishes never waits for a watcher:
// a slow one finds later that the ring has moved on, and skips to the snapshot.
package hub

import (
	"errors"
	"sync"
	"sync/atomic"
)

// The errors of a hub.
var (
	ErrClosed        = errors.New("the watcher is closed")
	ErrWatchers      = errors.New("too many watchers")
	ErrSubscriptions = errors.New("too many topics on one watcher")
)

// Config sets a hub up. Snapshot and Current must be set, the zero value of every other field works.
type Config struct {
	// Snapshot returns the whole state of a topic and the number that it stands at, which is at least
	// the last published one. It's called by whoever reads first after a change, without a lock that
	// Publish takes; it must not call the hub's watchers.
	Snapshot func(topic string) (number uint64, frame []byte, err error)

	// Current returns a frame that changes nothing: it answers who subscribes at the current number.
	Current func(topic string, number uint64) (frame []byte, err error)

	MaxDeltas        int // 0 means 64; deltas kept of a topic
	MaxBytes         int // 0 means 64 KiB; bytes of deltas kept of a topic, but the newest always is
	MaxWatchers      int // 0 means 100,000
	MaxSubscriptions int // 0 means 1,000; topics on one watcher
}

// Hub is the meeting point. Its methods may be called from any goroutine; it starts none.
type Hub struct {
	cfg Config

	mu       sync.RWMutex // guards the maps; taken before a topic's
	topics   map[string]*topic
	watchers map[*Watcher]struct{}
	closed   bool

	counts counters
}

// counters are touched rarely, or by publishers: never by a reader that keeps up.
type counters struct {
	subscriptions atomic.Int64
	published     atomic.Uint64
	snapshots     atomic.Uint64
	skipped       atomic.Uint64
}

// Stats are a hub's sizes, and what it has done since it was made.
type Stats struct {
	Topics        int
	Watchers      int
	Subscriptions int
	Published     uint64 // changes
	Snapshots     uint64 // built
	Skipped       uint64 // times that a watcher was too slow for the ring and got the snapshot
}

// New returns a hub without topics and watchers.
func New(cfg Config) *Hub {
	cfg.MaxDeltas = or(cfg.MaxDeltas, 64)
	cfg.MaxBytes = or(cfg.MaxBytes, 64<<10)
	cfg.MaxWatchers = or(cfg.MaxWatchers, 100_000)
	cfg.MaxSubscriptions = or(cfg.MaxSubscriptions, 1_000)
	return &Hub{cfg: cfg, topics: make(map[string]*topic), watchers: make(map[*Watcher]struct{})}
}

func or(set, otherwise int) int {
	if set > 0 {
		return set
	}
	return otherwise
}

// Publish makes number the topic's newest: frame is the change from number-1. It wakes the topic's
// watchers and nobody else, and waits for none. Each topic is published by one goroutine at a time, in
// the order of numbers; a number that isn't the next one empties the ring, one that isn't newer does
// nothing. The frame belongs to the hub from now on.
func (h *Hub) Publish(name string, number uint64, frame []byte) {
	for {
		t := h.topic(name)
		if t == nil {
			return
		}
		if t.publish(&h.cfg, number, frame) {
			h.counts.published.Add(1)
			return
		}
	}
}

// Watch opens a watcher of nothing yet. Whoever opens it closes it.
func (h *Hub) Watch() (*Watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	if len(h.watchers) >= h.cfg.MaxWatchers {
		return nil, ErrWatchers
	}
	w := &Watcher{hub: h, wake: make(chan struct{}, 1)}
	h.watchers[w] = struct{}{}
	return w, nil
}

// Forget drops a topic that nobody watches and tells whether it is gone.
func (h *Hub) Forget(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.subs) > 0 {
		return false
	}
	t.dropped = true
	delete(h.topics, name)
	return true
}

// Stats returns the hub's sizes and counts.
func (h *Hub) Stats() Stats {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return Stats{Topics: len(h.topics), Watchers: len(h.watchers), Subscriptions: int(h.counts.subscriptions.Load()),
		Published: h.counts.published.Load(), Snapshots: h.counts.snapshots.Load(), Skipped: h.counts.skipped.Load()}
}

// Close closes every watcher, for good; publishing does nothing from then on.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	open := make([]*Watcher, 0, len(h.watchers))
	for w := range h.watchers {
		open = append(open, w)
	}
	h.mu.Unlock()
	for _, w := range open {
		w.Close()
	}
}

// topic returns the topic, made if it is new; nil once the hub is closed.
func (h *Hub) topic(name string) *topic {
	h.mu.RLock()
	t, closed := h.topics[name], h.closed
	h.mu.RUnlock()
	if closed {
		return nil
	}
	if t != nil {
		return t
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if t = h.topics[name]; t == nil {
		t = &topic{name: name}
		t.state.Store(&state{})
		h.topics[name] = t
	}
	return t
}
