package fleet

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// Calls that hang are told of while they hang, also by callers whose own breakers don't mind yet.
func TestCallsThatHangOpenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0), Local: breaker.Config{SlowLimit: time.Second, SlowMin: 20}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for _, b := range all {
			for range 10 {
				wg.Go(func() { _ = b.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }) })
			}
		}
		pass(4 * time.Second)
		for i, b := range all {
			if s := b.Snapshot(); s.State != breaker.Open || s.Rule != breaker.RuleSlowRate || s.Count < 20 || s.Local.State != breaker.Closed {
				t.Errorf("caller %d: %+v", i, s)
			}
		}
	})
}

// What a caller saw before it went quiet isn't told for ever, and who sees nothing bad reads nobody's counts.
func TestWhatIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &teller{Memory: NewMemory(0)}
		b := callers(t, 1, Config{Store: store})[0]
		pass(1500 * time.Millisecond) // the call that made it join has been told
		store.look()
		for range 3 {
			_ = b.Do(t.Context(), bad)
		}
		pass(1500 * time.Millisecond)
		if counts, all := store.look(); counts == 0 || all != counts {
			t.Errorf("of failures it told %d times and read everybody's %d times", counts, all)
		}
		pass(15 * time.Second)
		store.look()
		pass(time.Minute)
		if counts, _ := store.look(); counts != 0 {
			t.Errorf("it told %d times of what it saw a minute ago", counts)
		}
		for range 100 {
			_ = b.Do(t.Context(), good)
			pass(100 * time.Millisecond)
		}
		if counts, all := store.look(); counts < 8 || counts > 14 || all > 1 {
			t.Errorf("in ten seconds of good calls it told %d times and read everybody's %d times", counts, all)
		}
		b.Close()
		if s, err := store.Memory.Tell(t.Context(), "orders", "someone", nil, true); err != nil || len(s.Counts) != 0 {
			t.Errorf("it is closed, and left %d counts", len(s.Counts))
		}
	})
}

// teller is a store that counts what it is told.
type teller struct {
	*Memory
	mu          sync.Mutex
	counts, all int
}

func (s *teller) Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error) {
	s.mu.Lock()
	if len(count) > 0 {
		s.counts++
	}
	if all {
		s.all++
	}
	s.mu.Unlock()
	return s.Memory.Tell(ctx, key, caller, count, all)
}

func (s *teller) look() (counts, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts, all = s.counts, s.all
	s.counts, s.all = 0, 0
	return counts, all
}

// However many calls there are when a trial is due, a caller asks the store once; and callers don't do it together.
func TestOneOfManyCallsAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		all := callers(t, 3, Config{Store: slowly{store, 100 * time.Millisecond}})
		trip(t, all)
		pass(5*time.Second + spread)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if p, err := all[0].Allow(t.Context()); err == nil && p.Trial() {
					p.Settle(breaker.Failure)
				}
			})
		}
		wg.Wait()
		if s := all[0].Snapshot(); s.Asked != 1 || s.Trials != 1 {
			t.Errorf("20 calls asked %d times and had %d trials", s.Asked, s.Trials)
		}
	})
	b, err := New(Config{Store: NewMemory(0), Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	least, most := int64(math.MaxInt64), int64(0)
	for range 200 {
		v := b.viewOf(nil, Sight{}, Record{Epoch: 1, State: breaker.Open, For: 5 * time.Second})
		least, most = min(least, v.next-v.at), max(most, v.next-v.at)
	}
	if least < int64(5*time.Second) || most > int64(5*time.Second+spread) || most-least < int64(spread/4) {
		t.Errorf("callers ask %v to %v after it opened", time.Duration(least), time.Duration(most))
	}
}

// Somebody has begun anew in a store that forgot, before this caller saw that it had.
func TestAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory(0)
		b := callers(t, 1, Config{Store: store})[0]
		store.mu.Lock()
		store.keys["orders"].put(time.Now(), Record{Epoch: 99, State: breaker.ForcedOpen}.Bytes())
		store.mu.Unlock()
		synctest.Wait()
		if s := b.Snapshot(); !s.Alone || s.Parted != 1 || !errors.Is(s.Why, errForgotten) {
			t.Errorf("it is %+v", s)
		}
		pass(2 * time.Second)
		if s := b.Snapshot(); s.Alone || s.State != breaker.ForcedOpen {
			t.Errorf("then it is %+v", s)
		}
	})
}

// What isn't a record leaves callers on their own, says what to do, and an operator mends it.
func TestGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ record, says string }{
			{"\x00\x01", "something else under this key"},
			{`{"fleet":1,"epoch":1,"state":"melted"}`, "melted"},
			{`{"fleet":1,"epoch":1,"state":"open","rule":"a whim"}`, "a whim"},
			{`{"fleet":2,"epoch":1,"state":"open"}`, "form 2"},
			{`{"fleet":1,"state":"open"}`, "can't be true"},
			{`{"fleet":1,"epoch":1,"state":"open","for_ms":1e11}`, "can't be true"},
			{`{"fleet":1,"epoch":1,"state":"open","holder":"a","token":1}`, "can't be true"},
			{`{"fleet":1,"epoch":1,"state":"half-open","holder":"a"}`, "can't be true"},
			{`{"fleet":1,"epoch":1,"state":"half-open","won":1001}`, "can't be true"},
			{`{"fleet":1,"epoch":1,"state":"open","streak":31}`, "can't be true"},
			{`{"fleet":1,"epoch":1,"state":"open","length_ms":-1}`, "can't be true"},
			{`{"fleet":1,"epoch":1,"state":"half-open","for_ms":"soon"}`, "something else under this key"},
			{`{"fleet":1,"epoch":-1,"state":"closed"}`, "something else under this key"},
			{`[1,2,3]`, "something else under this key"},
			{"", "something else under this key"},
			{strings.Repeat("[", MostBytes), "something else under this key"},
		} {
			store := NewMemory(0)
			b := callers(t, 1, Config{Store: store})[0]
			store.mu.Lock()
			store.keys["orders"].put(time.Now(), []byte(c.record))
			store.mu.Unlock()
			pass(20 * time.Second)
			s := b.Snapshot()
			if !s.Alone || s.Why == nil || !strings.Contains(s.Why.Error(), c.says) {
				t.Errorf("%s: it is %+v", c.record, s)
			}
			if err := b.Do(t.Context(), good); err != nil {
				t.Errorf("%s: a call got %v", c.record, err)
			}
			if _, err := Force(t.Context(), store, "orders", breaker.Closed); err != nil {
				t.Fatal(err)
			}
			pass(10 * time.Second)
			if s := b.Snapshot(); s.Alone {
				t.Errorf("%s: mended, and it is on its own: %v", c.record, s.Why)
			}
		}
	})
}

// A reset begins anew: the next open time is the first.
func TestForceForgets(t *testing.T) {
	r := Record{Epoch: 1, Generation: 4, State: breaker.Open, For: time.Minute, Length: time.Minute, Streak: 5, Rule: breaker.RuleTrial, Count: 1, Of: 1, Seers: 1, Abandoned: 2}
	if got, want := r.Force(breaker.Closed), (Record{Epoch: 1, Generation: 5, State: breaker.Closed, Abandoned: 2}); got != want {
		t.Errorf("%+v", got)
	}
}

// That a caller's own breaker has opened is told at once: a fleet opens as soon as a quorum of them has.
func TestThatABreakerOpensIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0)})
		pass(400 * time.Millisecond) // between two reports
		for _, b := range all {
			for range 12 {
				_ = b.Do(t.Context(), bad)
			}
		}
		synctest.Wait()
		for i, b := range all {
			if s := b.Snapshot(); s.State != breaker.Open {
				t.Errorf("caller %d: %+v", i, s.Record)
			}
		}
	})
}
