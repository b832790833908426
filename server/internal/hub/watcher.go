package hub

import (
	"context"
	"sync"
	"sync/atomic"
)

// batch bounds the frames of one Next, so that the first of a thousand snapshots isn't sent after the
// last is built.
const batch = 64

// Watcher is one reader of any number of topics. Subscribe, Unsubscribe and Close may be called from
// any goroutine, Next by one at a time.
type Watcher struct {
	hub *Hub

	// changed is a stack of subscriptions with news, linked through themselves: publishers push without
	// a lock or an allocation, the reader takes all at once. Whoever pushes the first sends the wake-up.
	changed atomic.Pointer[subscription]
	wake    chan struct{}
	closed  atomic.Bool

	mu   sync.Mutex
	subs map[string]*subscription // nil once closed, or when empty
	told [][]byte                 // frames for this watcher alone, the oldest first
	tell atomic.Bool              // there are some

	todo   *subscription // the reader's: taken from changed, oldest first
	frames [][]byte      // the reader's: what Next returned last
}

// subscription is one watcher of one topic.
type subscription struct {
	watcher *Watcher
	topic   *topic
	place   int // in the topic's list; guarded by the topic's lock

	marked atomic.Bool   // in the watcher's stack, or about to be
	next   *subscription // in the stack; belongs to whoever set marked, then to the reader
	over   atomic.Bool

	number uint64 // the reader's, after Subscribe: where the watcher stands; 0 is nowhere
	asked  bool   // the reader's: Subscribe hasn't been answered
}

// Subscribe begins to watch a topic, or begins again: number is the last change that the watcher has,
// 0 if none. It is answered by at least one frame.
func (w *Watcher) Subscribe(name string, number uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() {
		return ErrClosed
	}
	old := w.subs[name]
	if old == nil && len(w.subs) >= w.hub.cfg.MaxSubscriptions {
		return ErrSubscriptions
	}
	if old != nil {
		w.drop(old)
	}
	s := &subscription{watcher: w, number: number, asked: true}
	for joined := false; !joined; {
		t := w.hub.topic(name)
		if t == nil {
			return ErrClosed
		}
		joined = t.join(s)
	}
	if w.subs == nil {
		w.subs = make(map[string]*subscription, 1)
	}
	w.subs[name] = s
	w.hub.counts.subscriptions.Add(1)
	w.mark(s)
	return nil
}

// Unsubscribe ends the watching of a topic. A frame that the reader already holds may still come after it.
func (w *Watcher) Unsubscribe(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.subs[name]; s != nil {
		w.drop(s)
	}
}

// maxTold bounds the frames that wait for one watcher alone.
const maxTold = 64

// Tell has a frame sent to this watcher alone, after all that was published before. Of a watcher that doesn't read,
// the oldest are dropped.
func (w *Watcher) Tell(frame []byte) {
	w.mu.Lock()
	if !w.closed.Load() {
		if len(w.told) == maxTold {
			w.told = w.told[:copy(w.told, w.told[1:])]
		}
		w.told = append(w.told, frame)
		w.tell.Store(true)
	}
	w.mu.Unlock()
	w.signal()
}

// Topics returns the names of the topics watched, in no order.
func (w *Watcher) Topics() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, 0, len(w.subs))
	for name := range w.subs {
		names = append(names, name)
	}
	return names
}

// Close ends the watching of all topics and makes Next return [ErrClosed], also one that waits.
func (w *Watcher) Close() {
	w.mu.Lock()
	for _, s := range w.subs {
		w.drop(s)
	}
	w.subs = nil
	w.told = nil
	w.closed.Store(true)
	w.mu.Unlock()
	w.signal()

	w.hub.mu.Lock()
	delete(w.hub.watchers, w)
	w.hub.mu.Unlock()
}

// drop ends a subscription, under w.mu.
func (w *Watcher) drop(s *subscription) {
	s.over.Store(true)
	delete(w.subs, s.topic.name)
	w.hub.counts.subscriptions.Add(-1)
	if s.topic.leave(s) {
		w.hub.Forget(s.topic.name)
	}
}

// Next blocks until a topic has changed, the watcher is closed or ctx ends, and returns what to send,
// in order. The frames are shared with others: don't write to them. The slice is the watcher's and is
// valid until the next call.
func (w *Watcher) Next(ctx context.Context) ([][]byte, error) {
	clear(w.frames)
	w.frames = w.frames[:0]
	for {
		if w.closed.Load() {
			return nil, ErrClosed
		}
		tell := w.tell.Load() // before the views are taken: those that came before it are
		if err := w.collect(); err != nil {
			return nil, err
		}
		if tell && w.todo == nil {
			w.hear()
		}
		if len(w.frames) > 0 {
			return w.frames, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hear appends what was told to this watcher alone.
func (w *Watcher) hear() {
	w.mu.Lock()
	w.frames = append(w.frames, w.told...)
	w.told = nil
	w.tell.Store(false)
	w.mu.Unlock()
}

// mark puts a subscription on the watcher's stack, unless it is there, and wakes the reader if the
// stack was empty.
func (w *Watcher) mark(s *subscription) {
	if s.marked.Load() || !s.marked.CompareAndSwap(false, true) {
		return
	}
	for {
		head := w.changed.Load()
		s.next = head
		if w.changed.CompareAndSwap(head, s) {
			if head == nil {
				w.signal()
			}
			return
		}
	}
}

// signal leaves at most one wake-up behind; the reader looks at everything when it takes it.
func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// collect turns changed subscriptions into frames, oldest change first. It comes back with none only
// when the stack was empty after the last wake-up was taken.
func (w *Watcher) collect() error {
	if w.todo == nil {
		for s := w.changed.Swap(nil); s != nil; {
			next := s.next
			s.next, w.todo = w.todo, s
			s = next
		}
	}
	for w.todo != nil && len(w.frames) < batch {
		s := w.todo
		w.todo, s.next = s.next, nil
		// Unmarked before the state is read: a change that this read misses marks it again.
		s.marked.Store(false)
		if s.over.Load() {
			continue
		}
		if err := w.take(s); err != nil {
			return err
		}
	}
	return nil
}

// take appends what leads one subscription to the newest state.
func (w *Watcher) take(s *subscription) error {
	now := s.topic.state.Load()
	asked := s.asked
	s.asked = false
	if s.number >= now.number && !asked {
		return nil // a snapshot was ahead of the change that woke us
	}
	if asked && s.number != 0 && s.number == now.number {
		frame, err := w.hub.cfg.Current(s.topic.name, s.number)
		if err == nil {
			w.frames = append(w.frames, frame)
		}
		return err
	}
	if deltas, ok := now.since(s.number); ok {
		for _, d := range deltas {
			w.frames = append(w.frames, d.frame)
		}
		s.number = now.number
		return nil
	}
	if !asked {
		w.hub.counts.skipped.Add(1)
	}
	whole, err := s.topic.snapshot(w.hub, now.number)
	if err != nil {
		return err
	}
	w.frames = append(w.frames, whole.frame)
	s.number = whole.number
	return nil
}
