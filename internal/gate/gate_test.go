package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

// What nobody has set is the house's: a service's breaker has its name, and is as patient as those of its instances.
func TestAServicesBreakerIsAsPatientAsThoseOfInstances(t *testing.T) {
	for slow, limit := range map[time.Duration]time.Duration{time.Second: 10 * time.Second, 3 * time.Second: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g, err := Config{Fleet: fleet.Config{Store: fleet.NewMemory(0), Key: "shop/"}, Service: "orders", Caller: "checkout@1", Slow: slow}.New()
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			pass, err := g.Ask(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			long, err := g.Ask(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(limit - time.Second)
			if s := g.Snapshot(); s.Local.Slow != 0 || s.Local.Overdue != 0 {
				t.Errorf("slow before %v", limit)
			}
			<-time.After(limit/10 + 2*time.Second)
			if s := g.Snapshot(); s.Local.Slow != 1 || s.Local.Overdue != 1 || s.Key != "shop/orders" || len(s.Caller) < len("checkout@1-x") {
				t.Errorf("after %v: %+v", limit, s)
			}
			pass.Settle(breaker.Neutral)
			long.Settle(breaker.Success)
			if n := g.Own().Snapshot().InFlight; n != 0 {
				t.Errorf("%d in flight", n)
			}
		})
	}
}

// A nil gate, and one without a fleet, are asked like any other.
func TestAloneAndNone(t *testing.T) {
	var none *Gate
	pass, err := none.Ask(t.Context(), true)
	if pass != (Pass{}) || err != nil || pass.Trial() || pass.Late() != nil {
		t.Errorf("a nil gate: %+v, %v", pass, err)
	}
	pass.Wrote()
	pass.Answered().Settle(breaker.Failure)
	none.Close()
	g := Alone(breaker.Config{Name: "a", Consecutive: 1})
	if pass, err = g.Ask(t.Context(), false); err != nil || !g.Closed() {
		t.Fatal(err)
	}
	pass = pass.Answered()
	pass.Settle(breaker.Failure)
	_, err = g.Ask(t.Context(), false)
	if e, ok := errors.AsType[*eider.Error](err); !ok || !errors.Is(err, breaker.ErrRejected) || e.RetryAfter <= 0 || g.Closed() {
		t.Errorf("got %v", err)
	}
	if !g.Snapshot().Alone {
		t.Error("it has a fleet")
	}
	g.Close()
}

// What breaks off after an answer that was slow to begin, and so has ended its permit, is a failure all the same.
func TestWhatBreaksOffLateIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Alone(breaker.Config{SlowLimit: time.Second, Consecutive: 1})
		pass, err := g.Ask(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		pass = pass.Answered()
		if s := g.Own().Snapshot(); s.State != breaker.Closed || s.InFlight != 0 {
			t.Fatalf("it has answered: %+v", s)
		}
		pass.Settle(breaker.Failure)
		if s := g.Own().Snapshot(); s.State != breaker.Open {
			t.Errorf("then it broke off: %+v", s)
		}
	})
}

// Who has given up is told that, and not that somebody rejects.
func TestWhoGivesUpIsNotRejected(t *testing.T) {
	g := Alone(breaker.Config{})
	if err := g.refusal(context.Canceled); !errors.Is(err, context.Canceled) || errors.Is(err, breaker.ErrRejected) {
		t.Errorf("got %v", err)
	}
}

// While an operator lets everything through, nobody counts: when that ends, or the store goes, nothing is held against anybody.
func TestForcedClosedCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := fleet.NewMemory(0)
		g, err := Config{Fleet: fleet.Config{Store: mem}, Service: "orders", Slow: time.Second}.New()
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if _, err := fleet.Force(t.Context(), mem, "orders", breaker.ForcedClosed); err != nil {
			t.Fatal(err)
		}
		first, err := g.Ask(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		first.Settle(breaker.Success)
		synctest.Wait()
		if s := g.Snapshot().State; s != breaker.ForcedClosed {
			t.Fatalf("it is %v", s)
		}
		for i := range 100 {
			pass, err := g.Ask(t.Context(), i%2 == 0)
			if err != nil {
				t.Fatal(err)
			}
			pass.Answered().Settle(breaker.Failure)
		}
		if s := g.Own().Snapshot(); s.State != breaker.Closed || s.Failures != 0 {
			t.Errorf("this caller's own is %v, of %d failures", s.State, s.Failures)
		}
	})
}
