package breakers

import (
	"context"

	"github.com/eiderhq/eider/breaker"
)

// Eider's breaker, by what it is set to and how it is called.
const (
	Eider        = "eider: count window, slow calls"
	EiderDo      = "eider: the same by Do"
	EiderDone    = "eider: the same by Allow and Done"
	EiderRolling = "eider: time window, slow calls"
	EiderUntimed = "eider: count window, no timing"
	EiderPlainDo = "eider: the same, no timing, by Do"
	EiderFlight  = "eider: slow calls, 64 in flight"
)

func eiders() []Subject {
	timed := breaker.Config{Name: "orders", Window: window, FailureMin: least, FailureRate: rate, OpenFor: openFor, MaxOpen: openFor}
	rolling, untimed := timed, timed
	rolling.Within = within
	untimed.SlowLimit = -1
	of := func(name string, c breaker.Config, loop func(*breaker.Breaker) calls) Subject {
		one := func() (any, calls) { b := breaker.New(c); return b, loop(b) }
		return Subject{Name: name, Clock: c.SlowLimit >= 0, Window: true, Eider: true, open: alike(one), keep: func(into []any) { keepEach(into, one) }}
	}
	return []Subject{
		of(Eider, timed, settled),
		of(EiderDone, timed, doneWith),
		of(EiderDo, timed, byDo),
		of(EiderRolling, rolling, settled),
		of(EiderUntimed, untimed, settled),
		of(EiderPlainDo, untimed, byDo),
		of(EiderFlight, timed, inFlight),
	}
}

func settled(b *breaker.Breaker) calls {
	return func(n, every int) (let int) {
		left := every
		for range n {
			permit, err := b.Allow()
			if err != nil {
				continue
			}
			let++
			if left--; left == 0 {
				left = every
				permit.Settle(breaker.Failure)
				continue
			}
			permit.Settle(breaker.Success)
		}
		return let
	}
}

func doneWith(b *breaker.Breaker) calls {
	ctx := context.Background()
	return func(n, every int) (let int) {
		left := every
		for range n {
			permit, err := b.Allow()
			if err != nil {
				continue
			}
			let++
			if left--; left == 0 {
				left = every
				permit.Done(ctx, errFailed)
				continue
			}
			permit.Done(ctx, nil)
		}
		return let
	}
}

func fine(context.Context) error   { return nil }
func broken(context.Context) error { return errFailed }

func byDo(b *breaker.Breaker) calls {
	ctx := context.Background()
	return func(n, every int) (let int) {
		left := every
		for range n {
			work := fine
			if left--; left == 0 {
				left, work = every, broken
			}
			if err := b.Do(ctx, work); err == nil || err == errFailed {
				let++
			}
		}
		return let
	}
}

// inFlight settles the oldest of 64 calls for each new one.
func inFlight(b *breaker.Breaker) calls {
	return func(n, every int) (let int) {
		var flying [64]breaker.Permit
		left := every
		for i := range n {
			permit, err := b.Allow()
			if err != nil {
				continue
			}
			let++
			oldest := &flying[i%len(flying)]
			if left--; left == 0 {
				left = every
				oldest.Settle(breaker.Failure)
			} else {
				oldest.Settle(breaker.Success)
			}
			*oldest = permit
		}
		for i := range flying {
			flying[i].Settle(breaker.Success)
		}
		return let
	}
}
