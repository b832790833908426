package breakers

import (
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

func newFailsafe(timed bool) circuitbreaker.CircuitBreaker[int] {
	b := circuitbreaker.NewBuilder[int]().WithDelay(openFor)
	if timed {
		return b.WithFailureRateThreshold(rate, least, within).Build()
	}
	return b.WithFailureThresholdRatio(rate*window, window).Build()
}

func failsafes() []Subject {
	permits := func(name string, timed bool) Subject {
		one := func() (any, calls) { b := newFailsafe(timed); return b, permitted(b) }
		return Subject{Name: name, Clock: timed, Window: true, open: alike(one), keep: func(into []any) { keepEach(into, one) }}
	}
	executor := func() (any, calls) {
		b := failsafe.With(newFailsafe(true))
		return b, byExecutor(b)
	}
	return []Subject{
		permits("failsafe-go permits, count window", false),
		permits("failsafe-go permits, time window", true),
		{Name: "failsafe-go executor, time window", Clock: true, Window: true, open: alike(executor)},
	}
}

func permitted(b circuitbreaker.CircuitBreaker[int]) calls {
	return func(n, every int) (let int) {
		left := every
		for range n {
			if !b.TryAcquirePermit() {
				continue
			}
			let++
			if left--; left == 0 {
				left = every
				b.RecordFailure()
				continue
			}
			b.RecordSuccess()
		}
		return let
	}
}

func byExecutor(e failsafe.Executor[int]) calls {
	return func(n, every int) (let int) {
		left := every
		for range n {
			work := succeeds
			if left--; left == 0 {
				left, work = every, fails
			}
			if _, err := e.Get(work); err == nil || err == errFailed {
				let++
			}
		}
		return let
	}
}
