package bulkhead_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/bulkhead"
)

var ctx = context.Background()

func acquire(t *testing.T, b *bulkhead.Bulkhead) bulkhead.Slot {
	t.Helper()
	s, err := b.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inFlight(t *testing.T, b *bulkhead.Bulkhead, want int) {
	t.Helper()
	if got := b.Snapshot().InFlight; got != want {
		t.Fatalf("%d in flight, want %d", got, want)
	}
}

func TestAdmitsUpToTheLimitAndSaysWhyNot(t *testing.T) {
	b := bulkhead.New(bulkhead.Config{Name: "payments", Limit: 2})
	first := acquire(t, b)
	acquire(t, b)
	if b.Admits() {
		t.Error("two of two are in flight, and it would admit one more")
	}
	_, err := b.Acquire(ctx)
	var full *bulkhead.Full
	if !errors.Is(err, bulkhead.ErrFull) || !errors.As(err, &full) {
		t.Fatalf("the third of two slots: %v, want a *Full", err)
	}
	if full.Limit != 2 || full.InFlight != 2 || full.Waiting != 0 || full.Retry <= 0 {
		t.Errorf("%+v, want limit 2, in flight 2, nobody waits, and when to come back", *full)
	}
	for _, part := range []string{`"payments"`, "2 of 2", "come back in 100ms", "raise Limit"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q doesn't say %q", err, part)
		}
	}
	var guard interface{ Rejection() bool } // how a breaker knows
	if !errors.As(err, &guard) || !guard.Rejection() {
		t.Error("a breaker would count it")
	}
	first.Release(true)
	if !b.Admits() {
		t.Error("there is room for one more, and it wouldn't admit him")
	}
	acquire(t, b)
	if s := b.Snapshot(); s.Admitted != 3 || s.Refused != 1 || s.InFlight != 2 {
		t.Errorf("%+v, want 3 admitted, 1 refused, 2 in flight", s)
	}
}

func TestEveryWayOutGivesBack(t *testing.T) {
	b := bulkhead.New(bulkhead.Config{Limit: 1})
	broken := errors.New("broken")
	for _, way := range []struct {
		name string
		call func(context.Context) error
	}{
		{"return", func(context.Context) error { return nil }},
		{"error", func(context.Context) error { return broken }},
		{"panic", func(context.Context) error { panic(broken) }},
		{"goexit", func(context.Context) error { runtime.Goexit(); return nil }},
	} {
		t.Run(way.name, func(t *testing.T) {
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				if err := b.Do(ctx, way.call); (way.name == "error") != errors.Is(err, broken) {
					t.Errorf("Do: %v", err)
				}
			})
			wg.Wait()
			inFlight(t, b, 0)
			wg.Go(func() {
				defer func() { _ = recover() }()
				_, _ = bulkhead.Call(ctx, b, func(ctx context.Context) (int, error) { return 1, way.call(ctx) })
			})
			wg.Wait()
			inFlight(t, b, 0)
		})
	}
	if v, err := bulkhead.Call(ctx, b, func(context.Context) (int, error) { return 7, nil }); v != 7 || err != nil {
		t.Errorf("Call: %d, %v, want 7", v, err)
	}
}

func TestADoneContextIsNotWorthACall(t *testing.T) {
	b := bulkhead.New(bulkhead.Config{})
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Do(gone, func(context.Context) error { t.Error("called"); return nil }); !errors.Is(err, context.Canceled) || errors.Is(err, bulkhead.ErrFull) {
		t.Errorf("Do: %v, want the context's error", err)
	}
	if got := b.Snapshot().Admitted; got != 0 {
		t.Errorf("%d admitted, want 0", got)
	}
}

// A copy of a slot is the same slot.
func TestReleasingTwiceFreesOnce(t *testing.T) {
	b := bulkhead.New(bulkhead.Config{Limit: 2})
	kept := acquire(t, b)
	once := acquire(t, b)
	copied := once
	once.Release(true)
	again := acquire(t, b) // may well have the mark of the one before
	once.Release(true)
	copied.Release(false)
	bulkhead.Slot{}.Release(true)
	inFlight(t, b, 2)
	if _, err := b.Acquire(ctx); !errors.Is(err, bulkhead.ErrFull) {
		t.Errorf("a slot was released twice, and there is room for a third: %v", err)
	}
	if got := b.Snapshot().Twice; got != 2 {
		t.Errorf("%d releases were one too many, want 2", got)
	}
	kept.Release(true)
	again.Release(true)
	inFlight(t, b, 0)
}

// The limit is hard: also for 64 goroutines at once.
func TestNeverMoreThanTheLimitInFlight(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  bulkhead.Config
	}{
		{"turned away", bulkhead.Config{Limit: 7}},
		{"waiting", bulkhead.Config{Limit: 7, Wait: time.Hour, MaxWaiting: 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bulkhead.New(c.cfg)
			var now, most, refused atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for range 300 {
						s, err := b.Acquire(ctx)
						if err != nil {
							refused.Add(1)
							continue
						}
						n := now.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						runtime.Gosched()
						now.Add(-1)
						s.Release(true)
						s.Release(true)
					}
				})
			}
			wg.Wait()
			s := b.Snapshot()
			if most.Load() > 7 || s.InFlight != 0 || s.Waiting != 0 {
				t.Errorf("up to %d at once of 7, %d in flight and %d waiting in the end", most.Load(), s.InFlight, s.Waiting)
			}
			if s.Admitted+s.Refused != 64*300 || s.Refused != uint64(refused.Load()) || s.Twice != s.Admitted {
				t.Errorf("%+v, want %d calls in all, %d refused", s, 64*300, refused.Load())
			}
			if c.cfg.Wait > 0 && s.Refused > 0 {
				t.Errorf("%d were turned away, and there was an hour to wait", s.Refused)
			}
		})
	}
}

func TestNothingIsAllocated(t *testing.T) {
	b := bulkhead.New(bulkhead.Config{Limit: 1})
	call := func(context.Context) error { return nil }
	if n := testing.AllocsPerRun(1000, func() { _ = b.Do(ctx, call) }); n != 0 {
		t.Errorf("Do allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { s, _ := b.Acquire(ctx); s.Release(true) }); n != 0 {
		t.Errorf("Acquire and Release allocate %v times", n)
	}
	acquire(t, b)
	if n := testing.AllocsPerRun(1000, func() { _ = b.Do(ctx, call) }); n != 0 {
		t.Errorf("being turned away allocates %v times", n)
	}
}

func TestConfigTellsAllFaultsAtOnce(t *testing.T) {
	err := bulkhead.Config{Name: "x", Limit: -1, Min: 20, Max: 10, Headroom: 0.5, Wait: -1, MaxWaiting: -2, Lease: 1}.Validate()
	for _, part := range []string{"Limit is -1", "Min is 20", "at most Max, 10", "Headroom is 0.5", "Wait is -1ns", "MaxWaiting is -2", "Lease is 1ns"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v doesn't say %q", err, part)
		}
	}
	for _, good := range []bulkhead.Config{{}, {Limit: 1}, {Lease: -1}, {Min: 5, Max: 5, Headroom: 1}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	s := bulkhead.New(bulkhead.Config{Limit: -1, Min: 20, Max: 10, Headroom: -1, Wait: -1, MaxWaiting: -2, Lease: 1}).Snapshot()
	if !s.Auto || s.Limit != 10 || s.Min != 10 || s.Max != 10 {
		t.Errorf("bent to %+v, want an automatic limit of 10", s)
	}
}

// A callback under a lock deadlocks as soon as it asks what it was told of; one that fails must not harm the call that
// happened to pass.
func TestK12EventsComeInOrderOutsideLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bulkhead.Bulkhead
		var kinds []bulkhead.Kind
		b = bulkhead.New(bulkhead.Config{Limit: 1, Lease: time.Second, OnEvent: func(e bulkhead.Event) {
			kinds = append(kinds, e.Kind)
			b.Snapshot()
			if s, err := b.Acquire(ctx); err == nil {
				s.Release(true)
			}
			switch len(kinds) {
			case 1:
				panic("the callback's own")
			case 2:
				runtime.Goexit()
			}
		}})
		acquire(t, b)
		if _, err := b.Acquire(ctx); err == nil {
			t.Fatal("two of one")
		}
		time.Sleep(2 * time.Second)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = b.Acquire(ctx) // is ended by the callback, before it holds anything
		}()
		<-ended
		s := acquire(t, b)
		time.Sleep(time.Second / 2) // nobody was turned away for a while
		s.Release(true)
		acquire(t, b)
		if want := []bulkhead.Kind{bulkhead.Filled, bulkhead.Reclaimed, bulkhead.Relieved}; !slices.Equal(kinds, want) {
			t.Errorf("told %v, want %v", kinds, want)
		}
	})
}
