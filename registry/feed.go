package registry

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/retry"
)

// feed is one service on a watch stream: what is held of it, and what its followers owe. All of it is
// guarded by the watcher's mutex.
//
//	idle ──Subscribe──► asked ──view──► current ──view…
//	 ▲                    │ no view       │ a change to something else
//	 └────────────────────┴───────────────┘ again, from the start; a second time in vain: the stream is stuck
type feed struct {
	service   string
	followers []*Subscription
	held      held
	version   uint64 // counts what followers are woken for
	current   bool   // the view is being kept current
	why       error  // why it isn't, as far as is known
	queued    bool   // in watcher.todo

	asked   bool      // Subscribe was sent on this stream
	askedAt time.Time // when
	afresh  bool      // without a cursor: what is held is no base for the node's changes
	viewBy  time.Time // a view must have come by then; zero: it needn't
	mute    int       // questions in a row without a view
	tries   int       // questions in a row that had to be put again
	retryAt time.Time // none before

	acked   ackState // what was last said on this stream
	ackedAt time.Time
	ackBy   time.Time // a cursor alone is acknowledged no earlier
	owing   bool      // a follower has said something since

	rejudged map[string]struct{} // ids on which the word may have changed
	told     map[string]uint64   // the nonce of whom this stream has told something else of than closed, by id
}

// ackState is what an acknowledgement says.
type ackState struct {
	at            eider.Cursor
	letGo         []eider.Departure
	noAlternative []eider.Departure
}

// again forgets what was said on the stream before.
func (f *feed) again(afresh bool) {
	f.asked, f.afresh, f.viewBy = false, afresh, time.Time{}
	f.rejudgeAll()
}

// stale tells the followers that the view isn't kept current any more. It stays.
func (f *feed) stale(why error) {
	if f.current || f.why == nil {
		f.current, f.why = false, why
		f.wakeAll()
	}
	f.why = why
}

func (f *feed) wakeAll() {
	f.version++
	for _, s := range f.followers {
		if s.pushed != nil {
			s.w.pushes = append(s.w.pushes, s)
		} else {
			s.ring()
		}
	}
}

// without takes a follower out and returns the rest.
func (f *feed) without(s *Subscription) []*Subscription {
	if i := slices.Index(f.followers, s); i >= 0 {
		f.followers = slices.Delete(f.followers, i, i+1)
	}
	return f.followers
}

// due returns what is to be said of this service now, and when to look again; zero: when it is queued anew.
func (f *feed) due(now time.Time, w *watcher) (m *pb.WatchRequest, again time.Time, err error) {
	if len(f.followers) == 0 {
		return nil, time.Time{}, nil
	}
	if !f.viewBy.IsZero() && !now.Before(f.viewBy) {
		if f.mute++; f.mute > 1 {
			return nil, time.Time{}, eider.Errorf(eider.Unavailable, "follow "+f.service, "no view came within %s of asking for it twice; the stream was cut", viewWithin)
		}
		f.again(true)
	}
	if !f.asked {
		if now.Before(f.retryAt) {
			return nil, f.retryAt, nil
		}
		m = f.subscribe(now, w)
	} else if m, again = f.acknowledge(now, w.run); m != nil || !again.IsZero() {
		return m, again, nil
	}
	if f.owing {
		return m, now, nil
	}
	return m, f.viewBy, nil
}

// acknowledge returns the acknowledgement that is due, or when one will be.
func (f *feed) acknowledge(now time.Time, run uint64) (*pb.WatchRequest, time.Time) {
	if !f.owing {
		return nil, time.Time{}
	}
	next := f.joined(run)
	news := !same(next.letGo, f.acked.letGo) || !same(next.noAlternative, f.acked.noAlternative)
	if !news && next.at == f.acked.at {
		f.owing = false
		return nil, time.Time{}
	}
	if !news && now.Before(f.ackBy) {
		return nil, f.ackBy
	}
	f.owing, f.acked, f.ackedAt = false, next, now
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Ack{Ack: &pb.Ack{
		Service: f.service, Cursor: wire.FromCursor(next.at),
		LetGo: wire.FromDepartures(next.letGo), NoAlternative: wire.FromDepartures(next.noAlternative),
	}}}, f.viewBy
}

// subscribe asks for the service, from the view held on if that may be a base, and names what this process
// has let go of.
func (f *feed) subscribe(now time.Time, w *watcher) *pb.WatchRequest {
	m := &pb.Subscribe{Service: f.service}
	f.asked, f.askedAt, f.viewBy = true, now, now.Add(viewWithin)
	if v := f.held.view; v != nil && !f.afresh {
		m.Cursor = wire.FromCursor(v.Cursor)
		if v.Cursor.Run == w.run { // nothing comes unless something has changed
			f.viewBy = time.Time{}
			f.fresh()
		}
	}
	f.acked = ackState{}
	if !w.observer {
		next := f.joined(w.run)
		f.acked.letGo = next.letGo
		f.owing = len(next.noAlternative) > 0 || next.at != (eider.Cursor{})
		m.LetGo = wire.FromDepartures(next.letGo)
	}
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Subscribe{Subscribe: m}}
}

// fresh tells the followers that the view is being kept current.
func (f *feed) fresh() {
	f.why = nil
	if !f.current {
		f.current = true
		f.wakeAll()
	}
}

// take puts a node's message on what is held. It returns true if the writer has to ask anew.
func (f *feed) take(m *wire.View, now time.Time) (askAnew bool) {
	if !f.asked || f.afresh && m.Base != 0 {
		return false // on its way from before a question; viewBy bounds the wait for the answer
	}
	next, err := f.held.take(m, f.afresh)
	if err != nil {
		f.putOff(now, retry.Backoff{}.Delay(f.tries, rand.Float64()))
		f.again(true)
		return true
	}
	news := next.view != f.held.view
	f.held = next
	f.afresh, f.viewBy, f.mute = false, time.Time{}, 0
	if news {
		f.bury(next.view)
		f.why, f.current = nil, true
		f.wakeAll()
	} else {
		f.fresh()
	}
	return false
}

// problem takes the node's refusal to serve the service: it is asked again later.
func (f *feed) problem(err error, now time.Time, rnd float64) {
	if err == nil {
		err = eider.Errorf(eider.Internal, "follow "+f.service, "the registry doesn't serve it and didn't say why")
	}
	f.putOff(now, waitFor(err, f.tries, rnd))
	f.again(f.afresh)
	f.stale(err)
}

// putOff has the next question wait. What went well for a while begins anew.
func (f *feed) putOff(now time.Time, wait time.Duration) {
	if now.Sub(f.askedAt) >= steadyAfter {
		f.tries = 0
	}
	f.tries++
	f.retryAt = now.Add(wait)
}
