package fleet

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// A trial that never comes back is a failure when its time is up; one whose caller is lost is abandoned with its lease.
func TestATrialThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		all := callers(t, 3, Config{Store: store, Local: breaker.Config{SlowLimit: 2 * time.Second}})
		trip(t, all)
		pass(5*time.Second + spread)
		p, err := all[0].Allow(t.Context())
		if err != nil || !p.Trial() || !p.Live() {
			t.Fatal(err)
		}
		pass(time.Second)
		if err := all[1].Do(t.Context(), good); !errors.Is(err, breaker.ErrRejected) {
			t.Fatalf("a second trial: %v", err)
		}
		pass(time.Second + time.Millisecond)
		synctest.Wait()
		if s := all[1].Snapshot(); s.State != breaker.Open || s.For != 10*time.Second {
			t.Fatalf("a trial hangs, and it is %+v", s.Record)
		}
		if p.Live() {
			t.Error("its time is up, so that another may try, and it may still be made")
		}
		p.Settle(breaker.Success) // comes too late to say anything
		pass(time.Second)
		if s := all[1].Snapshot(); s.State != breaker.Open {
			t.Fatalf("it is %v", s.State)
		}
	})
}

// Its time is up, and the store takes its time to hear of it: it may not be made meanwhile.
func TestATrialWhoseTimeIsUpIsntLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: slowly{&sick{Memory: NewMemory(0)}, 100 * time.Millisecond}})
		trip(t, all)
		pass(5*time.Second + spread)
		p, err := all[0].Allow(t.Context())
		if err != nil || !p.Trial() {
			t.Fatal(err)
		}
		pass(7500*time.Millisecond - time.Millisecond)
		if !p.Live() {
			t.Error("its time isn't up, and it isn't live")
		}
		pass(50 * time.Millisecond)
		if s := all[0].Snapshot(); s.Holder != "caller-0" {
			t.Fatalf("the store has heard of it: %+v", s.Record)
		}
		if p.Live() {
			t.Error("it is live")
		}
	})
}

func TestAProberThatIsPausedPastItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory(0)
		own := &sick{Memory: store}
		c := Config{Store: store, Lease: 3 * time.Second}
		all := callers(t, 3, c)
		trip(t, all)
		c.Store, c.Key, c.Caller = own, "orders", "prober"
		prober, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer prober.Close()
		_ = prober.Do(t.Context(), good) // joins
		pass(5*time.Second + spread)
		paused, err := prober.Allow(t.Context())
		if err != nil || !paused.Trial() {
			t.Fatal(err)
		}
		own.hangs.Store(true) // nothing that it says is heard: as if it were stopped
		pass(3*time.Second + spread)
		if paused.Live() {
			t.Error("its lease is over, and it would dial")
		}
		called := false
		if err := all[1].Do(t.Context(), func(context.Context) error { called = true; return errDown }); !called || err != errDown {
			t.Fatalf("the next caller wasn't let through: %v", err)
		}
		synctest.Wait()
		own.hangs.Store(false)
		paused.Settle(breaker.Success) // of a call that it had begun after all
		pass(5 * time.Second)
		if s := all[2].Snapshot(); s.State != breaker.Open || s.Abandoned != 1 {
			t.Errorf("it is %+v", s.Record)
		}
		if s := prober.Snapshot(); s.Refused == 0 {
			t.Error("its verdict was heard")
		}
	})
}

// The answer that a permit was granted is lost: its caller goes on alone, and gives it back when it joins again.
func TestAGrantWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		all := callers(t, 3, Config{Store: store, Lease: time.Minute})
		trip(t, all)
		pass(5*time.Second + spread)
		store.deaf.Store(true)
		all[0].Local().Reset()
		if err := all[0].Do(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		store.deaf.Store(false)
		pass(2 * time.Second)
		if err := all[1].Do(t.Context(), good); err != nil {
			t.Fatalf("nobody gets the permit that was lost: %v, %+v", err, all[1].Snapshot().Record)
		}
	})
}

// A call is given up while the store thinks about its permit, and another takes longer than a call waits: the permit is the next call's.
func TestAPermitThatComesTooLateIsTheNextCalls(t *testing.T) {
	for _, takes := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := &sick{Memory: NewMemory(0)}
			all := callers(t, 3, Config{Store: slowly{store, takes}, Lease: time.Minute})
			trip(t, all)
			pass(5*time.Second + spread)
			all[0].Local().Reset()
			ctx, cancel := context.WithTimeout(t.Context(), takes-time.Millisecond)
			defer cancel()
			began := time.Now()
			p, err := all[0].Allow(ctx)
			if took := time.Since(began); takes > 250*time.Millisecond && (err != nil || p.Trial() || took != 250*time.Millisecond) || takes < 250*time.Millisecond && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v: %v after %v", takes, err, took)
			}
			pass(takes)
			if s := all[0].Snapshot(); s.Alone {
				t.Errorf("%v: a store that isn't away is taken to be: %v", takes, s.Why)
			}
			if p, err := all[0].Allow(t.Context()); err != nil || !p.Trial() || !p.Live() {
				t.Fatalf("%v: nobody gets the permit: %v", takes, err)
			}
		})
	}
}

// slowly is a store that takes its time.
type slowly struct {
	*sick
	takes time.Duration
}

func (s slowly) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	pass(s.takes)
	return s.sick.Swap(ctx, key, version, record)
}

// The store fails over to a replica that lacks the last writes: everybody notices, nobody is stuck.
func TestAStoreThatGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory(0)
		all := callers(t, 3, Config{Store: store})
		store.mu.Lock()
		before := *store.keys["orders"]
		store.mu.Unlock()
		trip(t, all)
		for _, b := range all {
			b.Local().Reset()
		}
		store.mu.Lock()
		k := store.keys["orders"]
		k.version, k.record, k.counts = before.version, before.record, nil // and no watch is told
		store.mu.Unlock()
		pass(4 * time.Second)
		for i, b := range all {
			if s := b.Snapshot(); s.Alone || s.State != breaker.Closed || s.Parted != 1 {
				t.Errorf("caller %d: %+v", i, s)
			}
		}
	})
}

// A trial that panics, or whose goroutine ends, has failed, and goes on as if there were no breaker.
func TestATrialThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0)})
		trip(t, all)
		for i, how := range []func(){func() { panic("it") }, runtime.Goexit} {
			pass(all[0].Snapshot().For + spread)
			done := make(chan any)
			go func() {
				defer close(done)
				defer func() {
					if v := recover(); i == 0 && v != "it" {
						t.Errorf("it panics, and out comes %v", v)
					}
				}()
				_ = all[i].Do(t.Context(), func(context.Context) error { how(); return nil })
			}()
			<-done
			synctest.Wait()
			if s := all[2].Snapshot(); s.State != breaker.Open || s.Streak != i+2 || s.Rule != breaker.RuleTrial {
				t.Errorf("%+v", s.Record)
			}
		}
	})
}

// A trial is settled once: what is said later, of a call that its time was up for, say, nobody is told.
func TestATrialIsSettledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0)})
		trip(t, all)
		pass(5*time.Second + spread)
		p, err := all[0].Allow(t.Context())
		if err != nil || !p.Trial() {
			t.Fatal(err)
		}
		p.Settle(breaker.Success)
		p.Settle(breaker.Failure)
		synctest.Wait()
		if s := all[0].Snapshot(); s.State != breaker.Ramping || s.Refused != 0 {
			t.Errorf("%d verdicts were refused: %+v", s.Refused, s.Record)
		}
	})
}

// A trial that takes its time has gone well, where no rule says that it was too slow.
func TestASlowTrialWithTheRuleOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0), SlowRate: -1, Lease: time.Minute, Local: breaker.Config{SlowRate: -1}})
		trip(t, all)
		pass(5*time.Second + spread)
		_ = all[0].Do(t.Context(), func(context.Context) error { pass(12 * time.Second); return nil })
		synctest.Wait()
		if s := all[1].Snapshot(); s.State != breaker.Ramping {
			t.Errorf("%+v", s.Record)
		}
	})
}

// A verdict that the store didn't hear is told again by who joins again in time.
func TestAVerdictIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		all := callers(t, 3, Config{Store: store, Lease: time.Minute})
		trip(t, all)
		pass(5*time.Second + spread)
		p, err := all[0].Allow(t.Context())
		if err != nil || !p.Trial() {
			t.Fatal(err)
		}
		store.fails.Store(true)
		p.Settle(breaker.Success)
		synctest.Wait()
		if s := all[0].Snapshot(); !s.Alone {
			t.Fatalf("it was heard: %+v", s)
		}
		store.fails.Store(false)
		pass(3 * time.Second)
		if s := all[1].Snapshot(); s.State != breaker.Ramping {
			t.Errorf("%+v", s.Record)
		}
	})
}
