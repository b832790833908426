package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// A permit that came too late for who had asked, and before another call came an operator has reset the breaker, or the store has
// forgotten it: nobody goes by it.
func TestAPermitOfAnotherGenerationIsNobodys(t *testing.T) {
	for _, what := range []string{"reset", "flushed"} {
		t.Run(what, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { otherGeneration(t, what) }) })
	}
}

func otherGeneration(t *testing.T, what string) {
	store := &sick{Memory: NewMemory(0)}
	all := callers(t, 3, Config{Store: slowly{store, 100 * time.Millisecond}, Lease: time.Minute})
	trip(t, all)
	pass(5*time.Second + spread)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := all[0].Allow(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	pass(time.Second)
	if s := all[1].Snapshot(); s.Holder != "caller-0" {
		t.Fatalf("%+v", s.Record)
	}
	for _, b := range all {
		b.Local().Reset()
	}
	if what == "flushed" {
		store.Flush()
	} else if _, err := Force(t.Context(), store.Memory, "orders", breaker.Closed); err != nil {
		t.Fatal(err)
	}
	pass(4 * time.Second)
	trip(t, all)
	if p, err := all[0].Allow(t.Context()); err == nil {
		t.Errorf("it is %v, and a call goes by a permit of before (trial: %v)", all[0].Snapshot().State, p.Trial())
	}
}

// A trial is under way, and an operator has another mind: what the trial says isn't heard, and what the operator says is gone by.
func TestForcedWhileATrialIsUnderWay(t *testing.T) {
	for _, to := range []breaker.State{breaker.ForcedOpen, breaker.ForcedClosed, breaker.Closed} {
		for _, said := range []breaker.Outcome{breaker.Success, breaker.Failure, breaker.Neutral} {
			t.Run(fmt.Sprint(to, said), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { forcedMeanwhile(t, to, said) }) })
		}
	}
}

func forcedMeanwhile(t *testing.T, to breaker.State, said breaker.Outcome) {
	store := NewMemory(0)
	all := callers(t, 3, Config{Store: store})
	trip(t, all)
	pass(5*time.Second + spread)
	p, err := all[0].Allow(t.Context())
	if err != nil || !p.Trial() {
		t.Fatal(err)
	}
	r, err := Force(t.Context(), store, "orders", to)
	if err != nil {
		t.Fatal(err)
	}
	if synctest.Wait(); p.Live() {
		t.Error("it may still be made")
	}
	p.Settle(said)
	pass(20 * time.Second)
	for i, b := range all {
		if s := b.Snapshot(); s.Record != r || s.Alone {
			t.Errorf("caller %d: %+v, want %+v", i, s.Record, r)
		}
		if err := b.Do(t.Context(), good); errors.Is(err, breaker.ErrRejected) != (to == breaker.ForcedOpen) {
			t.Errorf("caller %d, %v: %v", i, to, err)
		}
	}
	if s := all[0].Snapshot(); s.Refused != 1 {
		t.Errorf("%d verdicts were refused, want 1", s.Refused)
	}
}

// The target relapses while a growing share of calls is let through: it opens at once, for longer than before, and what was seen before
// it closed counts for nothing.
func TestARelapseWithinTheRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0)})
		for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			for range 300 {
				for _, b := range all {
					_ = b.Do(t.Context(), bad)
				}
				if all[0].Snapshot().State == breaker.Open {
					break
				}
				pass(10 * time.Millisecond)
			}
			s := all[0].Snapshot()
			if s.State != breaker.Open || s.For != want || s.Streak != i+1 {
				t.Fatalf("the %d. time: %+v", i+1, s.Record)
			}
			pass(want + spread)
			if err := all[i].Do(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if s := all[0].Snapshot(); s.State != breaker.Ramping || s.Local.State != breaker.Closed {
				t.Fatalf("after its trial: %+v, its own is %v", s.Record, s.Local.State)
			}
			pass(time.Second)
		}
	})
}

// Callers that ramp together don't let the same of their calls through: the first calls of all would be a flood else.
func TestRampsAreOutOfStep(t *testing.T) {
	b, err := New(Config{Store: NewMemory(0), Key: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	first := map[int]bool{}
	for range 200 {
		v := b.viewOf(nil, Sight{}, Record{Epoch: 1, State: breaker.Ramping, For: time.Hour})
		for n := range 20 {
			if v.ramps(v.at) {
				first[n] = true
				break
			}
		}
	}
	if len(first) < 5 {
		t.Errorf("of 200 callers the first call that goes is the same: %v", first)
	}
}

// Who joins while the fleet's breaker is in any state goes by it with its first calls, and by no other.
func TestJoiningInEachState(t *testing.T) {
	for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.Ramping, breaker.ForcedOpen, breaker.ForcedClosed} {
		t.Run(state.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { joining(t, state) }) })
	}
}

func joining(t *testing.T, state breaker.State) {
	store := NewMemory(0)
	all := callers(t, 3, Config{Store: store})
	if forced := state == breaker.ForcedOpen || state == breaker.ForcedClosed; !forced {
		bring(t, all, state)
	} else if _, err := Force(t.Context(), store, "orders", state); err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	b, err := New(Config{Store: store, Key: "orders", Caller: "new"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Do(t.Context(), good); err != nil {
		t.Errorf("before it has joined: %v", err)
	}
	synctest.Wait()
	s, old := b.Snapshot(), all[0].Snapshot()
	if s.Alone || s.Record != old.Record || s.Retry.Sub(old.Retry).Abs() > time.Millisecond && state != breaker.Ramping {
		t.Fatalf("it has joined %+v, want %+v", s, old)
	}
	through := 0
	for range 100 {
		if b.Do(t.Context(), good) == nil {
			through++
		}
	}
	least, most := 0, 0
	switch state {
	case breaker.Closed, breaker.ForcedClosed:
		least, most = 100, 100
	case breaker.Ramping:
		least, most = 19, 22 // a second of five
	}
	if through < least || through > most {
		t.Errorf("of 100 calls %d are let through", through)
	}
}
