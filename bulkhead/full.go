package bulkhead

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrFull is what errors.Is finds in every [*Full].
var ErrFull = errors.New("bulkhead is full")

// Full tells that a call found no room: it was not made, and says nothing of the dependency. Errors of one moment are one
// value: read it, don't change it.
type Full struct {
	Name     string
	Limit    int           // calls at once
	InFlight int           // of them; fewer than Limit if room came in the meantime
	Waiting  int           // others that wait
	Waited   time.Duration // how long this one waited in vain
	Auto     bool          // the limit follows Rate and Latency
	Rate     float64       // λ as measured, calls a second, those that were turned away too; 0: not known yet
	Latency  time.Duration // W as measured, of a healthy call; 0: not known yet
	Retry    time.Duration // when to come back: when as many as wait may have been served; a second or more while nothing comes back well
	Err      error         // the context's, if that ended the wait; else nil
}

// Error says what is full, by what measure, and what to do.
func (f *Full) Error() string {
	s := fmt.Sprintf("bulkhead %q is full: %d of %d calls in flight, %d waiting", f.Name, f.InFlight, f.Limit, f.Waiting)
	if f.Waited > 0 {
		s += fmt.Sprintf("; waited %v", f.Waited.Round(time.Microsecond))
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	if f.Rate > 0 {
		s += fmt.Sprintf("; %.3g/s of %v are %.3g at once when it is well", f.Rate, f.Latency, f.Rate*f.Latency.Seconds())
	}
	switch {
	case f.Auto:
		return s + fmt.Sprintf("; come back in %v, or raise Headroom or Max", f.Retry)
	default:
		return s + fmt.Sprintf("; come back in %v, or raise Limit", f.Retry)
	}
}

// Is finds ErrFull.
func (f *Full) Is(target error) bool { return target == ErrFull }

// Rejection tells every guard before the call that the dependency never saw it: a breaker counts it as nothing.
func (f *Full) Rejection() bool { return true }

// Unwrap returns the context's error that ended the wait.
func (f *Full) Unwrap() error { return f.Err }

// refuse says why a call wasn't admitted. While nothing changes it is the same error for all: turning
// away is what a bulkhead does when there is no time for more.
func (b *Bulkhead) refuse(waited int64, why error) error {
	if !b.turning.Load() && b.turning.CompareAndSwap(false, true) {
		b.note(Event{Kind: Filled})
	}
	b.deliver()
	limit, waiting := int(b.limit.Load()), b.waiting()
	f := Full{
		Name: b.set.Name, Limit: limit, InFlight: int(b.state.Load() & flyMask), Waiting: waiting,
		Waited: time.Duration(waited), Auto: b.set.Limit == 0,
		Rate: math.Float64frombits(b.rate.Load()), Latency: time.Duration(b.took.Load()),
		Retry: time.Duration(float64(b.comeBack.Load()) * float64(limit+waiting) / float64(limit)), Err: why,
	}
	one := why == nil && waited == 0 // and not all errors can be compared
	if last := b.full.Load(); one && last != nil && *last == f {
		return last
	}
	fresh := f
	if one {
		b.full.Store(&fresh)
	}
	return &fresh
}
