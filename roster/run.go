package roster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// source is what a roster needs of a registry.Subscription.
type source interface {
	Next(ctx context.Context) (registry.Update, error)
	Ack(at eider.Cursor, letGo, noAlternative []eider.Departure)
	Doubt(eider.Departure)
	Close()
}

// pusher is a source that can do without a goroutine that waits for its news.
type pusher interface{ Push(func(registry.Update)) }

// asker is a source that may ask for trials.
type asker interface{ Trials(func(*registry.Trial)) }

// runner is what a roster runs once it has begun: the feeder takes views, the tender lets go. They are
// two, so that a slow LetGo delays acknowledgements and never a view. The tender sleeps through changes
// that leave it nothing to do.
type runner struct {
	open   func() (source, error)
	once   sync.Once // opens; or forbids to
	src    source
	failed error // why it couldn't be opened
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	woken  chan struct{}
	first  chan struct{} // closed with the first snapshot, or when none will come
	shut   sync.Once

	unmeter func() // the Meter forgets the roster; set with src
}

func newRunner(open func() (source, error)) runner {
	ctx, cancel := context.WithCancel(context.Background())
	return runner{open: open, ctx: ctx, cancel: cancel, woken: make(chan struct{}, 1), first: make(chan struct{})}
}

// begin follows the service, once.
func (r *Roster) begin() error {
	r.run.once.Do(func() {
		r.run.src, r.run.failed = r.run.open()
		if r.run.failed == nil {
			if r.disk != nil {
				r.inbox.busy = true // starts has it
				go r.keeps()
				r.run.done.Go(r.starts)
			}
			r.run.unmeter = r.meter.State(r.tell)
			r.run.done.Go(r.feed)
			r.run.done.Go(r.tends)
		}
	})
	return r.run.failed
}

// feed takes views until the following ends. If the registry handle is closed under the roster, the
// last good view stays.
func (r *Roster) feed() {
	if a, ok := r.run.src.(asker); ok {
		a.Trials(r.ask)
	}
	if p, ok := r.run.src.(pusher); ok {
		p.Push(r.pushed)
	}
	for {
		u, err := r.run.src.Next(r.run.ctx)
		if err != nil {
			r.orphaned(err)
			return
		}
		r.pushed(u)
	}
}

// take takes an update, one at a time.
func (r *Roster) take(u registry.Update) {
	if r.apply(u, r.now()) {
		r.wake()
	} else { // the usual change: nobody is to be let go of, so that needn't be the tender's to say
		r.acknowledge(r.run.src, nil)
	}
	if u.View == nil {
		return
	}
	if r.disk != nil {
		r.disk.ring(r.disk.changed)
	}
	if r.config.Applied != nil {
		r.config.Applied(u.View)
	}
}

// tends lets go, acknowledges and drops, whenever something is due.
func (r *Roster) tends() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.run.ctx.Done():
			return
		case <-r.run.woken:
		case <-timer.C:
		}
		now := r.now()
		if due := r.tend(r.run.src, now); due > 0 {
			timer.Reset(due - now)
		} else {
			timer.Stop()
		}
	}
}

// wake has the tender look. It never blocks.
func (r *Roster) wake() {
	select {
	case r.run.woken <- struct{}{}:
	default:
	}
}

// begun lets those go on who wait for the first view. Called under the lock.
func (r *Roster) begun() {
	select {
	case <-r.run.first:
	default:
		close(r.run.first)
	}
}

// orphaned takes the end of the subscription.
func (r *Roster) orphaned(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = err
	r.news.Connected, r.news.Err = false, err
	r.begun()
}

// Await waits for the first view, as Take does, until ctx ends.
func (r *Roster) Await(ctx context.Context) error {
	if r.snap.Load() != nil {
		return nil
	}
	return r.await(ctx)
}

// await waits for the first snapshot.
func (r *Roster) await(ctx context.Context) error {
	op := "pick " + r.service
	if err := r.begin(); err != nil {
		return &eider.Error{Op: op, Kind: eider.KindOf(err), Err: err}
	}
	select {
	case <-r.run.first:
	case <-ctx.Done():
		r.mu.Lock()
		why := r.news.Err
		r.mu.Unlock()
		if why == nil {
			why = errors.New("check the registry's address and that it runs")
		}
		return eider.Errorf(eider.NoInstance, op, "no view of it has come from the registry yet (%w): %w", why, context.Cause(ctx))
	}
	if r.snap.Load() != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return eider.Errorf(eider.Closed, op, "the registry handle ended before the first view came: %w", r.ended)
}

// Close ends the following and everything that the roster started, and closes every companion. Picks
// after it fail with eider.Closed; calls in flight may still end. Drains no longer wait for this
// roster, so end what must not be lost before. Don't call it from LetGo or a Companion.
func (r *Roster) Close() error {
	r.run.shut.Do(func() {
		r.run.once.Do(func() {
			r.run.failed = eider.Errorf(eider.Closed, "", "the roster is closed")
		})
		r.mu.Lock()
		if r.disk != nil {
			r.disk.last = r.record()
		}
		r.closed = true
		r.snap.Store(&snapshot{service: r.service, closed: true, view: r.news.View})
		for _, m := range r.members {
			m.mark()
			r.out = append(r.out, m)
		}
		for _, m := range r.out {
			m.mark()
		}
		r.members = nil
		r.begun()
		r.mu.Unlock()
		r.run.cancel()
		if r.run.src != nil {
			r.run.src.Close()
			r.run.unmeter()
		}
		r.run.done.Wait()
		if r.disk != nil && r.run.src != nil {
			r.disk.await()
		}
		for _, m := range r.out { // nobody else is left
			if m.companion != nil {
				m.companion.Close()
			}
		}
	})
	return nil
}
