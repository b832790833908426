package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

const (
	ackAfter   = 25 * time.Millisecond  // acknowledgements that say nothing but a cursor wait: views go first
	ackEvery   = 100 * time.Millisecond // and travel no more often
	viewWithin = 10 * time.Second       // from a subscription to its first view; without one the stream is stuck
	maxDoubts  = 64                     // refused dials waiting to be told; a burst of more says no more
)

// watcher is the process' stream for the services that it follows, as a caller or as an observer: the Watch side
// of [keep]. It holds the newest view of each and wakes who waits for it; nothing is queued.
type watcher struct {
	reg      *Registry
	observer bool
	rung     chan struct{}
	late     *time.Timer // rings for what may wait

	mu      sync.Mutex
	started bool
	feeds   map[string]*feed
	run     uint64    // of the node on the present stream; 0: there is none
	heardAt time.Time // when a node was last heard
	lease   time.Duration
	why     error // why there's no stream

	pushes   []*Subscription // to be pushed to once mu is free
	offers   []offer         // likewise
	todo     []*feed         // feeds with something due
	lateAt   time.Time       // what late is set to; zero: nothing
	unfollow []string
	doubts   []*pb.Doubt
	judged   bool      // the node on the present stream takes verdicts
	judging  bool      // some are to be told
	judgeBy  time.Time // not before
	verdicts int       // kept, of all followers
	pings    uint64
}

func newWatcher(r *Registry, observer bool) *watcher {
	late := time.NewTimer(time.Hour)
	late.Stop()
	return &watcher{reg: r, observer: observer, rung: make(chan struct{}, 1), late: late, feeds: make(map[string]*feed), lease: defaultLease}
}

// join adds a follower of a service, and begins to watch if it is the first of all.
func (w *watcher) join(service string) (*Subscription, error) {
	service = eider.FoldService(service)
	if err := eider.CheckService(service); err != nil {
		return nil, &eider.Error{Op: "follow", Kind: eider.Invalid, Err: err}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reg.isClosed() {
		return nil, errClosed
	}
	if !w.started {
		what := "watch"
		if w.observer {
			what = "observe"
		}
		if err := w.reg.start(func() { keep(w.reg, what, w) }); err != nil {
			return nil, err
		}
		w.started = true
	}
	f := w.feeds[service]
	if f == nil {
		f = &feed{service: service, why: w.why}
		if f.why != nil {
			f.version++
		}
		w.feeds[service] = f
		w.queue(f)
	}
	s := &Subscription{w: w, feed: f, wake: make(chan struct{}, 1), done: make(chan struct{}), pushing: make(chan struct{}, 1)}
	f.followers = append(f.followers, s)
	if len(f.acked.letGo) > 0 { // by the others: this one hasn't let go of anybody, which a node must not go on believing
		f.owing = true
		w.queue(f)
	}
	return s, nil
}

// leave takes a follower out, and unsubscribes if it was the last of its service. Called with w.mu held.
func (w *watcher) leave(s *Subscription) {
	s.forgetAll()
	if len(s.feed.without(s)) > 0 {
		s.feed.owing = true // the others may have let go of what this one hadn't
		w.queue(s.feed)
		return
	}
	delete(w.feeds, s.feed.service) // its verdicts end with it at the node
	if s.feed.asked {
		w.unfollow = append(w.unfollow, s.feed.service)
	}
	w.ring()
}

// queue has the writer look at a feed. Called with w.mu held.
func (w *watcher) queue(f *feed) {
	w.add(f)
	w.ring()
}

func (w *watcher) add(f *feed) {
	if !f.queued {
		f.queued = true
		w.todo = append(w.todo, f)
	}
}

// queueLate has the writer look at a feed at a time, if it doesn't look earlier. Called with w.mu held.
func (w *watcher) queueLate(f *feed, now, at time.Time) {
	w.add(f)
	if w.lateAt.IsZero() || at.Before(w.lateAt) {
		w.lateAt = at
		w.late.Reset(at.Sub(now))
	}
}

func (w *watcher) ring() {
	select {
	case w.rung <- struct{}{}:
	default:
	}
}

func (w *watcher) bell() <-chan struct{} { return w.rung }

func (w *watcher) later() <-chan time.Time { return w.late.C }

func (w *watcher) open(ctx context.Context, cc grpc.ClientConnInterface) (talk[pb.WatchRequest, incoming], error) {
	stream, err := pb.NewRegistryClient(cc).Watch(ctx, grpc.ForceCodecV2(viewCodec{}))
	if err != nil {
		return nil, err
	}
	return &watchStream{ClientStream: stream, in: incoming{known: w.known}}, nil
}

// known returns what is held of a service, for the reader to compare with.
func (w *watcher) known(service []byte) *eider.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.feeds[string(service)]; f != nil {
		return f.held.view
	}
	return nil
}

func (w *watcher) hello() *pb.WatchRequest {
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Hello{Hello: &pb.Hello{
		Caller: w.reg.caller, Version: clientVersion, Observer: w.observer}}}
}

func (w *watcher) welcome(m *incoming) *pb.Welcome { return m.reply.GetWelcome() }

func (w *watcher) opened(m *pb.Welcome, _ *link) {
	if !w.observer {
		w.reg.meter.Opened("watch")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run, w.why, w.heardAt = m.GetRun(), nil, time.Now()
	w.unfollow, w.doubts = nil, nil // what this stream never knew needn't be taken back
	w.judged, w.judgeBy = m.GetVerdicts(), time.Time{}
	if ms := m.GetLeaseMs(); ms != 0 {
		w.lease = wire.ToDuration(ms)
	}
	for _, f := range w.feeds {
		clear(f.told)
		f.again(false)
		w.queue(f)
	}
}

func (w *watcher) lost(err error) {
	w.mu.Lock()
	defer w.unlock()
	w.run = 0
	moved := errors.Is(err, errMoved)
	if !moved {
		w.why = err
	}
	for _, f := range w.feeds {
		f.asked = false
		if !moved { // to another connection, which takes a moment: no news for anybody
			f.stale(err)
		}
	}
}

func (w *watcher) due(now time.Time) (say []*pb.WatchRequest, again time.Time, err error) {
	w.mu.Lock()
	defer w.unlock()
	for _, service := range w.unfollow {
		say = append(say, &pb.WatchRequest{Kind: &pb.WatchRequest_Unsubscribe{Unsubscribe: &pb.Unsubscribe{Service: service}}})
	}
	for _, d := range w.doubts {
		say = append(say, &pb.WatchRequest{Kind: &pb.WatchRequest_Doubt{Doubt: d}})
	}
	w.unfollow, w.doubts = nil, nil
	if !now.Before(w.lateAt) {
		w.lateAt = time.Time{}
	}
	waiting := w.todo[:0]
	for _, f := range w.todo {
		m, at, err := f.due(now, w)
		if err != nil {
			return nil, time.Time{}, err // the next stream asks for every feed anew
		}
		if m != nil {
			say = append(say, m)
		}
		if f.queued = !at.IsZero(); f.queued {
			waiting = append(waiting, f)
			if again.IsZero() || at.Before(again) {
				again = at
			}
		}
	}
	clear(w.todo[len(waiting):])
	w.todo = waiting
	verdicts, at := w.judge(now)
	if !at.IsZero() && (again.IsZero() || at.Before(again)) {
		again = at
	}
	return append(say, verdicts...), again, nil
}

func (w *watcher) ping() *pb.WatchRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pings++
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Ping{Ping: &pb.Ping{Number: w.pings}}}
}

func (w *watcher) parting() (last *pb.WatchRequest, gracefully bool) {
	if w.observer {
		return nil, true
	}
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Goodbye{Goodbye: &pb.Goodbye{}}}, true
}

func (w *watcher) moving() *pb.WatchRequest {
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Moving{Moving: &pb.Moving{}}}
}

func (w *watcher) heard(m *incoming) (answer bool, err error) {
	w.mu.Lock()
	defer w.unlock()
	return w.hear(m)
}

// hear takes a message. Called with w.mu held.
func (w *watcher) hear(m *incoming) (answer bool, err error) {
	w.heardAt = time.Now()
	if m.reply == nil {
		if f := w.feeds[m.view.Service]; f != nil && f.take(&m.view, w.heardAt) {
			w.queue(f)
		}
		return false, nil
	}
	switch kind := m.reply.GetKind().(type) {
	case *pb.WatchReply_Pong:
		return kind.Pong.GetNumber() == w.pings, nil
	case *pb.WatchReply_Problem:
		p := kind.Problem
		if f := w.feeds[p.GetService()]; f != nil {
			f.problem(wire.ToError("follow "+f.service, p.GetError()), w.heardAt, rand.Float64())
			w.queue(f)
		}
	case *pb.WatchReply_Trial:
		w.trial(kind.Trial)
	case *pb.WatchReply_End:
		return false, toEnded(kind.End)
	}
	return false, nil
}

// doubt has a refused dial told, if there's somebody to tell: later it would say nothing any more.
func (w *watcher) doubt(d eider.Departure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run == 0 || len(w.doubts) >= maxDoubts {
		return
	}
	w.doubts = append(w.doubts, &pb.Doubt{Service: d.Service, Id: d.ID, Nonce: d.Incarnation.Nonce})
	w.ring()
}
