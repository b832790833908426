package registry

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/retry"
)

// Follow subscribes as a caller: this process now owes acknowledgements. It is for what picks
// instances; package roster is built on it. The service's name is folded to lower case.
func (r *Registry) Follow(service string) (*Subscription, error) { return r.follow.join(service) }

// Subscription is one follower of a service. Several in one process share one stream; a departure is
// acknowledged once all of them have let go.
type Subscription struct {
	w    *watcher
	feed *feed
	wake chan struct{} // one token: there is news
	done chan struct{} // closed by Close

	pushing chan struct{} // holds one while pushed is called; taken before w.mu

	// Guarded by w.mu.
	pushed func(Update) // nil: Next is used; set once
	tried  func(*Trial) // nil: trials are others'; set once
	closed bool
	seen   uint64 // the feed's version that Next returned last
	acks   ackState

	verdicts map[string]eider.Verdict // that aren't closed, by id
}

// Update is the newest view and what is known of its freshness.
type Update struct {
	View      *eider.View   // nil until the first has come
	Connected bool          // the view is being kept current
	Heard     time.Time     // when the registry was last heard
	Lease     time.Duration // the node's default lease: how long an absent instance stays suspect
	Err       error         // why it isn't connected, as far as is known
	FromDisk  bool          // no node has said it: a roster read it from disk, as it was when Heard
}

// Next blocks until there is something newer than what it returned before: a view, or another Connected. What
// came between is skipped. Its errors are ctx's, and eider.Closed. One goroutine at a time may call it.
func (s *Subscription) Next(ctx context.Context) (Update, error) {
	for !s.w.reg.isClosed() {
		if u, news := s.next(); news {
			return u, nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return Update{}, ctx.Err()
		case <-s.done:
			return Update{}, eider.Errorf(eider.Closed, "follow "+s.feed.service, "the subscription is closed")
		case <-s.w.reg.closing.Done():
		}
	}
	return Update{}, errClosed
}

// next is news for who calls Next.
func (s *Subscription) next() (Update, bool) {
	s.w.mu.Lock()
	pushed := s.pushed != nil
	s.w.mu.Unlock()
	if pushed {
		return Update{}, false
	}
	return s.news()
}

// news returns the newest state, if Next hasn't returned it yet.
func (s *Subscription) news() (Update, bool) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	f := s.feed
	if s.closed || s.seen == f.version {
		return Update{}, false
	}
	s.seen = f.version
	return Update{View: f.held.view, Connected: f.current, Heard: s.w.heardAt, Lease: s.w.lease, Err: f.why}, true
}

func (s *Subscription) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Ack says that this follower has switched to the view at the cursor, what it has let go of, and what
// it can't for want of an alternative. Departures stay named until a later Ack leaves them out. It doesn't block.
func (s *Subscription) Ack(at eider.Cursor, letGo, noAlternative []eider.Departure) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.closed || s.w.observer {
		return
	}
	s.acks.at = at
	news := false
	if !same(s.acks.letGo, letGo) {
		s.acks.letGo, news = slices.Clone(letGo), true
	}
	if !same(s.acks.noAlternative, noAlternative) {
		s.acks.noAlternative, news = slices.Clone(noAlternative), true
	}
	f := s.feed
	waits := f.owing // for its time, with what was owed before
	f.owing = true
	if !news {
		if waits {
			return
		}
		now := time.Now()
		f.ackBy = now.Add(retry.Early(ackAfter, 0.25, rand.Float64()))
		if at := f.ackedAt.Add(ackEvery); at.After(f.ackBy) {
			f.ackBy = at
		}
		s.w.queueLate(f, now, f.ackBy)
		return
	}
	s.w.queue(f)
}

// Doubt reports that a dial of the instance was refused, by a caller without a recent success there.
func (s *Subscription) Doubt(d eider.Departure) {
	if !s.w.observer {
		d.Service = s.feed.service
		s.w.doubt(d)
	}
}

// Close ends the following; when it is the last of its service in this process, drains of the service no
// longer wait for it. What Push was given isn't running any more when it returns.
func (s *Subscription) Close() {
	s.w.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		s.w.leave(s)
	}
	s.w.mu.Unlock()
	s.pushing <- struct{}{} // awaits whoever is pushing; nobody begins to, now that it is closed
	<-s.pushing
}

// joined is what all followers of the service say together, as far as one message has room for it.
func (f *feed) joined(run uint64) ackState {
	all := f.together(run)
	room := largestNaming
	all.letGo, room = fit(all.letGo, room)
	all.noAlternative, _ = fit(all.noAlternative, room)
	return all
}

// largestNaming bounds the departures that a message names, in bytes: a node reads no message above 64 KiB, and
// would end the stream for it, again and again. Drains of those that aren't named wait for their caps.
const largestNaming = 60 << 10

// fit returns the first departures that have room, and how much is left.
func fit(list []eider.Departure, room int) ([]eider.Departure, int) {
	for i := range list {
		need := len(list[i].ID) + 16 // with the nonce, and what protobuf puts around both
		if list[i].Hold != 0 {
			need += 11
		}
		if need > room {
			return list[:i], 0
		}
		room -= need
	}
	return list, room
}

// together is the oldest of the followers' cursors in this node run, what all of them have let go of, and what
// any of them can't.
func (f *feed) together(run uint64) ackState {
	first := f.followers[0].acks
	if first.at.Run != run {
		first.at = eider.Cursor{}
	}
	if len(f.followers) == 1 {
		return first
	}
	all := ackState{at: first.at}
	for _, s := range f.followers[1:] {
		if s.acks.at.Run != run {
			all.at = eider.Cursor{}
		} else if s.acks.at.Number < all.at.Number {
			all.at = s.acks.at
		}
	}
	for _, d := range first.letGo {
		if f.each(func(s *Subscription) bool { return names(s.acks.letGo, d) }) {
			all.letGo = append(all.letGo, d)
		}
	}
	for _, s := range f.followers {
		for _, d := range s.acks.noAlternative {
			if !names(all.noAlternative, d) {
				all.noAlternative = append(all.noAlternative, d)
			}
		}
	}
	return all
}

func (f *feed) each(holds func(*Subscription) bool) bool {
	return !slices.ContainsFunc(f.followers, func(s *Subscription) bool { return !holds(s) })
}

// names tells whether a departure is in the list.
func names(list []eider.Departure, d eider.Departure) bool {
	return slices.ContainsFunc(list, func(have eider.Departure) bool { return alike(have, d) })
}

// same tells whether two lists name the same departures in the same order.
func same(a, b []eider.Departure) bool { return slices.EqualFunc(a, b, alike) }

// alike tells whether both name the same departure: the id, the incarnation by its nonce, and what it is let go
// for. Letting go for a hold is never letting go for a leave: a hold may be released in between.
func alike(a, b eider.Departure) bool {
	return a.ID == b.ID && a.Incarnation.Is(b.Incarnation) && a.Hold == b.Hold
}
