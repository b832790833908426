// Package solo is one node alone behind replica.Registry.
//
// It owns a ledger.Table under one lock: each call takes the lock, tells the table, and files what the
// table says has happened (services to publish, dials to make, news for attached processes, events)
// in bounded places of its own: changes by instance, news by instance, dials in a bounded heap, events
// in a ring. The one goroutine of Run takes from there, unlocks, and then encodes, publishes and dials.
// So nothing foreign runs under the lock, what is told is in order, and whoever calls never waits for a
// watcher.
//
// One lock is enough: a beat holds it for less than a microsecond, see BenchmarkBeat.
package solo

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/hub"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/replica"
)

const (
	boundsEvery = time.Second // how often changed bounds are looked for
	sweepEvery  = time.Minute // how often services that nobody knows any more are dropped
)

// Config sets a node up. The zero value works.
type Config struct {
	Node    string // this node's name; "" means "eider"
	Run     uint64 // this node run's id; 0 means a random one
	Version string // shown on pages
	Fresh   bool   // nobody came before: barriers and views are complete from the start; not so when Data holds something
	Data    string // the folder of what is kept for the next run; "" keeps nothing

	Ledger ledger.Config // its Node, Run, Fresh and Memory are taken from here
	Logger *slog.Logger  // nil means slog.Default()

	// Dial asks an address: nil if it accepts, an error that is ECONNREFUSED if it refuses. nil means TCP.
	Dial        func(ctx context.Context, address string) error
	MaxWatchers int // 0 means 100,000; streams that follow or observe
}

// Registry is one node. It implements [replica.Registry].
type Registry struct {
	cfg  Config
	hub  *hub.Hub
	wake chan struct{} // Run has something to do earlier than it thought

	mu        sync.Mutex // guards what follows
	phase     phase
	since     time.Time
	table     *ledger.Table
	complete  bool // as it was last published
	services  services
	sessions  map[ledger.Session]*attachment
	followers map[ledger.Follower]*watcher
	streams   uint64 // numbers sessions and followers
	events    events
	dials     dialer
	trials    []ledger.Trial // to be told to their callers
	memory    memory
	sleeps    time.Time // when Run wakes by itself
	bounds    time.Time // when to look for changed bounds again
	sweep     time.Time
}

// phase is where Run stands. It goes forward only.
type phase uint8

const (
	fresh   phase = iota
	loading       // its memory
	running
	ended
)

var (
	_ replica.Registry  = (*Registry)(nil)
	_ replica.Postponer = (*Registry)(nil)
	_ replica.Auditor   = (*Registry)(nil)
	_ replica.Holder    = (*Registry)(nil)
)

// New returns a node; it starts nothing.
func New(cfg Config) *Registry {
	if cfg.Node == "" {
		cfg.Node = "eider"
	}
	for cfg.Run == 0 {
		cfg.Run = rand.Uint64()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Dial == nil {
		cfg.Dial = dialTCP
	}
	cfg.Ledger.Node, cfg.Ledger.Run, cfg.Ledger.Fresh = cfg.Node, cfg.Run, cfg.Fresh
	r := &Registry{
		cfg:       cfg,
		wake:      make(chan struct{}, 1),
		services:  newServices(),
		sessions:  make(map[ledger.Session]*attachment),
		followers: make(map[ledger.Follower]*watcher),
		dials:     newDialer(),
	}
	r.hub = hub.New(hub.Config{Snapshot: r.snapshot, Current: r.current, MaxWatchers: cfg.MaxWatchers})
	return r
}

// Run keeps the time, dials and publishes until ctx ends, which is no error. Then every open stream's
// Next returns eider.Unavailable, and it returns when all that it started has ended. A Registry runs once.
func (r *Registry) Run(ctx context.Context) error {
	if err := r.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var dialing, keeping sync.WaitGroup
	if r.memory.store != nil {
		keeping.Go(r.keep)
		defer keeping.Wait()
		defer close(r.memory.stop)
	}
	defer dialing.Wait()
	defer r.finish()
	defer cancel()

	var told uint64 // the last event logged
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.log(ctx, told) // what happened since the last turn, or before the first
			return nil
		case <-timer.C:
		case <-r.wake:
		}
		batches, dials, trials, rest := r.turn()
		for _, d := range dials {
			dialing.Go(func() { r.dial(ctx, d) })
		}
		r.publish(batches)
		r.tell(trials)
		told = r.log(ctx, told)
		timer.Reset(rest)
	}
}

func (r *Registry) begin() error {
	if !r.enterPhase(fresh, loading) {
		return eider.Errorf(eider.Closed, "run "+r.cfg.Node, "this node has run already; make a new one")
	}
	found, err := r.open()
	if err != nil {
		r.enterPhase(loading, ended)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.phase, r.since = running, now
	cfg := r.cfg.Ledger
	cfg.Fresh, cfg.Memory = cfg.Fresh && !found.Before, r.memory.store != nil
	r.table = ledger.New(cfg, now)
	if found.Before {
		r.restore(now, &found)
	}
	r.complete = r.table.Complete(now)
	r.bounds, r.sweep = now.Add(boundsEvery), now.Add(sweepEvery)
	return nil
}

func (r *Registry) enterPhase(from, to phase) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != from {
		return false
	}
	r.phase = to
	return true
}

// finish ends every stream. No instance is suspected for it.
func (r *Registry) finish() {
	r.mu.Lock()
	now := time.Now()
	for _, a := range r.sessions {
		r.apply(now, r.table.Detach(now, a.session, ledger.Stopping))
		a.end(r.unavailable("attach"))
	}
	for f := range r.followers {
		r.apply(now, r.table.Unfollow(now, f, ledger.Stopping))
	}
	r.phase = ended
	clear(r.sessions)
	clear(r.followers)
	r.events.wake()
	r.mu.Unlock()
	r.hub.Close()
}

// turn does what is due and says what is to be done without the lock, and how long Run may rest.
func (r *Registry) turn() (batches []batch, dials []ledger.Dial, trials []trial, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !now.Before(r.table.Next()) {
		r.apply(now, r.table.Look(now))
	}
	if complete := r.table.Complete(now); complete != r.complete {
		r.complete = complete
		r.services.markAll(now)
	}
	if !now.Before(r.bounds) {
		r.bounds = now.Add(boundsEvery)
		r.pushBounds()
	}
	if !now.Before(r.sweep) {
		r.sweep = now.Add(sweepEvery)
		r.forget()
	}
	batches = r.services.take(now, r.table, r.complete)
	dials = r.dials.take(now, r.idle)
	trials = r.takeTrials()
	r.sleeps = r.next(now)
	return batches, dials, trials, max(0, r.sleeps.Sub(now))
}

// next tells when Run has something to do.
func (r *Registry) next(now time.Time) time.Time {
	if len(r.services.ready)+len(r.trials) > 0 {
		return now
	}
	at := r.table.Next()
	for _, t := range []time.Time{r.services.batchAt, r.dials.next(), r.bounds} {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	return at
}

// apply files what the table says has happened, under the lock, in order.
func (r *Registry) apply(now time.Time, e ledger.Effects) {
	for _, event := range e.Events {
		r.events.add(now, event)
	}
	for _, key := range e.Changed {
		s := r.services.get(key.Service)
		s.changed[key.ID] = struct{}{}
		r.services.mark(now, s, e.Flush)
	}
	var unasked []ledger.Dial
	for _, d := range e.Dials {
		if !r.dials.add(now, d) {
			unasked = append(unasked, d)
		}
	}
	for _, d := range e.Drains {
		r.progress(d, false)
	}
	for _, event := range e.Events {
		if event.Kind == eider.EventBarrier && event.Hold == 0 {
			r.progress(eider.Departure{Key: eider.Key{Service: event.Service, ID: event.ID}, Incarnation: event.Incarnation}, true)
		}
	}
	r.trials = append(r.trials, e.Trials...)
	for _, s := range e.End {
		if a := r.sessions[s]; a != nil {
			a.end(eider.Errorf(eider.Stale, "attach", "an instance of this process had ended here; attach anew"))
		}
	}
	for _, d := range unasked { // after e: the table may use its memory again
		r.apply(now, r.table.Dialed(now, d, ledger.NoAnswer))
	}
	r.memory.note(e.Memory)
	if r.next(now).Before(r.sleeps) {
		r.kick()
	}
}

// nothing tells whether a call has brought about nothing.
func nothing(e *ledger.Effects) bool {
	return len(e.Changed)+len(e.Events)+len(e.Dials)+len(e.Drains)+len(e.End)+len(e.Trials)+len(e.Memory) == 0
}

// kick wakes Run.
func (r *Registry) kick() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// enter locks for a call that changes something. The caller unlocks, also after an error.
func (r *Registry) enter(op string) (time.Time, error) {
	r.mu.Lock()
	if r.phase != running {
		return time.Time{}, r.unavailable(op)
	}
	return time.Now(), nil
}

func (r *Registry) unavailable(op string) error {
	if r.phase < running {
		return eider.Errorf(eider.Unavailable, op, "this node is starting; try again")
	}
	return eider.Errorf(eider.Unavailable, op, "this node has stopped; try another, or this one again later")
}

// log writes the events after told: what concerns the whole node as a warning, the rest for debugging.
func (r *Registry) log(ctx context.Context, told uint64) uint64 {
	r.mu.Lock()
	news := r.events.last != told
	r.mu.Unlock()
	if !news {
		return told
	}
	events, whole := r.Events(told)
	if !whole {
		r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "more happened than could be logged", slog.Uint64("after", told))
	}
	for _, e := range events {
		told = e.Seq
		level := slog.LevelDebug
		switch e.Kind {
		case eider.EventPreserving, eider.EventPreserved, eider.EventDegraded, eider.EventMassRefusal, eider.EventPaused, eider.EventNotKept, eider.EventHeldGone:
			level = slog.LevelWarn
		case eider.EventRestored, eider.EventKept:
			level = slog.LevelInfo
		}
		if r.cfg.Logger.Enabled(ctx, level) {
			r.cfg.Logger.LogAttrs(ctx, level, e.String(), slog.Uint64("event", e.Seq))
		}
	}
	return told
}
