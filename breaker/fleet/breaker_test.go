package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

func TestK20NoCallTouchesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		all := callers(t, 3, Config{Store: store})
		pass(100 * time.Millisecond) // nothing is being told
		store.hangs.Store(true)
		before := store.asked.Load()
		for _, b := range all {
			for range 1000 {
				began := time.Now()
				if err := b.Do(t.Context(), good); err != nil || time.Since(began) > 0 {
					t.Fatalf("%v after %v", err, time.Since(began))
				}
			}
		}
		if n := store.asked.Load() - before; n != 0 {
			t.Errorf("3,000 calls asked the store %d times", n)
		}
	})
}

func TestK20OpenAsksNobodyEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		all := callers(t, 3, Config{Store: store})
		trip(t, all)
		pass(100 * time.Millisecond) // nothing is being told
		before := store.asked.Load()
		for _, b := range all {
			for range 1000 {
				if err := b.Do(t.Context(), good); !errors.Is(err, breaker.ErrRejected) {
					t.Fatal(err)
				}
			}
		}
		if n := store.asked.Load() - before; n != 0 {
			t.Errorf("3,000 rejected calls asked the store %d times", n)
		}
		if n := all[0].Snapshot().Asked; n != 0 {
			t.Errorf("%d rejected calls thought of asking", n)
		}
	})
}

func TestK20OneSickCallerStaysAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 5, Config{Store: NewMemory(0)})
		for range 20 {
			for i, b := range all {
				call := good
				if i == 0 {
					call = bad
				}
				for range 10 {
					_ = b.Do(t.Context(), call)
				}
			}
			pass(100 * time.Millisecond)
		}
		for i, b := range all {
			s := b.Snapshot()
			if s.State != breaker.Closed {
				t.Fatalf("caller %d: the fleet is %v", i, s.State)
			}
			if open := s.Local.State == breaker.Open; open != (i == 0) {
				t.Errorf("caller %d's own breaker is %v", i, s.Local.State)
			}
		}
	})
}

func TestForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory(0)
		all := callers(t, 3, Config{Store: store})
		steps := []struct {
			to       breaker.State
			rejected bool
		}{{breaker.ForcedOpen, true}, {breaker.ForcedClosed, false}, {breaker.ForcedOpen, true}, {breaker.Closed, false}}
		for _, step := range steps {
			if _, err := Force(t.Context(), store, "orders", step.to); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for i, b := range all {
				if err := b.Do(t.Context(), good); errors.Is(err, breaker.ErrRejected) != step.rejected {
					t.Errorf("%v: caller %d got %v", step.to, i, err)
				}
			}
		}
		if _, err := Force(t.Context(), store, "orders", breaker.HalfOpen); err == nil {
			t.Error("it can be forced half-open")
		}
	})
}

// Who is closed gives back a permit that no call has begun with; a trial that is under way holds it, for its call is under way too.
func TestCloseGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		all[0].Close()
		all[0].Local().Reset()
		pass(spread)
		if p, err := all[1].Allow(t.Context()); err != nil || !p.Trial() {
			t.Fatal(err)
		}
		all[1].Close()
		pass(30 * time.Second)
		if p, err := all[2].Allow(t.Context()); err == nil {
			t.Fatalf("a second trial: %+v", p)
		}
		if err := all[0].Do(t.Context(), good); err != nil {
			t.Errorf("closed, and a call of its own gets %v", err)
		}
	})
}

// What OnEvent is told is in order, and it may use the breaker.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []breaker.State
		var all []*Breaker
		all = callers(t, 3, Config{Store: NewMemory(0), Local: breaker.Config{OnEvent: func(breaker.Event) { panic("contained") }}, OnEvent: func(ev Event) {
			mu.Lock()
			told = append(told, ev.To)
			mu.Unlock()
			if len(all) > 0 {
				_ = all[0].Snapshot()
				_, _ = all[0].Allow(context.Background())
			}
		}})
		trip(t, all[:3])
		pass(5*time.Second + spread)
		_ = all[0].Do(t.Context(), good)
		pass(6 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Ramping, breaker.Closed} {
			if !slices.Contains(told, want) {
				t.Errorf("nobody was told of %v: %v", want, told)
			}
		}
	})
}

// OnEvent holds nobody up, however slow it is, and may close the breaker.
func TestASlowOnEventHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*Breaker
		all = callers(t, 3, Config{Store: NewMemory(0), OnEvent: func(ev Event) {
			switch ev.To {
			case breaker.HalfOpen:
				pass(5 * time.Second)
			case breaker.Ramping:
				all[2].Close()
			}
		}})
		trip(t, all)
		pass(5*time.Second + spread)
		began := time.Now()
		if err := all[0].Do(t.Context(), good); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if s := all[1].Snapshot(); s.State != breaker.Ramping {
			t.Errorf("while OnEvent takes its time, the verdict isn't told: %+v", s.Record)
		}
		pass(6 * time.Second)
		if s := all[2].Snapshot(); !s.Alone {
			t.Errorf("OnEvent closed it, and it is %+v", s)
		}
	})
}

// Who was too slow for what happened is told how much it missed.
func TestMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, wait := NewMemory(0), make(chan struct{})
		var told, missed atomic.Int64
		b := callers(t, 1, Config{Store: store, OnEvent: func(ev Event) {
			<-wait
			told.Add(1)
			missed.Add(int64(ev.Missed))
		}})[0]
		const turns = 3 * mostNews
		for i := range turns {
			if _, err := Force(t.Context(), store, "orders", []breaker.State{breaker.ForcedOpen, breaker.ForcedClosed}[i%2]); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if s := b.Snapshot(); s.Generation != turns {
			t.Fatalf("it saw %d of %d turns", s.Generation, turns)
		}
		close(wait)
		synctest.Wait()
		if n := told.Load(); n != 1+mostNews || n+missed.Load() != 1+turns {
			t.Errorf("%d events were told and %d missed, of %d", n, missed.Load(), 1+turns)
		}
	})
}
