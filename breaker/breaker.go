package breaker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Breaker guards one target of one caller. Its methods may be called from any goroutine. It starts none, holds
// nothing but memory, and needs no Close.
type Breaker struct {
	era  atomic.Pointer[era]
	set  settings
	base time.Time // times are nanoseconds since it, by the monotonic clock

	lock     sync.Mutex
	streak   uint8 // times it opened without having stayed closed as long as it was open
	opened   uint32
	closedAt int64
	lastOpen int64
	post     *post // changes to be told, while there are any
}

// New makes a breaker. What [Config.Validate] would complain of is bent to the nearest that can be.
func New(c Config) *Breaker {
	b := &Breaker{set: c.settle(), base: time.Now()}
	b.begin(Closed, 0, never, nil)
	return b
}

// Permit is the right to make one call. Exactly one of Settle and Done ends it. It is a value: keep it, pass it on, don't use
// it twice. The zero Permit ends nothing.
type Permit struct {
	era   *era
	start int64
	epoch uint32
	trial uint32
}

// Allow lets a call through, or says in a [*Rejected] why not. It allocates nothing, and takes no lock unless
// something changes.
func (b *Breaker) Allow() (Permit, error) {
	for {
		e := b.era.Load()
		switch State(e.state.Load()) {
		case Closed, MetricsOnly:
			if !e.timed {
				return Permit{era: e}, nil
			}
			now, same := b.now(), true
			if now >= e.next.Load() {
				now, same = b.turn(e)
			}
			if same {
				return Permit{era: e, start: now, epoch: e.fly.in(e.epoch.Load())}, nil
			}
		case Ramping:
			now, same := b.now(), true
			if now >= e.next.Load() {
				now, same = b.turn(e)
			}
			switch {
			case !same:
			case State(e.state.Load()) == Ramping && !e.ramps(now):
				return b.reject(e)
			default:
				return e.permit(now), nil
			}
		case ForcedClosed:
			return Permit{}, nil
		case ForcedOpen:
			return b.reject(e)
		default:
			now := b.now()
			if now < e.next.Load() {
				return b.reject(e)
			}
			if p, ok := b.try(now); ok {
				return p, nil
			}
		}
	}
}

// reject writes nothing, not even a count: with a target down it is all that the cores do, and they would do it to one word.
func (b *Breaker) reject(e *era) (Permit, error) { return Permit{}, e.rejected.Load() }

func (e *era) permit(now int64) Permit {
	if !e.timed {
		return Permit{era: e, start: now}
	}
	return Permit{era: e, start: now, epoch: e.fly.in(e.epoch.Load())}
}

// ramps tells whether a call is among the share that is let through: every call adds its weight, and who carries the
// sum over a whole goes.
func (e *era) ramps(now int64) bool {
	const whole = 1 << 20
	weight := max(uint64(float64(now-e.began)/float64(e.b.set.ramp)*whole), whole/10+1)
	sum := e.share.Add(weight)
	return sum/whole != (sum-weight)/whole
}

// Settle ends the permit with what the call said of its target.
func (p Permit) Settle(o Outcome) {
	e := p.era
	if e == nil {
		return
	}
	if o != Success || !e.quick(p) {
		e.b.settle(p, o)
	} else if e.watch.Load() { // looked at once it is counted: who begins to watch counts afterwards
		e.b.look(e)
	}
}

// quick counts a success without a lock.
func (e *era) quick(p Permit) bool {
	if p.Trial() {
		return false
	}
	if e.timed && p.trial != begun {
		now := e.b.now()
		return now-p.start <= e.b.set.slow && now < e.next.Load() && e.fly.out(p.epoch, oneDone)
	}
	if next := e.next.Load(); next != never && (e.times != nil || p.trial != begun || e.watch.Load()) && e.b.now() >= next {
		return false // of a call that had begun, epochs say no more, but where a rule waits for it: others may hang
	}
	e.beside.Add(1)
	return true
}

// Done ends the permit with what [Judge] makes of the call's error.
func (p Permit) Done(ctx context.Context, err error) {
	if p.era == nil {
		return
	}
	if err == nil {
		p.Settle(Success)
		return
	}
	b := p.era.b
	took := time.Duration(b.now() - p.start)
	p.Settle(Judge(ctx, err, took, time.Duration(b.set.slow), b.set.classify))
}

// Report counts an outcome that belongs to no permit: a body that broke off after the call had ended well, or what a
// health check saw. While half-open a success says nothing, for it was no trial; a failure opens it again.
func (b *Breaker) Report(o Outcome) {
	if o != Neutral {
		b.report(o)
	}
}

// Do makes the call if the breaker lets it through, and returns its error, or a [*Rejected]. A context that is done
// already isn't worth a call: its error is returned. A panic, and a runtime.Goexit, count as a failure and go on.
func (b *Breaker) Do(ctx context.Context, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := b.Allow()
	if err != nil {
		return err
	}
	settled := false
	defer func() {
		if !settled {
			p.Settle(Failure)
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

// State is what the breaker does now. Open stays Open until the first call after its time.
func (b *Breaker) State() State { return State(b.era.Load().state.Load()) }

// Admits tells whether a call would be let through now, without taking a permit: for choosing among targets.
func (b *Breaker) Admits() bool {
	e := b.era.Load()
	switch State(e.state.Load()) {
	case ForcedOpen:
		return false
	case Open, HalfOpen:
		return b.now() >= e.next.Load()
	default:
		return true
	}
}

func (b *Breaker) now() int64 { return int64(time.Since(b.base)) }

// ForceOpen rejects every call until somebody says otherwise.
func (b *Breaker) ForceOpen() { b.byHand(ForcedOpen) }

// ForceClosed lets every call through and counts nothing, until somebody says otherwise.
func (b *Breaker) ForceClosed() { b.byHand(ForcedClosed) }

// MetricsOnly lets every call through and counts, until somebody says otherwise; when a rule is broken it says so once.
func (b *Breaker) MetricsOnly() { b.byHand(MetricsOnly) }

// Reset closes the breaker and forgets what it has counted, and how often it has opened.
func (b *Breaker) Reset() { b.byHand(Closed) }

// Snapshot is what a breaker knows of itself, for pages and metrics.
type Snapshot struct {
	Name  string
	State State
	Since time.Time // when it came to be so
	Rule  Rule      // why it is Open, HalfOpen or ForcedOpen
	Count uint64    // what the rule counted
	Of    uint64
	Retry time.Time // Open, HalfOpen: when a call may be let through

	Total, Failures, Slow uint64 // outcomes in the window
	InFlight, Overdue     uint64 // calls under way, and how many of them are past the slow limit; 0 without one
	Opened                uint64 // times it has opened

	// In this state, those included that the window has forgotten. The last two begin anew after four billion.
	Outcomes       uint64
	Failed, Slowed uint32
}

// Snapshot returns what it is now.
func (b *Breaker) Snapshot() Snapshot {
	now := b.now()
	b.lock.Lock()
	defer b.unlock()
	b.advance(now)
	e := b.era.Load()
	s := Snapshot{
		Name: b.set.name, State: State(e.state.Load()), Since: b.base.Add(time.Duration(e.began)),
		Outcomes: e.total(), Failed: e.failed, Slowed: e.slowed, Opened: uint64(b.opened), Overdue: uint64(e.overdue),
	}
	if r := e.rejected.Load(); r != nil && s.State != Closed && s.State != Ramping {
		s.Rule, s.Count, s.Of = r.Rule, r.Count, r.Of
	}
	if next := e.next.Load(); s.State == Open || s.State == HalfOpen {
		s.Retry = b.base.Add(time.Duration(next)) // not the rejection's: a trial that said nothing makes room at once
	}
	c := e.windowed()
	s.Total, s.Failures, s.Slow = c.total, c.failures(), c.slows()
	flying, _ := e.fly.sums()
	s.InFlight = flying + uint64(e.overdue)
	if e.half != nil {
		s.InFlight += uint64(len(e.half.trials))
	}
	return s
}
