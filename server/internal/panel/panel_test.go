package panel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

// board is a panel that is written to as callers do.
type board struct {
	*Panel
	t    *testing.T
	told []string
}

func newBoard(t *testing.T) *board {
	b := &board{t: t}
	b.Panel = New(fleet.NewMemory(0), func(e eider.Event) { b.told = append(b.told, e.String()) })
	return b
}

func (b *board) put(key string, r fleet.Record) {
	b.t.Helper()
	r.Epoch = 1
	if _, ok, err := b.Swap(b.t.Context(), key, b.Look(key).Version, r.Bytes(), true); !ok || err != nil {
		b.t.Fatal(ok, err)
	}
}

// What is shown is the record as time has made it, and what was told of it lately.
func TestWhatIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		begun := time.Now()
		b.put("orders", fleet.Record{State: breaker.Open, For: 5 * time.Second, Rule: breaker.RuleSlowRate, Count: 30, Of: 50, Seers: 12})
		b.put("pay", fleet.Record{State: breaker.Ramping, For: 5 * time.Second})
		b.put("stock", fleet.Record{State: breaker.HalfOpen, For: 5 * time.Second, Holder: "a", Token: 1, Abandoned: 3})
		for i, count := range []string{`{"e":1,"calls":10,"failures":1}`, `{"e":1,"calls":20,"slow":2,"open":true}`, `{"e":2,"calls":99}`, "{"} {
			if _, err := b.Tell(t.Context(), "orders", fmt.Sprint(i), "", []byte(count), false); err != nil {
				t.Fatal(err)
			}
		}
		stop := b.Ring("orders", make(chan struct{}, 1))
		time.Sleep(3 * time.Second)
		one := b.List("orders")[0]
		if one.State != eider.BreakerOpen || one.Why() != "30 of 50 calls were slow" || one.Seers != 12 || !one.Since.Equal(begun) || !one.Retry.Equal(begun.Add(5*time.Second)) ||
			one.Telling != 2 || one.Tripped != 1 || one.Calls != 30 || one.Failures != 1 || one.Slow != 2 || one.Watching != 1 {
			t.Errorf("orders: %+v", one)
		}
		stop()
		if one := b.List("stock")[0]; one.Holder != "a" || one.Abandoned != 3 {
			t.Errorf("stock: %+v", one)
		}
		time.Sleep(3 * time.Second)
		if one := b.List("pay")[0]; one.State != eider.BreakerClosed || !one.Since.Equal(begun.Add(5*time.Second)) {
			t.Errorf("a ramp that is over: %+v", one)
		}
		if one := b.List("stock")[0]; one.Holder != "" {
			t.Errorf("a lease that is over: %+v", one)
		}
		if all := b.List(""); len(all) != 2 || all[0].Key != "orders" || all[1].Key != "stock" {
			t.Errorf("of all: %+v", all)
		}
		if all := b.List("nobodys"); all != nil {
			t.Errorf("of nobody's: %+v", all)
		}
		time.Sleep(fleet.KeepCounts)
		if one := b.List("orders")[0]; one.Telling != 0 {
			t.Errorf("counts of long ago: %+v", one)
		}
		if n := b.States(); n[eider.BreakerOpen] != 1 || n[eider.BreakerClosed] != 1 || n[eider.BreakerHalfOpen] != 1 || n[unreadable] != 0 {
			t.Errorf("by state: %v", n)
		}
	})
}

// It is told once that all are stopped, and once that they are free; and no oftener than others' events bear.
func TestTurnsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		open := fleet.Record{State: breaker.Open, For: time.Second, Rule: breaker.RuleFailureRate, Count: 3, Of: 4, Seers: 3}
		half, ramp := fleet.Record{State: breaker.HalfOpen}, fleet.Record{State: breaker.Ramping, For: time.Second}
		for _, r := range []fleet.Record{{}, open, half, open, half, ramp, {}} {
			b.put("orders", r)
		}
		b.put("not a service", open)
		want := []string{"breaker open orders: the one that callers share: 3 of 4 calls failed, as 3 of them saw", "breakers closed orders: the one that callers share",
			`breaker open: "not a service": the one that callers share: 3 of 4 calls failed, as 3 of them saw`}
		if strings.Join(b.told, "\n") != strings.Join(want, "\n") {
			t.Errorf("told: %q", b.told)
		}
		if n := b.Stats().Turns; n[eider.BreakerOpen] != 3 || n[eider.BreakerHalfOpen] != 2 || n[eider.BreakerRamping] != 1 || n[eider.BreakerClosed] != 1 {
			t.Errorf("turns: %v", n)
		}
		for range 1000 {
			b.put("orders", open)
			b.put("orders", fleet.Record{})
		}
		if n := len(b.told); n > eventsAtOnce+1 {
			t.Errorf("%d events of a caller that swaps in a loop", n)
		}
	})
}

// An operator's word is for a breaker that somebody shares, and mends what can't be read.
func TestForce(t *testing.T) {
	b := newBoard(t)
	ctx := t.Context()
	b.put("orders", fleet.Record{State: breaker.Closed})
	for _, row := range []struct {
		do   string
		want eider.BreakerState
	}{{"open", eider.BreakerForcedOpen}, {"close", eider.BreakerForcedClosed}, {"open", eider.BreakerForcedOpen}, {"reset", eider.BreakerClosed}} {
		if got, err := b.Force(ctx, "orders", row.do); err != nil || got.State != row.want || b.List("orders")[0].State != row.want {
			t.Errorf("%s: %+v, %v", row.do, got, err)
		}
	}
	if n := b.Stats().Turns; n[eider.BreakerForcedOpen] != 2 || n[eider.BreakerForcedClosed] != 1 {
		t.Errorf("turns: %v", n)
	}
	if _, _, err := b.Swap(ctx, "pay", 0, []byte("what is this?"), false); err != nil {
		t.Fatal(err)
	}
	if one := b.List("")[0]; one.Key != "pay" || one.Fault == "" {
		t.Errorf("what can't be read is shown as %+v", one)
	}
	if n := b.States(); n[unreadable] != 1 {
		t.Errorf("by state: %v", n)
	}
	if got, err := b.Force(ctx, "pay", "reset"); err != nil || got.Fault != "" {
		t.Errorf("mended: %+v, %v", got, err)
	}
	defer b.Ring("watched", make(chan struct{}, 1))()
	if got, err := b.Force(ctx, "watched", "open"); err != nil || got.State != eider.BreakerForcedOpen || got.Watching != 1 {
		t.Errorf("one that has never opened: %+v, %v", got, err)
	}
	for _, row := range []struct {
		key, do string
		kind    eider.Kind
	}{{"nobodys", "open", eider.NotFound}, {"orders", "shut", eider.Invalid}, {"", "open", eider.Invalid}, {strings.Repeat("x", fleet.MostBytes+1), "open", eider.Invalid}} {
		if _, err := b.Force(ctx, row.key, row.do); eider.KindOf(err) != row.kind {
			t.Errorf("%s %.20q: %v", row.do, row.key, err)
		}
	}
}

// Whatever bytes callers write, what is shown of them is shown.
func TestGarbageIsShown(t *testing.T) {
	b, rnd := newBoard(t), rand.New(rand.NewPCG(3, 4))
	good := string(fleet.Record{Epoch: 1, State: breaker.Open, For: time.Second, Rule: breaker.RuleTrial, Holder: ""}.Bytes())
	for range 2000 {
		record := []byte(good)
		for range 1 + rnd.IntN(4) {
			record[rnd.IntN(len(record))] = byte(rnd.Uint32())
		}
		if _, _, err := b.Swap(context.Background(), "orders", b.Look("orders").Version, record[:rnd.IntN(len(record)+1)], true); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Tell(context.Background(), "orders", "a", "", record, true); err != nil {
			t.Fatal(err)
		}
		if len(b.List("orders")) != 1 {
			t.Fatal("it isn't shown")
		}
		b.List("")
		b.States()
	}
}
