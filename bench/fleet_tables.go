package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

// fleetQuorum is how many callers must see it, as it is by default.
const fleetQuorum = 3

// soonest measures a quorum until the last caller has it, in turns with the store's own round trip.
func soonest(p *place) ([]Row, error) {
	s, err := openShared(p, fleetCallers, fleet.Config{OpenFor: time.Minute})
	if err != nil {
		return nil, err
	}
	const rounds = 20
	var opened, answered []time.Duration
	for range rounds {
		trip, err := s.roundTrip(20)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		took, err := s.trip(fleetQuorum)
		if err == nil {
			err = s.reset()
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		opened, answered = append(opened, took), append(answered, trip)
	}
	took, trip := median(opened), median(answered)
	return []Row{{p.name + ": quorum until the last of 50 rejects; a round trip; one in the other", fmt.Sprintf("%s (least %s, most %s); %s; %.1f",
		nanoseconds(took), nanoseconds(slices.Min(opened)), nanoseconds(slices.Max(opened)), nanoseconds(trip), float64(took)/float64(trip))}}, s.Close()
}

// fleetWeight weighs callers' parts that go by one memory: what a store's client holds comes on top.
func fleetWeight() ([]Row, error) {
	const n = 1000
	store := fleet.NewMemory(0)
	var before, after runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	running := runtime.NumGoroutine()
	runtime.ReadMemStats(&before)
	var all []*fleet.Breaker
	defer func() {
		for _, b := range all {
			b.Close()
		}
	}()
	for range n {
		b, err := fleet.New(fleet.Config{Store: store, Key: "orders"})
		if err != nil {
			return nil, err
		}
		all = append(all, b)
		permit, err := b.Allow(context.Background())
		if err != nil {
			return nil, err
		}
		permit.Settle(breaker.Success)
	}
	for _, b := range all {
		for b.Snapshot().Alone {
			<-time.After(time.Millisecond)
		}
	}
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&after)
	return []Row{
		{"bytes of heap and stacks", fmt.Sprintf("%d", (after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/n)},
		{"goroutines", fmt.Sprintf("%.1f", float64(runtime.NumGoroutine()-running)/n)},
	}, nil
}
