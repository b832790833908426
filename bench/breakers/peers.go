package breakers

import (
	"math"
	"slices"
	"strconv"
	"time"

	kitex "github.com/bytedance/gopkg/cloud/circuitbreaker"
	resiliency "github.com/eapache/go-resiliency/breaker"
	"github.com/sony/gobreaker/v2"
)

func succeeds() (int, error) { return 0, nil }
func fails() (int, error)    { return 0, errFailed }

func succeedsAlone() error { return nil }
func failsAlone() error    { return errFailed }

func peers() []Subject {
	return slices.Concat(sony(), failsafes(), []Subject{
		{Name: "go-resiliency", open: openResiliency, keep: func(into []any) {
			keepEach(into, func() (any, calls) { b := newResiliency(Success); return b, resilient(b) })
		}},
		{Name: Kitex, Window: true, open: openKitex, keep: keepKitex},
	})
}

// keepEach fills a slice with breakers that have seen as many calls as their window holds.
func keepEach(into []any, one func() (any, calls)) {
	for i := range into {
		b, c := one()
		c(window, Mixed.every())
		into[i] = b
	}
}

func sony() []Subject {
	settings := func(bucket time.Duration) gobreaker.Settings {
		return gobreaker.Settings{Name: "orders", Interval: within, BucketPeriod: bucket, Timeout: openFor,
			ReadyToTrip: func(c gobreaker.Counts) bool {
				return c.Requests >= least && float64(c.TotalFailures) >= rate*float64(c.Requests)
			}}
	}
	execute := func(name string, bucket time.Duration) Subject {
		one := func() (any, calls) {
			b := gobreaker.NewCircuitBreaker[int](settings(bucket))
			return b, executed(b)
		}
		return Subject{Name: name, Clock: true, Window: true, open: alike(one), keep: func(into []any) { keepEach(into, one) }}
	}
	twoStep := func() (any, calls) {
		b := gobreaker.NewTwoStepCircuitBreaker[int](settings(0))
		return b, stepped(b)
	}
	return []Subject{
		execute("gobreaker, fixed window", 0),
		execute("gobreaker, rolling window", within/10),
		{Name: "gobreaker, two steps", Clock: true, Window: true, open: alike(twoStep), keep: func(into []any) { keepEach(into, twoStep) }},
	}
}

// alike opens what is built in the same way for every path.
func alike(one func() (any, calls)) func(Path) (calls, func()) {
	return func(Path) (calls, func()) {
		_, c := one()
		return c, nil
	}
}

func executed(b *gobreaker.CircuitBreaker[int]) calls {
	return func(n, every int) (let int) {
		left := every
		for range n {
			work := succeeds
			if left--; left == 0 {
				left, work = every, fails
			}
			if _, err := b.Execute(work); err == nil || err == errFailed {
				let++
			}
		}
		return let
	}
}

func stepped(b *gobreaker.TwoStepCircuitBreaker[int]) calls {
	return func(n, every int) (let int) {
		left := every
		for range n {
			done, err := b.Allow()
			if err != nil {
				continue
			}
			let++
			if left--; left == 0 {
				left = every
				done(errFailed)
				continue
			}
			done(nil)
		}
		return let
	}
}

// newResiliency opens after that many failures in all: it knows no rate, so a mixed path never ends in the longest run.
func newResiliency(p Path) *resiliency.Breaker {
	failures := math.MaxInt
	if p == Open {
		failures = window
	}
	return resiliency.New(failures, 1, openFor)
}

func openResiliency(p Path) (calls, func()) { return resilient(newResiliency(p)), nil }

func resilient(b *resiliency.Breaker) calls {
	return func(n, every int) (let int) {
		left := every
		for range n {
			work := succeedsAlone
			if left--; left == 0 {
				left, work = every, failsAlone
			}
			if err := b.Run(work); err == nil || err == errFailed {
				let++
			}
		}
		return let
	}
}

// Kitex is the name of the breaker that Kitex uses.
const Kitex = "bytedance/gopkg panel (Kitex)"

// newPanel ends with Close: a ticker of its own turns the windows of all its keys.
func newPanel(p Path) kitex.Panel {
	options := kitex.Options{BucketTime: within / 100, BucketNums: 100, CoolingTimeout: openFor, ShouldTrip: kitex.RateTripFunc(rate, least)}
	if p == Open {
		// A key without samples is forgotten, and closed again: within its window an open one gets none.
		options.BucketTime = openFor
	}
	panel, err := kitex.NewPanel(nil, options)
	if err != nil {
		panic(err) // only too few buckets are refused
	}
	return panel
}

func openKitex(p Path) (calls, func()) {
	panel := newPanel(p)
	return paneled(panel, "orders/1"), panel.Close
}

func keepKitex(into []any) {
	panel := newPanel(Open)
	into[0] = panel
	for i := range into {
		paneled(panel, "orders/"+strconv.Itoa(i))(window, Mixed.every())
	}
}

func paneled(panel kitex.Panel, key string) calls {
	return func(n, every int) (let int) {
		left := every
		for range n {
			if !panel.IsAllowed(key) {
				continue
			}
			let++
			if left--; left == 0 {
				left = every
				panel.Fail(key)
				continue
			}
			panel.Succeed(key)
		}
		return let
	}
}
