package fleet

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// Nothing is held while a call runs, not even the trial's: an operator gets through, and calls of others are answered at once.
func TestK20NothingIsHeldWhileACallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory(0)
		all := callers(t, 3, Config{Store: store})
		trip(t, all)
		pass(5*time.Second + spread)
		began := time.Now()
		err := all[0].Do(t.Context(), func(context.Context) error {
			for _, b := range all {
				if err := b.Do(t.Context(), good); !errors.Is(err, breaker.ErrRejected) {
					t.Errorf("a second call beside the trial: %v", err)
				}
			}
			_, err := Force(t.Context(), store, "orders", breaker.ForcedClosed)
			synctest.Wait()
			for _, b := range all {
				err = errors.Join(err, b.Do(t.Context(), good))
			}
			return err
		})
		if took := time.Since(began); err != nil || took > 0 {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// What callers tell at the same time is all there, and of those that would open it together one does.
func TestK20NoUpdateIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory(0)
		all := callers(t, 30, Config{Store: store, Local: breaker.Config{FailureMin: 100}})
		for _, b := range all {
			for range 10 {
				_ = b.Do(t.Context(), bad)
			}
		}
		pass(time.Second + time.Millisecond)
		for i, b := range all {
			if s := b.Snapshot(); s.State != breaker.Open || s.Generation != 1 || s.Epoch != all[0].Snapshot().Epoch {
				t.Errorf("caller %d: %+v", i, s.Record)
			}
		}
		sight, err := store.Tell(t.Context(), "orders", "looks", nil, true)
		if told := ReadCounts(Sight{Version: 1, Record: Record{Epoch: all[0].Snapshot().Epoch}.Bytes(), Counts: sight.Counts}); err != nil || len(told) < 3 {
			t.Errorf("of %d counts %d are of the time before it opened, %v", len(sight.Counts), len(told), err)
		}
		for _, c := range sight.Counts {
			if n, err := readCount(c.Count); err != nil || n.Failures != 10 {
				t.Errorf("%s told %+v, %v", c.Caller, n, err)
			}
		}
	})
}

// Quorum callers that see it open it, and one fewer doesn't, however many calls of theirs go wrong.
func TestK20OpensByQuorum(t *testing.T) {
	for _, kind := range []string{"failing", "slow"} {
		synctest.Test(t, func(t *testing.T) {
			all := callers(t, 4, Config{Store: NewMemory(0), Quorum: 4, Local: breaker.Config{SlowLimit: time.Second}})
			call := bad
			if kind == "slow" {
				call = func(context.Context) error { pass(1100 * time.Millisecond); return nil }
			}
			for i, b := range all {
				var calls sync.WaitGroup
				for range 40 {
					calls.Go(func() { _ = b.Do(t.Context(), call) })
				}
				calls.Wait()
				pass(time.Second)
				if s := all[0].Snapshot(); (s.State == breaker.Open) != (i == 3) {
					t.Fatalf("%s: %d of 4 callers see it, and it is %+v", kind, i+1, s.Record)
				}
			}
		})
	}
}

// While the store is away each caller goes by its own breaker, which opens and closes as ever.
func TestK20AwayTheOwnBreakerDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		all := callers(t, 3, Config{Store: store})
		store.fails.Store(true)
		store.Flush()
		pass(time.Second)
		for range 20 {
			_ = all[0].Do(t.Context(), bad)
		}
		var no *breaker.Rejected
		if err := all[0].Do(t.Context(), good); !errors.As(err, &no) || no.Name != "orders" || no.State != breaker.Open {
			t.Errorf("its own is %v, and a call gets %v", all[0].Local().Snapshot().State, err)
		}
		if err := all[1].Do(t.Context(), good); err != nil {
			t.Errorf("another caller's call gets %v", err)
		}
		pass(20 * time.Second)
		for range 3 {
			_ = all[0].Do(t.Context(), good)
		}
		if s := all[0].Snapshot(); !s.Alone || s.Local.State == breaker.Open {
			t.Errorf("the target is well, the store away: %+v", s)
		}
	})
}

// A store that was flushed is whole again by itself: the fleet is one again, and opens, tries and closes as before.
func TestK20HealsAfterAFlush(t *testing.T) {
	for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.Ramping} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := NewMemory(0)
				all := callers(t, 3, Config{Store: store})
				bring(t, all, state)
				before := all[0].Snapshot().Epoch
				for _, b := range all {
					b.Local().Reset()
				}
				store.Flush()
				pass(5 * time.Second)
				if s := all[0].Snapshot(); s.Epoch == before || s.State != breaker.Closed {
					t.Fatalf("%+v", s)
				}
				bring(t, all, breaker.Ramping)
				pass(6 * time.Second)
				for i, b := range all {
					if s := b.Snapshot(); s.State != breaker.Closed || s.Parted != 1 || s.Alone {
						t.Errorf("caller %d: %+v", i, s)
					}
				}
			})
		})
	}
}

// As many trials in a row as are asked for must go well; one that doesn't begins anew.
func TestSuccessesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0), Successes: 3, MaxOpen: 5 * time.Second})
		trip(t, all)
		for _, row := range []int{2, 3} {
			pass(5*time.Second + spread)
			for i := range row {
				if s := all[0].Snapshot(); s.State == breaker.Ramping {
					t.Fatalf("it closes after %d", i)
				}
				if err := all[i].Do(t.Context(), good); err != nil {
					t.Fatal(err)
				}
				pass(spread)
			}
			if row == 2 {
				_ = all[2].Do(t.Context(), bad)
				pass(spread)
			}
		}
		if s := all[0].Snapshot(); s.State != breaker.Ramping {
			t.Errorf("%+v", s.Record)
		}
	})
}

// Everything at once, for the race detector: calls, snapshots, operators, flushes, and callers that come and go. It ends, and no
// goroutine stays in the bubble.
func TestEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory(0)
		c := Config{Store: store, Key: "orders", Quorum: 2, OpenFor: 50 * time.Millisecond, MaxOpen: 100 * time.Millisecond, Lease: 200 * time.Millisecond, Ramp: 50 * time.Millisecond,
			Report: 30 * time.Millisecond, Poll: 50 * time.Millisecond, Wait: 20 * time.Millisecond, Retry: 20 * time.Millisecond, Local: breaker.Config{OpenFor: 30 * time.Millisecond}}
		var all [4]atomic.Pointer[Breaker]
		for i := range all {
			all[i].Store(another(t, c))
		}
		var work sync.WaitGroup
		end := time.Now().Add(500 * time.Millisecond)
		for g := range 16 {
			work.Go(func() {
				for i := 0; time.Now().Before(end); i++ {
					at := &all[(g+i)%len(all)]
					switch b := at.Load(); {
					case g == 0 && i%50 == 0:
						store.Flush()
					case g == 1 && i%50 == 0:
						_, _ = Force(t.Context(), store, "orders", []breaker.State{breaker.ForcedOpen, breaker.ForcedClosed, breaker.Closed}[i%3])
					case g == 2:
						_ = b.Snapshot()
					case g == 3:
						b.Local().Reset()
					case g == 4 && i%20 == 0:
						go b.Close()
						b.Close()
						at.Store(another(t, c))
					}
					if p, err := at.Load().Allow(t.Context()); err == nil {
						p.Settle(breaker.Outcome(i / 20 % 3))
					}
					pass(time.Millisecond)
				}
			})
		}
		work.Wait()
		for i := range all {
			all[i].Load().Close()
		}
	})
}

// another caller, whose callbacks use it.
func another(t *testing.T, c Config) *Breaker {
	var b *Breaker
	c.OnEvent = func(ev Event) {
		_ = b.Snapshot()
		if p, err := b.Allow(context.Background()); err == nil {
			p.Settle(breaker.Neutral)
		}
		if ev.Parted != nil {
			b.Local().Reset()
		}
	}
	c.Local.OnEvent = func(breaker.Event) { _ = b.Snapshot() }
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
