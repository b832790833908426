// Package roster answers: who of this service can I call, right now? It follows a service, keeps the last good
// view through every outage, picks instances, and lets go of those that leave.
package roster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/meter"
	"github.com/eiderhq/eider/registry"
)

// Config sets a roster up. The zero value works.
type Config struct {
	// LetGo is called when the last pick of a leaving or held instance has settled and before that is
	// acknowledged: close every idle connection to it, in a way that new ones stay closed. nil if the
	// user holds none. Acknowledgements wait for it, views and picks don't.
	LetGo func(eider.Instance)

	// Companion makes what lives and dies with an instance in this caller: its connections, its
	// breaker. It is called once an incarnation, before the first pick; again if the incarnation
	// appears at another address or comes back after it was let go of. The roster's views wait for it,
	// nobody else's. nil means none.
	Companion func(eider.Instance) Companion

	// Applied is called after every picker has switched to a view: for metrics, and for who waits for
	// a change. It may be called by the goroutine that reads the registry's stream, so that the views
	// of every service wait for it, as picks don't: it must return soon, and not Close the roster. nil
	// means nobody wants to know.
	Applied func(*eider.View)

	// Breaker has the rules of the circuit breaker that each instance has in this caller. What isn't set is the house's for
	// an instance: a refusal or two failures in a row open it (Consecutive; below 0 turns that off), or half of the last
	// 20 outcomes, 10 at least, failing, or, 5 at least, being slow or still hanging; for 0.8 to 1s (OpenFor), doubling to
	// 30s; then one trial of at most 10s. SlowLimit 0 means 10s, or ten times Slow if that is more. Name and Classify aren't used. OnEvent hears
	// of every breaker, outside locks, by the goroutine of a call. It costs a pick two looks at the clock and half a
	// kilobyte for each instance that was picked.
	Breaker breaker.Config

	// NoBreakers leaves out nobody for what his calls have shown: who is picked is the registry's to say alone.
	NoBreakers bool

	// NoFloor lets breakers leave out everybody. Without it at least one instance is picked whose breaker is open when
	// all refuse, and half of them when they fail or are slow, since a rule that everybody breaks may be the wrong one.
	// With it a pick fails at once when every breaker rejects it, which spares a service that is down, and whoever calls
	// it. Where calls hang, past a Breaker.SlowLimit that is set, it does so in either case: each would keep its caller
	// waiting, until he has no place left.
	NoFloor bool

	// Bulkhead bounds the requests in flight to each instance, those that wait for their answer to begin: full ones aren't
	// picked, and when all are a pick fails at once. nil means none, for a bound turns away what nothing is wrong with
	// yet, and what one process may have in flight somebody has to have thought of. The zero Config is a good first thought: it sizes
	// itself. Name and Wait aren't used, SlowLimit 0 means the breakers'; a request that Waits takes no slot. It costs a pick about as much as the breaker.
	Bulkhead *bulkhead.Config

	// Slow is how long a caller must have waited for his deadline to count against the instance: with less, it says more of
	// the caller. 0 means 1s; below 0: any deadline counts.
	Slow time.Duration
}

var errNoSpare = &eider.Error{Op: "pick", Kind: eider.NoInstance, Err: errors.New("nobody can be spared for a second try")}

// Companion lives beside one incarnation of one instance in one caller. Its methods are called one at
// a time, Close last; the acknowledgements of the service wait for them.
type Companion interface {
	LetGo() // close idle connections, now and as they become idle: nobody will pick it again
	Close() // the instance is gone, or the roster is closed; calls in flight may still end
}

// Roster is the live list of one service. Its methods may be called from any goroutine.
//
// What it picks: the less loaded of two that are UP and unsuspected, in the registry handle's zone
// while that can carry the load; suspect ones too when less than half of all UP ones is unsuspected;
// one that is DRAINING, or held by an operator, only when there is nobody else and it hasn't been let go of; never
// anything else. One that has just come UP is warmed up for ten seconds. One that refused a connection or failed
// twice in a row, or is slow or hangs most of the time, is left alone for a second, doubling to 30s, but never all of them
// (see Config.Breaker).
//
// It loses an instance only when told that it is gone. One that is merely missing is doubted for a
// lease and then dropped if the view is complete, and kept if it isn't or the registry is away.
type Roster struct {
	config  Config
	service string
	zone    string
	base    time.Time // the zero of the roster's clock
	snap    atomic.Pointer[snapshot]
	asked   atomic.Pointer[asked] // the trial that waits for a pick; nil, nearly always: none
	rules   breaker.Config        // of every member's breaker
	run     runner
	inbox   inbox
	disk    *disk // nil: the list isn't kept on disk
	meter   *meter.Meter
	counts  *meter.Service // nil: nothing is counted

	saying  sync.Mutex // taken before mu
	mu      sync.Mutex
	members []*member       // ordered by id
	news    registry.Update // the last one, with the last good view
	past    []past
	opens   uint64    // breakers that have opened
	last    *ending   // of the one whose end was heard of last
	out     []*member // no longer in the books: to be marked, and their companions closed
	doubts  []eider.Departure
	judged  []*member // whose breakers are to be told of
	told    word
	bearing bool // apply is making companions: the books are ahead of what can be published
	closed  bool
	ended   error // why no further view will come
}

// Follow begins to follow a service with the default configuration. It does no I/O.
func Follow(reg *registry.Registry, service string) *Roster { return Config{}.Follow(reg, service) }

// Follow begins to follow a service. It does no I/O; the first Pick or View does.
func (c Config) Follow(reg *registry.Registry, service string) *Roster {
	service = eider.FoldService(service)
	r := c.follow(service, reg.Zone(), func() (source, error) {
		s, err := reg.Follow(service)
		if err != nil {
			return nil, err // not s: a nil pointer isn't a nil interface
		}
		return s, nil
	})
	if r.meter = reg.Meter(); r.meter != nil && eider.CheckService(service) == nil {
		r.counts = r.meter.Service(service)
	}
	if dir := reg.Rosters(); dir != "" && eider.CheckService(service) == nil { // the name is that of a file
		r.disk = newDisk(dir, service, reg.Logger())
	}
	return r
}

func (c Config) follow(service, zone string, open func() (source, error)) *Roster {
	// A clock that starts an hour ago has no time that is 0, which is used for never.
	return &Roster{config: c, service: service, zone: zone, base: time.Now().Add(-time.Hour), rules: c.rules(), run: newRunner(open)}
}

// now is the time on the roster's clock, which no step of a wall clock moves.
func (r *Roster) now() time.Duration { return time.Since(r.base) }

// Take is Pick for transports: without a closure, with instances to leave out, and with a Choice that
// tells apart a request that is on its way from one that has arrived. It allocates nothing.
func (r *Roster) Take(ctx context.Context, not *Excluded) (Choice, error) {
	for {
		s := r.snap.Load()
		if s == nil {
			if err := r.await(ctx); err != nil {
				return Choice{}, err
			}
			continue
		}
		if a := r.asked.Load(); a != nil && (not == nil || !not.Spare) {
			if c, ok := r.try(s, a, not); ok {
				r.counts.Picked(true)
				return c, nil
			}
		}
		e, p := s.choose(r, not)
		if e == nil {
			if not != nil && not.Spare {
				return Choice{}, errNoSpare
			}
			r.counts.Nobody()
			return Choice{}, s.nobody(not, r.now())
		}
		ok, empty := e.m.enter()
		if ok {
			r.counts.Picked(e.in.Suspicion != 0)
			c := Choice{r: r, m: e.m, in: e.in, permit: p.permit, slot: p.slot}
			if c.waits = not != nil && not.Waits; c.waits && !p.permit.Trial() {
				c.stage = begun
			}
			return c, nil
		}
		p.back()
		if empty {
			r.wake()
		}
	}
}

// Pick chooses an instance: least loaded of two. It waits for the first view, until ctx ends. Call
// done when the call has ended, with its error if it failed; until then the instance counts as in use
// here and isn't let go of. Once in a while a pick is a trial of an instance that hung (see Excluded); give
// a call a deadline, and let what can be sent again go elsewhere.
//
// The error decides what the roster learns: nothing if ctx was cancelled, or ran out within a second
// of the pick (Config.Slow); a refusal if it is ECONNREFUSED; else a failure. An error that only the answer's
// content has caused isn't the instance's: don't pass it. A call that hangs is seen by its deadline alone, since nobody
// says when the answer begins: Take, and Choice.Answered, do.
func (r *Roster) Pick(ctx context.Context) (in eider.Instance, done func(*error), err error) {
	choice, err := r.Take(ctx, nil)
	if err != nil {
		return eider.Instance{}, func(*error) {}, err
	}
	c, began := &choice, r.now()
	if !c.permit.Trial() {
		c.begin() // whether the answer has begun isn't told, and a connection may be in use for hours
	}
	return *c.in, func(err *error) {
		if err == nil || *err == nil {
			c.Done(Success)
			return
		}
		c.Done(outcome(ctx, *err, r.now()-began, r.config.slow()))
	}, nil
}

// outcome tells what an error shows about an instance. Whether the caller gave up is asked of ctx: its
// cause needn't be context.Canceled. A deadline is the instance's fault only if it had time to answer.
func outcome(ctx context.Context, err error, took, slow time.Duration) Outcome {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refusal
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && took >= slow:
		return Failure
	case ctx.Err() != nil:
		return Neutral
	}
	return Failure
}

// View returns the last good view, nil before the first, and what is known of its freshness. Instances
// that the roster keeps although the registry's view lacks them are in it, suspect as absent. While it
// is Connected the view is current, however long ago there was news; FromDisk, it is as old as Heard says, and a hint.
func (r *Roster) View() registry.Update {
	if r.snap.Load() == nil {
		if err := r.begin(); err != nil {
			return registry.Update{Err: err}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.news
	if s := r.snap.Load(); s != nil {
		u.View = s.view
	}
	return u
}
