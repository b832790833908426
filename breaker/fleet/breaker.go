package fleet

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// Breaker is one caller's part of a fleet's breaker. While the fleet's is closed, and while the store is away, it is
// the caller's own: [Config.Local]. It starts when first used, and ends in Close.
type Breaker struct {
	c     Config
	set   settings
	base  time.Time // times are nanoseconds since it, by the monotonic clock
	local *breaker.Breaker
	view  atomic.Pointer[view] // what the fleet says; nil while this caller is on its own

	kept atomic.Pointer[trial] // the permit that came too late for who had asked: the next call's
	shy  atomic.Bool           // the store didn't answer who asked last: before this caller joins again, it must

	wake    chan struct{} // of one: there is something to tell now
	turned  chan struct{} // of one: the view has turned, and what is next with it
	once    sync.Once
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	trial    *trial    // that a call of this caller is, and hasn't settled
	samples  []sample  // of what the local breaker has counted
	verdicts []verdict // to be told
	lost     uint64    // token of a permit that was asked for, and no answer came
	stats    stats

	post post[Event]
	own  post[breaker.Event] // for Local.OnEvent
}

// stats are what a [Snapshot] tells besides.
type stats struct {
	since                             time.Time // it joined, or parted
	why                               error     // it parted
	joined, parted, asked, won, dropt uint64
}

// New makes one. It does nothing yet.
func New(c Config) (*Breaker, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Caller == "" {
		c.Caller = "caller-" + strconv.FormatUint(rand.Uint64(), 36)
	}
	b := &Breaker{c: c, set: c.settings(), base: time.Now(), wake: make(chan struct{}, 1), turned: make(chan struct{}, 1)}
	own := c.Local
	if own.Name == "" {
		own.Name = c.Key
	}
	own.OnEvent = b.ofLocal
	b.local = breaker.New(own)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// Close ends what the breaker does in the background, and tells the store so, for no longer than Wait. Calls go on, each on the
// caller's own breaker; a trial that is under way holds its permit until the lease ends. An OnEvent that is under way isn't waited for.
func (b *Breaker) Close() {
	b.once.Do(func() {})
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
	b.view.Store(nil)
}

// start is called by every call that goes alone.
func (b *Breaker) start() {
	b.once.Do(func() { b.running.Go(b.run) })
}

// poke has what there is to tell be told now.
func (b *Breaker) poke() { signal(b.wake) }

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

func (b *Breaker) now() int64              { return int64(time.Since(b.base)) }
func (b *Breaker) when(at int64) time.Time { return b.base.Add(time.Duration(at)) }

// Local is the caller's own breaker.
func (b *Breaker) Local() *breaker.Breaker { return b.local }

// Permit is the right to make one call. Exactly one of Settle and Done ends it; before the call, ask Live. It is a value: pass it on,
// don't use it twice. The zero Permit ends nothing.
type Permit struct {
	local breaker.Permit
	trial *trial
}

// Allow lets a call through, or says in a [*breaker.Rejected] why not. It reads memory alone, but for the one call that
// asks for the fleet's permit when that is to be had: it waits for the store, no longer than Wait and its context.
func (b *Breaker) Allow(ctx context.Context) (Permit, error) {
	v := b.view.Load()
	switch {
	case v == nil:
		b.start()
	case v.own:
	default:
		return b.together(ctx, v)
	}
	p, err := b.local.Allow()
	return Permit{local: p}, err
}

// together goes by what the fleet says.
func (b *Breaker) together(ctx context.Context, v *view) (Permit, error) {
	switch v.State {
	case breaker.Open, breaker.HalfOpen:
		if t := b.kept.Load(); t != nil && b.kept.CompareAndSwap(t, nil) && t.live() {
			return b.begin(t), nil
		}
		if b.now() < v.next || !v.asking.CompareAndSwap(false, true) {
			return Permit{}, v.rejected
		}
		return b.ask(ctx, v)
	case breaker.ForcedOpen:
		return Permit{}, v.rejected
	case breaker.ForcedClosed:
		return Permit{}, nil
	case breaker.Ramping:
		if now := b.now(); now < v.end && !v.ramps(now) {
			return Permit{}, v.rejected
		}
	}
	p, err := b.local.Allow()
	return Permit{local: p}, err
}

// Live tells whether the call may still be made: the time of a trial, or its lease, may have ended while its caller was kept from it, or an
// operator may have overruled it. Ask just before you dial.
func (p Permit) Live() bool { return p.trial == nil || p.trial.live() }

// Trial tells whether it is the fleet's one trial: make one call with it, no second try and no hedge.
func (p Permit) Trial() bool { return p.trial != nil }

// Settle ends the permit with what the call said of its target.
func (p Permit) Settle(o breaker.Outcome) {
	if p.trial == nil {
		p.local.Settle(o)
		return
	}
	p.trial.settle(o)
}

// Done ends the permit with what [breaker.Judge] makes of the call's error.
func (p Permit) Done(ctx context.Context, err error) {
	if p.trial == nil {
		p.local.Done(ctx, err)
		return
	}
	t := p.trial
	t.settle(breaker.Judge(ctx, err, time.Duration(t.b.now()-t.began), t.b.set.slow, t.b.c.Local.Classify))
}

// Do makes the call if the breaker lets it through, and returns its error, or a [*breaker.Rejected]. A context that is
// done already isn't worth a call: its error is returned. A panic, and a runtime.Goexit, count as a failure and go on.
func (b *Breaker) Do(ctx context.Context, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := b.Allow(ctx)
	if err != nil {
		return err
	}
	if !p.Live() {
		return p.trial.late()
	}
	settled := false
	defer func() {
		if !settled {
			p.Settle(breaker.Failure)
		}
	}()
	err = f(ctx)
	p.Done(ctx, err)
	settled = true
	return err
}

// Call is [Breaker.Do] for a call that returns a value.
func Call[T any](ctx context.Context, b *Breaker, f func(context.Context) (T, error)) (v T, err error) {
	err = b.Do(ctx, func(ctx context.Context) error {
		v, err = f(ctx)
		return err
	})
	return v, err
}

// Snapshot is what a caller knows of the fleet's breaker at a moment.
type Snapshot struct {
	Key, Caller string
	Alone       bool      // it goes by its own breaker: it hasn't joined yet, or the store is away
	Why         error     // it is away: what the store said last; nil if it never parted
	Since       time.Time // it has been with the fleet, or alone

	Record           // the fleet's; zero while alone
	Retry  time.Time // Open, HalfOpen: when somebody may try
	Local  breaker.Snapshot

	Joined, Parted uint64 // how often
	Asked, Trials  uint64 // how often this caller asked for the permit, and got it
	Refused        uint64 // verdicts that came too late to be heard
}

// Snapshot returns what it is now.
func (b *Breaker) Snapshot() Snapshot {
	s := Snapshot{Key: b.c.Key, Caller: b.c.Caller, Local: b.local.Snapshot()}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Why, s.Since = b.stats.why, b.stats.since
	s.Joined, s.Parted, s.Asked, s.Trials, s.Refused = b.stats.joined, b.stats.parted, b.stats.asked, b.stats.won, b.stats.dropt
	v := b.view.Load()
	if s.Alone = v == nil; s.Alone {
		return s
	}
	if s.Record = v.At(v.age(now)); v.rejected != nil {
		s.Retry = v.rejected.Retry
	}
	return s
}
