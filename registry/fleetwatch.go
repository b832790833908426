package registry

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/retry"
)

// fleetWatcher is the process' stream for the fleet breakers that it watches: one for all keys. It is opened with the
// first watch, and when it is lost every watch ends: whoever shares a breaker is to know at once.
type fleetWatcher struct {
	reg  *Registry
	rung chan struct{}

	mu      sync.Mutex
	started bool
	wanted  chan struct{} // a watch has come while there was no stream
	up      bool
	numbers uint64 // given; a watch that comes again gets another
	watches map[uint64]*fleetWatch
	over    []uint64 // to be unfollowed
	pings   uint64
}

// fleetWatch is one watch. Its fields are guarded by the watcher's mu.
type fleetWatch struct {
	number uint64
	key    string
	said   bool          // to the node, on the present stream
	wake   chan struct{} // something has changed
	fresh  bool          // seen hasn't been yielded
	seen   eider.FleetSight
	at     time.Time
	err    error // it is over
}

func newFleetWatcher(r *Registry) *fleetWatcher {
	return &fleetWatcher{reg: r, rung: make(chan struct{}, 1), wanted: make(chan struct{}, 1), watches: map[uint64]*fleetWatch{}}
}

// Watch yields what there is of a key, and again with each new version; of several that came at once the newest. When
// the stream to the node is lost, or the handle closed, that is yielded as the last, as the context's error is; watched
// again, a node is asked again.
func (f *Fleet) Watch(ctx context.Context, key string) iter.Seq2[eider.FleetSight, error] {
	return func(yield func(eider.FleetSight, error) bool) {
		w, err := f.watch.add(key)
		if err != nil {
			yield(eider.FleetSight{}, err)
			return
		}
		defer f.watch.remove(w)
		for {
			select {
			case <-w.wake:
			case <-ctx.Done():
				yield(eider.FleetSight{}, ctx.Err())
				return
			}
			s, fresh, err := f.watch.take(w)
			if fresh && !yield(s, nil) {
				return
			}
			if err != nil {
				yield(eider.FleetSight{}, err)
				return
			}
		}
	}
}

// add begins a watch, and the stream if there is none.
func (f *fleetWatcher) add(key string) (*fleetWatch, error) {
	if !utf8.ValidString(key) {
		return nil, eider.Errorf(eider.Invalid, "watch fleet breaker", "the key %.64q isn't UTF-8; name the target in letters", key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reg.isClosed() {
		return nil, errClosed
	}
	if !f.started {
		if err := f.reg.start(f.run); err != nil {
			return nil, err
		}
		f.started = true
	}
	f.numbers++
	w := &fleetWatch{number: f.numbers, key: key, wake: make(chan struct{}, 1)}
	f.watches[w.number] = w
	if f.up {
		ring(f.rung)
	} else {
		ring(f.wanted)
	}
	return w, nil
}

func (f *fleetWatcher) remove(w *fleetWatch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watches[w.number] != w {
		return
	}
	delete(f.watches, w.number)
	if w.said {
		f.over = append(f.over, w.number)
		ring(f.rung)
	}
}

// take returns what is new of a watch.
func (f *fleetWatcher) take(w *fleetWatch) (s eider.FleetSight, fresh bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, fresh, err = w.seen, w.fresh, w.err
	if w.fresh = false; fresh && s.Version != 0 {
		s.Age += time.Since(w.at)
	}
	return s, fresh, err
}

// run holds a stream open while it is wanted, until Close.
func (f *fleetWatcher) run() {
	defer f.lost(errClosed)
	pauses := retry.Backoff{Max: time.Second} // whoever watches again at once must not dial in a loop
	for attempt := 0; ; {
		select {
		case <-f.wanted:
		case <-f.reg.closing.Done():
			return
		}
		if !f.watched() {
			continue
		}
		s := session[pb.FollowRequest, pb.FollowReply]{reg: f.reg, side: f, up: func() {}}
		lived, err := s.once()
		f.lost(err)
		if errors.Is(err, errMoved) { // to another node: what it has is told, as news
			continue
		}
		if lived >= steadyAfter {
			attempt = 0
		}
		if !f.reg.pause(atLeast(err, pauses.Delay(attempt, rand.Float64()), rand.Float64())) {
			return
		}
		attempt++
	}
}

func (f *fleetWatcher) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watches) > 0
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

func (f *fleetWatcher) bell() <-chan struct{} { return f.rung }

func (f *fleetWatcher) later() <-chan time.Time { return nil }

func (f *fleetWatcher) open(ctx context.Context, cc grpc.ClientConnInterface) (talk[pb.FollowRequest, pb.FollowReply], error) {
	return pb.NewFleetClient(cc).Follow(ctx)
}

func (f *fleetWatcher) hello() *pb.FollowRequest {
	return &pb.FollowRequest{Kind: &pb.FollowRequest_Hello{Hello: &pb.Hello{Caller: f.reg.caller, Version: clientVersion}}}
}

func (f *fleetWatcher) welcome(m *pb.FollowReply) *pb.Welcome { return m.GetWelcome() }

func (f *fleetWatcher) opened(*pb.Welcome, *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up, f.over = true, nil
	for _, w := range f.watches {
		w.said = false
	}
}

// lost ends every watch, unless another stream takes their place at once.
func (f *fleetWatcher) lost(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up = false
	if errors.Is(err, errMoved) {
		ring(f.wanted)
		return
	}
	for number, w := range f.watches {
		f.end(number, w, err)
	}
}

// end ends a watch. Called with f.mu held.
func (f *fleetWatcher) end(number uint64, w *fleetWatch, err error) {
	w.err = err
	delete(f.watches, number)
	ring(w.wake)
}

func (f *fleetWatcher) due(time.Time) (say []*pb.FollowRequest, again time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, number := range f.over {
		say = append(say, &pb.FollowRequest{Kind: &pb.FollowRequest_Unfollow{Unfollow: number}})
	}
	f.over = nil
	for _, w := range f.watches {
		if !w.said {
			w.said = true
			say = append(say, &pb.FollowRequest{Kind: &pb.FollowRequest_Follow{Follow: &pb.Key{Number: w.number, Key: w.key}}})
		}
	}
	return say, time.Time{}, nil
}

func (f *fleetWatcher) ping() *pb.FollowRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pings++
	return &pb.FollowRequest{Kind: &pb.FollowRequest_Ping{Ping: &pb.Ping{Number: f.pings}}}
}

func (f *fleetWatcher) parting() (last *pb.FollowRequest, gracefully bool) { return nil, true }

func (f *fleetWatcher) moving() *pb.FollowRequest { return nil }

func (f *fleetWatcher) heard(m *pb.FollowReply) (answer bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch kind := m.GetKind().(type) {
	case *pb.FollowReply_Pong:
		return kind.Pong.GetNumber() == f.pings, nil
	case *pb.FollowReply_Seen:
		number := kind.Seen.GetNumber()
		w := f.watches[number]
		if w == nil { // it has ended meanwhile
			return false, nil
		}
		if e := kind.Seen.GetError(); e != nil {
			f.end(number, w, wire.ToError("watch fleet breaker "+w.key, e))
			return false, nil
		}
		w.seen, w.at, w.fresh = wire.ToSight(kind.Seen.GetSight()), time.Now(), true
		ring(w.wake)
	case *pb.FollowReply_End:
		return false, toEnded(kind.End)
	}
	return false, nil
}
