package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/supervise/check"
)

// life is one run of the program, from its start until nothing of it is left. It has a registry handle of its own: the
// end of its stream is how a registry learns of a crash.
type life struct {
	s     *supervisor
	child *child
	reg   *registry.Registry

	leave context.Context // the supervisor's, or a fault ends this run
	fail  context.CancelCauseFunc
	asks  context.Context // until the leave, or the program's end
	quiet context.CancelFunc

	ended   []chan error  // for each service, once the program has ended by itself
	missing int           // services whose pause isn't over; guarded by s.mu
	joined  chan struct{} // closed when all are

	once   sync.Once
	told   map[int]bool // who has been sent the signal
	killed bool         // the program itself had to be
	left   map[int]bool // who else
}

func newLife(s *supervisor) *life {
	l := &life{s: s, missing: len(s.Services), joined: make(chan struct{}), told: make(map[int]bool), left: make(map[int]bool)}
	l.leave, l.fail = context.WithCancelCause(s.leave)
	l.asks, l.quiet = context.WithCancel(l.leave)
	for range s.Services {
		l.ended = append(l.ended, make(chan error, 1))
	}
	return l
}

// start starts the program, before anything that takes time.
func (l *life) start(path string) error {
	c, err := l.s.reaper.start(path, l.s.Command, l.s.environment(), l.s.files, bound())
	if err != nil {
		return &os.PathError{Op: "exec", Path: path, Err: err}
	}
	l.child = c
	l.s.mu.Lock()
	l.s.child = c
	l.s.mu.Unlock()
	l.s.log.Info("the program is started", "path", path, "pid", c.pid)
	return nil
}

// live returns when nothing of the program is left.
func (l *life) live() (Report, error) {
	l.reg = registry.Open(l.s.Registry)
	r := Report{Services: make([]drain.Report, len(l.s.Services))}
	faults := make([]error, len(l.s.Services))
	var serving sync.WaitGroup
	for i, service := range l.s.Services {
		serving.Go(func() {
			if r.Services[i], faults[i] = l.serve(service, l.ended[i]); faults[i] != nil {
				l.fail(faults[i])
			}
		})
	}
	left := make(chan struct{})
	go func() { defer close(left); serving.Wait() }()
	select {
	case <-l.child.ended:
		l.tell()
	case <-left:
	}
	<-left
	crashed := closed(l.child.ended) && errors.Join(faults...) != nil
	l.sweep()
	r.How, r.Exit, r.Left = l.how(), code(l.child.how), len(l.left)
	switch {
	case closed(l.s.enough.Done()):
		r.Exit = ExitInterrupt
	case l.killed:
		r.Exit = ExitKilled
	}
	l.s.log.Info("the program has ended", "how", r.How, "exit", r.Exit)
	if err := errors.Join(faults...); err != nil && !crashed {
		r.Exit = ExitFault
		return r, err
	}
	return r, nil
}

// tell says to each service that the program has ended by itself, and how.
func (l *life) tell() {
	l.quiet()
	var how error
	if code(l.child.how) != 0 {
		how = errors.New(l.how())
	}
	for _, ended := range l.ended {
		ended <- how
	}
}

// how says how the program ended.
func (l *life) how() string {
	how := l.child.how
	if how.Signaled() {
		return fmt.Sprintf("it was ended by signal %d (%s)", int(how.Signal()), how.Signal())
	}
	return fmt.Sprintf("it exited with %d", how.ExitStatus())
}

// sweep ends what a departure hasn't: with a crash there was none.
func (l *life) sweep() {
	l.quiet()
	var closing sync.WaitGroup
	closing.Go(func() { _ = l.reg.Close() }) // it can't fail, but take two seconds
	limit := l.s.InFlight
	if limit <= 0 {
		limit = defaultInFlight
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	l.finish(ctx)
	closing.Wait()
	l.s.mu.Lock()
	l.s.child = nil
	l.s.mu.Unlock()
}

// serve has one service listed while it is answered for, until it has left.
func (l *life) serve(service Service, ended <-chan error) (drain.Report, error) {
	log := l.s.logger(service.Name)
	ask, err := l.s.ask(service, l.s.probe)
	if err != nil {
		return drain.Report{}, err
	}
	ready, health := make(chan struct{}), make(chan error)
	up := false
	var asking sync.WaitGroup
	defer asking.Wait()
	defer l.quiet()
	asking.Go(func() {
		ask.Run(l.asks, func(state check.State) {
			switch {
			case state.Phase == check.Overdue:
				log.Error("the program isn't ready in the time that it has for its start; it stays STARTING until it is; --service and --ready say where that is asked", "why", state.Why)
				return
			case state.Phase == check.Ready && !up:
				up = true
				close(ready)
				l.s.serves()
				return
			}
			select {
			case health <- state.Why:
			case <-l.asks.Done():
			}
		})
	})
	cfg := l.s.drain(service)
	cfg.Registry, cfg.Ready, cfg.Health, cfg.Logger = l.reg, ready, health, l.s.log
	p := drain.Program{Ended: ended, Paused: l.s.hooked.paused, Others: l.join, Finish: l.finish}
	if service.Front != "" {
		return l.stand(service, cfg, p)
	}
	return drain.Beside(l.leave, cfg, p)
}

// join waits until the pause of each service is over.
func (l *life) join(ctx context.Context) {
	l.s.mu.Lock()
	if l.missing--; l.missing == 0 {
		close(l.joined)
		l.s.hooked.leaves()
	}
	l.s.mu.Unlock()
	select {
	case <-l.joined:
	case <-ctx.Done():
	}
}

// finish ends the program, once: whoever comes second waits too.
func (l *life) finish(ctx context.Context) {
	l.once.Do(func() {
		begun := time.Now()
		l.end(ctx)
		l.s.log.Debug("nothing of the program is left", "took", time.Since(begun))
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
