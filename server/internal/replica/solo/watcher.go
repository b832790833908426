package solo

import (
	"context"
	"errors"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/hub"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/replica"
)

// watcher is one process' stream for the services that it follows. An observer's never reaches the
// table: it is a watcher of the hub, and nothing waits for it.
type watcher struct {
	r        *Registry
	hub      *hub.Watcher
	follower ledger.Follower // 0 for an observer
}

// Watch opens a process' stream for the services that it follows.
func (r *Registry) Watch(p replica.Peer) (replica.Watcher, error) {
	op := "watch for " + p.Caller
	defer r.mu.Unlock()
	now, err := r.enter(op)
	if err != nil {
		return nil, err
	}
	h, err := r.hub.Watch()
	if err != nil {
		return nil, eider.Errorf(eider.Limited, op, "this node has as many watch streams as it may; try another, or come back later")
	}
	w := &watcher{r: r, hub: h}
	if p.Observer {
		return w, nil
	}
	r.streams++
	w.follower = ledger.Follower(r.streams)
	r.followers[w.follower] = w
	r.apply(now, r.table.Follow(now, w.follower, ledger.Peer{Caller: p.Caller, Identity: p.Identity, Addr: p.Addr}))
	return w, nil
}

// Subscribe tells the table first: from before the first view on, a leave knows of this caller.
func (w *watcher) Subscribe(service string, from eider.Cursor, letGo []eider.Departure) error {
	r, op := w.r, "follow "+service
	if err := eider.CheckService(service); err != nil {
		return &eider.Error{Op: op, Kind: eider.Invalid, Err: err}
	}
	if err := w.follow(op, service, letGo); err != nil {
		return err
	}
	if from.Run != r.cfg.Run {
		from.Number = 0 // another run's numbers mean nothing here
	}
	err := w.hub.Subscribe(service, from.Number)
	if err == nil {
		return nil
	}
	w.unfollow(service)
	if errors.Is(err, hub.ErrSubscriptions) {
		return eider.Errorf(eider.Limited, op, "this stream follows as many services as one may; use another stream")
	}
	return w.closed(op)
}

func (w *watcher) follow(op, service string, letGo []eider.Departure) error {
	r := w.r
	defer r.mu.Unlock()
	now, err := r.enter(op)
	if err != nil || w.follower == 0 {
		return err
	}
	if r.followers[w.follower] != w {
		return eider.Errorf(eider.Closed, op, "the stream has ended")
	}
	effects, err := r.table.Subscribe(now, w.follower, service, letGo)
	r.apply(now, effects)
	return err
}

func (w *watcher) Unsubscribe(service string) {
	w.hub.Unsubscribe(service)
	w.unfollow(service)
}

func (w *watcher) unfollow(service string) {
	r := w.r
	defer r.mu.Unlock()
	now, err := r.enter("unfollow")
	if err != nil {
		return
	}
	if r.followers[w.follower] == w {
		r.apply(now, r.table.Unsubscribe(now, w.follower, service))
	}
	r.tidy(service)
}

func (w *watcher) Ack(service string, at eider.Cursor, letGo, noAlternative []eider.Departure) {
	r := w.r
	defer r.mu.Unlock()
	now, err := r.enter("acknowledge")
	if err != nil || r.followers[w.follower] != w {
		return
	}
	var number uint64 // a cursor that never was, or another run's, is none; a let-go counts nevertheless
	if s := r.services.known[service]; s != nil && at.Run == r.cfg.Run && at.Number <= s.number {
		number = at.Number
	}
	r.apply(now, r.table.Ack(now, w.follower, service, number, letGo, noAlternative))
}

func (w *watcher) Doubt(d eider.Departure) {
	r := w.r
	defer r.mu.Unlock()
	now, err := r.enter("doubt")
	if err == nil && r.followers[w.follower] == w {
		r.apply(now, r.table.Doubt(now, w.follower, d))
	}
}

func (w *watcher) Verdicts(service string, said []eider.Verdict) {
	r := w.r
	defer r.mu.Unlock()
	now, err := r.enter("tell of breakers")
	if err == nil && r.followers[w.follower] == w {
		r.apply(now, r.table.Verdicts(now, w.follower, service, said))
	}
}

// Next returns frames; the slice, but not the bytes, is written to by the next call.
func (w *watcher) Next(ctx context.Context) ([][]byte, error) {
	frames, err := w.hub.Next(ctx)
	if errors.Is(err, hub.ErrClosed) {
		return nil, w.closed("watch")
	}
	return frames, err
}

// closed tells why the hub's watcher is closed: this node has stopped, or the stream has ended.
func (w *watcher) closed(op string) error {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if w.r.phase != running {
		return w.r.unavailable(op)
	}
	return eider.Errorf(eider.Closed, op, "the stream has ended")
}

func (w *watcher) End(how replica.Ending) {
	r, services := w.r, w.hub.Topics()
	w.hub.Close()
	defer r.mu.Unlock()
	now, err := r.enter("end")
	if err != nil {
		return
	}
	if r.followers[w.follower] == w {
		delete(r.followers, w.follower)
		w.unfollowAll(now, how)
	}
	for _, service := range services {
		r.tidy(service)
	}
}

func (w *watcher) unfollowAll(now time.Time, how replica.Ending) {
	r := w.r
	switch how {
	case replica.Bye:
		r.apply(now, r.table.Goodbye(now, w.follower))
	case replica.Moving:
		r.apply(now, r.table.Unfollow(now, w.follower, ledger.Moving))
	case replica.Stopping:
		r.apply(now, r.table.Unfollow(now, w.follower, ledger.Stopping))
	default:
		r.apply(now, r.table.Unfollow(now, w.follower, ledger.Lost))
	}
}
