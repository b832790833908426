package breakers

import (
	"context"
	"fmt"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

// A fleet's breaker, by how it is called: the same rule as [Eider] has, and all callers share it.
const (
	Fleet   = "fleet: count window, slow calls"
	FleetDo = "fleet: the same by Do"
)

func fleets() []Subject {
	of := func(name string, loop func(*fleet.Breaker) calls) Subject {
		return Subject{Name: name, Clock: true, Window: true, Eider: true, open: func(p Path) (calls, func()) {
			b := joined(p)
			return loop(b), b.Close
		}}
	}
	return []Subject{of(Fleet, fleetSettled), of(FleetDo, fleetDo)}
}

// joined is a caller that goes by a store. Where none of its calls is to be let through, the store has the breaker open.
func joined(p Path) *fleet.Breaker {
	ctx := context.Background()
	store := fleet.NewMemory(0)
	if p == Open {
		open := fleet.Record{Epoch: 1, Generation: 1, State: breaker.Open, For: 20 * time.Minute, Length: 20 * time.Minute, Streak: 1, Rule: breaker.RuleFailureRate}
		if _, _, err := store.Swap(ctx, "orders", 0, open.Bytes()); err != nil {
			panic(err) // an empty store takes whatever comes
		}
	}
	b, err := fleet.New(fleet.Config{Store: store, Key: "orders", FailureRate: rate, Local: breaker.Config{Window: window, FailureMin: least, FailureRate: rate, OpenFor: openFor, MaxOpen: openFor}})
	if err != nil {
		panic(err) // nothing in it comes from outside
	}
	if permit, err := b.Allow(ctx); err == nil {
		permit.Settle(breaker.Success) // the first call has it join
	}
	for end := time.Now().Add(10 * time.Second); b.Snapshot().Alone; {
		if time.Now().After(end) {
			panic(fmt.Sprintf("it hasn't joined: %v", b.Snapshot().Why))
		}
		<-time.After(time.Millisecond)
	}
	return b
}

func fleetSettled(b *fleet.Breaker) calls {
	ctx := context.Background()
	return func(n, every int) (let int) {
		left := every
		for range n {
			permit, err := b.Allow(ctx)
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

func fleetDo(b *fleet.Breaker) calls {
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
