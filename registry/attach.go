package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/retry"
)

// attacher is the process' stream for its instances: the Attach side of [keep].
type attacher struct {
	reg  *Registry
	rung chan struct{} // something is due

	mu       sync.Mutex
	started  bool
	listings []*Listing // all that aren't over
	keys     map[eider.Key]*Listing
	up       bool     // a node has welcomed this process
	ends     *connEnd // of the present stream
	why      error    // why there's no stream
	beat     time.Duration
	beatAt   time.Time
	saidAt   time.Time // when it was last said who isn't listed
}

func newAttacher(r *Registry) *attacher {
	return &attacher{reg: r, rung: make(chan struct{}, 1), keys: make(map[eider.Key]*Listing)}
}

// add takes a listing in, and begins to attach if it is the first.
func (a *attacher) add(l *Listing) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reg.isClosed() {
		return errClosed
	}
	held := a.keys[l.rec.Key]
	if l.rec.ID != "" && held != nil && held.leaving == nil {
		return eider.Errorf(eider.Conflict, "register "+l.rec.Key.String(), "this process has it registered already; give the second instance an id of its own")
	}
	if !a.started {
		if err := a.reg.start(func() { keep(a.reg, "attach", a) }); err != nil {
			return err
		}
		a.started = true
	}
	if l.rec.ID != "" && held == nil {
		a.keys[l.rec.Key], l.claimed = l, true
	}
	a.listings = append(a.listings, l)
	if a.why != nil {
		l.state.Err = a.why
	}
	a.ring()
	return nil
}

// remove takes a listing out. Called with a.mu held.
func (a *attacher) remove(l *Listing) {
	if a.keys[l.rec.Key] == l {
		delete(a.keys, l.rec.Key)
	}
	if i := slices.Index(a.listings, l); i >= 0 {
		a.listings = slices.Delete(a.listings, i, i+1)
	}
	a.ring() // another listing may have waited for the key
}

// claim makes a key the listing's: a node's answers name the key alone. Called with a.mu held.
func (a *attacher) claim(key eider.Key, l *Listing) error {
	if a.keys[key] != nil {
		return eider.Errorf(eider.Conflict, "", "this process has %s registered and it hasn't left yet; it is waited for", key)
	}
	a.keys[key] = l
	l.claimed = true
	return nil
}

// ring tells the writer that something is due.
func (a *attacher) ring() {
	select {
	case a.rung <- struct{}{}:
	default:
	}
}

func (a *attacher) bell() <-chan struct{} { return a.rung }

func (a *attacher) later() <-chan time.Time { return nil }

func (a *attacher) open(ctx context.Context, cc grpc.ClientConnInterface) (talk[pb.AttachRequest, pb.AttachReply], error) {
	return pb.NewRegistryClient(cc).Attach(ctx)
}

func (a *attacher) hello() *pb.AttachRequest {
	return &pb.AttachRequest{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: a.reg.caller, Version: clientVersion}}}
}

func (a *attacher) welcome(m *pb.AttachReply) *pb.Welcome { return m.GetWelcome() }

func (a *attacher) opened(w *pb.Welcome, k *link) {
	a.reg.meter.Opened("attach")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up, a.ends, a.why = true, k.ends.Load(), nil
	a.beat = defaultBeat
	if ms := w.GetBeatMs(); ms != 0 {
		a.beat = max(wire.ToDuration(ms), 10*time.Millisecond)
	}
	a.postpone(time.Now())
}

// postpone draws when the next beat is due. Called with a.mu held.
func (a *attacher) postpone(now time.Time) {
	a.beatAt = now.Add(retry.Early(a.beat, 0.25, rand.Float64()))
}

func (a *attacher) lost(err error) {
	defer a.remind()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up, a.ends = false, nil
	if !errors.Is(err, errMoved) {
		a.why = err
	}
	for _, l := range a.listings {
		l.phase = apart
		if l.leaving == nil || l.uttered {
			l.set(false, err)
		}
	}
}

func (a *attacher) due(now time.Time) (say []*pb.AttachRequest, again time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !now.Before(a.beatAt) {
		say = append(say, a.sayBeat(false))
		a.postpone(now)
	}
	again = a.beatAt
	for _, l := range a.listings {
		if err := l.mute(now); err != nil {
			return nil, time.Time{}, err // the next stream registers everybody anew
		}
		var at time.Time
		say, at = l.due(say, now)
		if !at.IsZero() && at.Before(again) {
			again = at
		}
	}
	return say, again, nil
}

// ping asks for an answer by a beat, so the next plain one has time.
func (a *attacher) ping() *pb.AttachRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.postpone(time.Now())
	return a.sayBeat(true)
}

// sayBeat renews, and tells what has been done since the last beat. Called with a.mu held.
func (a *attacher) sayBeat(echo bool) *pb.AttachRequest {
	b := &pb.Beat{Echo: echo}
	for _, l := range a.listings {
		if l.phase != listed || l.work == nil {
			continue
		}
		if done := l.work.Read(); done != l.told.work {
			l.told.work = done
			b.Work = append(b.Work, wire.FromWork(l.rec.Key, done))
		}
	}
	return &pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: b}}
}

// parting: instances that haven't left are lost to the registry, which asks their port and waits for
// their lease.
func (a *attacher) parting() (last *pb.AttachRequest, gracefully bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return nil, len(a.listings) == 0
}

func (a *attacher) moving() *pb.AttachRequest {
	return &pb.AttachRequest{Kind: &pb.AttachRequest_Moving{Moving: &pb.Moving{}}}
}

func (a *attacher) heard(m *pb.AttachReply) (answer bool, err error) {
	switch kind := m.GetKind().(type) {
	case *pb.AttachReply_Beaten:
		a.remind() // a node that answers may refuse all the same
		return true, nil
	case *pb.AttachReply_End:
		return false, toEnded(kind.End)
	case *pb.AttachReply_Registered:
		r := kind.Registered
		a.on(r.GetService(), r.GetId(), func(l *Listing) { l.registered(r, time.Now()) })
	case *pb.AttachReply_Refused:
		r := kind.Refused
		a.on(r.GetService(), r.GetId(), func(l *Listing) {
			l.refuse(wire.ToError("", r.GetError()), time.Now())
		})
	case *pb.AttachReply_Bound:
		b := kind.Bound
		a.on(b.GetService(), b.GetId(), func(l *Listing) { l.bound(wire.ToDuration(b.GetBoundMs())) })
	case *pb.AttachReply_Progress:
		p := kind.Progress
		a.on(p.GetService(), p.GetId(), func(l *Listing) {
			if l.leaving != nil {
				l.state.Bound = wire.ToDuration(p.GetBoundMs())
				l.leaving.progress(p)
			}
		})
	case *pb.AttachReply_Left:
		a.on(kind.Left.GetService(), kind.Left.GetId(), func(l *Listing) {
			if l.left {
				l.finish()
			}
		})
	}
	return false, nil
}

// on finds the listing that a reply is about; one that has ended meanwhile is no more.
func (a *attacher) on(service, id string, do func(*Listing)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.keys[eider.Key{Service: service, ID: id}]; l != nil {
		do(l)
		a.ring()
	}
}
