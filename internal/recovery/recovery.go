// Package recovery plays one scene: fifty callers trip together, and what they all need comes back, cold. Whether they
// let it recover or push it over again is counted by the dependency itself.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// The model, from REQUIREMENTS B7 and B9: a dependency that has just come back is slow and bears little. Its first answer
// fills its caches; with each answer it bears five calls more. Too many at once, and it answers nobody, dies with all that
// have piled up, and is started anew, as cold as before.
const (
	Callers  = 50
	Every    = 250 * time.Millisecond // between two calls of a caller, give or take a tenth
	AtOnce   = 5                      // calls that it bears at once before its first answer, and so many more with each
	Work     = 20 * time.Millisecond  // of a call
	ColdWork = 250 * time.Millisecond // of one that comes before its first answer
	Chokes   = 300 * time.Millisecond // from too many at once until it dies
	Restarts = 500 * time.Millisecond
	InARow   = 4 // calls of each caller that have to go well one after another: a second of all the load
)

// Scene is one way to guard the calls.
type Scene struct {
	Guard Guard
	Reach Reach         // nil: the dependency is in this process
	Watch time.Duration // how long to wait after the outage until all is back; 0 means 8s
	Seed  uint64        // of when callers call
}

// Reach puts a dependency behind a network; end awaits all that it started.
type Reach func(*Dependency) (call func(context.Context) error, end func(), err error)

// Result is how they fared, from the end of the outage: when the dependency could recover, if it were let.
type Result struct {
	Parallel int      `json:"max_parallel_probes"` // the most calls at once in a dependency that hadn't answered anybody yet
	Relapses int      `json:"relapses"`            // times that it was pushed over again
	Back     *float64 `json:"back_s"`              // until each call of every caller went well, for a second; null where that never was
	Probes   int      `json:"probes"`              // calls that came before its first answer
	Warming  int      `json:"max_warming"`         // the most calls at once between its first answer and being warm
	Failed   int      `json:"failed"`              // calls that reached it, or nobody, and weren't answered
	Rejected int      `json:"rejected"`            // calls that a breaker kept away
}

// Play plays it: all is well, an outage until every caller's breaker is open, and what comes after it.
func (s Scene) Play(ctx context.Context) (Result, error) {
	d := NewDependency()
	defer d.Close()
	call := d.Call
	if s.Reach != nil {
		reached, end, err := s.Reach(d)
		if err != nil {
			return Result{}, err
		}
		defer end()
		call = reached
	}
	b := newBook()
	all, err := s.start(ctx, b, call)
	if err != nil {
		return Result{}, err
	}
	defer all.stop()
	if err := all.settle(ctx, b); err != nil {
		return Result{}, err
	}
	b.turn()
	d.Break()
	if !b.waitApart(ctx, patience) {
		return Result{}, errors.Join(ctx.Err(), fmt.Errorf("it has been down for %v, and not every caller's breaker is open: %w", patience, b.why()))
	}
	b.turn()
	mended := d.Mend()
	watch := s.Watch
	if watch == 0 {
		watch = usualWatch
	}
	b.waitWell(ctx, watch)
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	return b.result(d.Tally(), mended), nil
}

const (
	patience   = 20 * time.Second
	usualWatch = 8 * time.Second
)

// callers are the fifty.
type callers struct {
	breakers []Breaker
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// start has all of them call, until stop.
func (s Scene) start(ctx context.Context, b *book, call func(context.Context) error) (*callers, error) {
	ctx, cancel := context.WithCancel(ctx)
	all := &callers{cancel: cancel}
	for i := range Callers {
		own, err := s.Guard(i)
		if err != nil {
			all.stop()
			return nil, fmt.Errorf("the breaker of caller %d: %w", i, err)
		}
		all.breakers = append(all.breakers, own)
	}
	for i, own := range all.breakers {
		c := caller{breaker: own, call: call, heard: func(begun time.Time, err error) { b.hear(i, begun, err) }, rnd: rand.New(rand.NewPCG(s.Seed, uint64(i)))}
		all.running.Go(func() { c.run(ctx) })
	}
	return all, nil
}

func (all *callers) stop() {
	all.cancel()
	all.running.Wait()
	for _, own := range all.breakers {
		all.running.Go(own.Close)
	}
	all.running.Wait()
}

// settle waits until all of them are answered, and their breakers ready.
func (all *callers) settle(ctx context.Context, b *book) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not ready within %v", patience))
	defer cancel()
	b.waitWell(ctx, 2*patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(all.breakers, func(b Breaker) bool { return !b.Ready() }) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("before anything was broken: %d callers of one that is well: %w", Callers, errors.Join(context.Cause(ctx), b.why()))
	}
	return nil
}

// caller is one of the fifty. It makes one call at a time.
type caller struct {
	breaker Breaker
	call    func(context.Context) error
	heard   func(begun time.Time, err error)
	rnd     *rand.Rand
}

func (c *caller) run(ctx context.Context) {
	timer := time.NewTimer(1 + time.Duration(c.rnd.Int64N(int64(Every))))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begun := time.Now()
		err := c.breaker.Do(ctx, c.call)
		if ctx.Err() != nil {
			return
		}
		c.heard(begun, err)
		next := begun.Add(Every*9/10 + time.Duration(c.rnd.Int64N(int64(Every/5))))
		timer.Reset(max(time.Until(next), time.Millisecond)) // in a bubble a timer that is due already crashes Go 1.26's race detector
	}
}
