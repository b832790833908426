package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// What was seen ten minutes ago, before the target was mended, doesn't open it with the next good call; nor do callers that had a bad
// minute each, one after the other.
func TestWhatIsOldOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 4, Config{Store: NewMemory(0)})
		for _, b := range all {
			for range 3 {
				_ = b.Do(t.Context(), bad)
			}
			pass(20 * time.Second) // nobody's are told beside another's
			_ = b.Do(t.Context(), good)
		}
		pass(10 * time.Minute)
		for _, b := range all {
			_ = b.Do(t.Context(), good)
		}
		pass(6 * time.Second)
		if s := all[0].Snapshot(); s.State != breaker.Closed {
			t.Fatalf("four calls went well, and it is %v: %d of %d", s.State, s.Count, s.Of)
		}
		for _, b := range all {
			for range 12 {
				_ = b.Do(t.Context(), bad)
			}
			pass(10 * time.Minute)
			if s := b.Snapshot(); s.Local.State != breaker.Open || s.State != breaker.Closed {
				t.Fatalf("its own is %v, the fleet's %v: %d of %d, %d callers", s.Local.State, s.State, s.Count, s.Of, s.Seers)
			}
		}
	})
}

// An own breaker that is open speaks for its caller while it is an opinion: a minute of open time with a call waiting for its end, say.
func TestOpenCallersSpeakWhileTheyAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0), Local: breaker.Config{OpenFor: time.Minute}})
		for i, b := range all {
			for range 12 {
				_ = b.Do(t.Context(), bad)
			}
			if s := all[0].Snapshot(); s.State != breaker.Closed {
				t.Fatalf("%d callers are open, and it is %v", i+1, s.State)
			}
			pass(15 * time.Second) // longer than Window
		}
		for i, b := range all {
			if s := b.Snapshot(); s.State != breaker.Open || s.Seers != 3 {
				t.Errorf("caller %d: %+v", i, s.Record)
			}
		}
	})
}

// A caller whose own breaker is open makes no calls any more: they would all be bad, as far as it can tell, and not just the share that
// opened it.
func TestOpenCallersSpeakForAllTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 5, Config{Store: NewMemory(0)})
		for i, b := range all {
			for n := range 10 {
				call := good
				if i >= 2 && n >= 4 {
					call = bad
				}
				_ = b.Do(t.Context(), call)
			}
			pass(1100 * time.Millisecond)
		}
		if s := all[0].Snapshot(); s.State != breaker.Open || s.Seers != 3 || s.Count < 30 || s.Of > 56 {
			t.Errorf("three of five are open, by half of their calls: %+v", s.Record)
		}
	})
}

// Calls that hang are one call each, however long they do.
func TestWhatHangsIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0), Local: breaker.Config{SlowLimit: time.Second}})
		for _, b := range all {
			for range 9 {
				_ = b.Do(t.Context(), good)
			}
			for range 6 {
				p, err := b.Allow(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Settle(breaker.Neutral) })
			}
		}
		pass(9 * time.Second)
		if s := all[0].Snapshot(); s.State != breaker.Closed {
			t.Errorf("6 of 15 calls of each hang, half would open it, and it is %v: %d of %d", s.State, s.Count, s.Of)
		}
	})
}

// Calls that have hung for longer than Window are told of for as long as they hang.
func TestWhatHangsForLongIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0), Local: breaker.Config{SlowLimit: time.Second, SlowMin: 20}})
		for i, b := range all {
			for range 10 {
				p, err := b.Allow(t.Context())
				if err != nil {
					t.Fatalf("two callers are no quorum: %v", err)
				}
				t.Cleanup(func() { p.Settle(breaker.Neutral) })
			}
			if i == 1 {
				pass(30 * time.Second)
			}
		}
		pass(4 * time.Second)
		if s := all[0].Snapshot(); s.State != breaker.Open || s.Seers != 3 || s.Count != 30 {
			t.Errorf("30 calls hang, ten of three callers each: %+v", s.Record)
		}
	})
}

// Failures of callers whose own breakers want more of them: the fleet hears of them with the next report, after however long a rest.
func TestFailuresAreToldWithTheNextReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 3, Config{Store: NewMemory(0), Local: breaker.Config{FailureMin: 20}})
		pass(5*time.Second + 100*time.Millisecond)
		for _, b := range all {
			for range 9 {
				_ = b.Do(t.Context(), bad)
			}
		}
		pass(2*time.Second + time.Millisecond)
		for i, b := range all {
			if s := b.Snapshot(); s.State != breaker.Open || s.Count < 27 || s.Rule != breaker.RuleFailureRate || s.Local.State != breaker.Closed {
				t.Errorf("caller %d: %+v, its own is %v", i, s.Record, s.Local.State)
			}
		}
	})
}

// What a caller tells is of the last Window, to the part that it is cut into: no more, not less, however long its own breaker has been closed.
func TestWhatIsToldIsOfTheLastWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := callers(t, 1, Config{Store: NewMemory(0), Window: 8 * time.Second, Local: breaker.Config{FailureRate: -1}})[0]
		v := b.view.Load()
		for i := range 400 { // ten calls a second, one of them bad in the first half
			call := good
			if i%10 == 0 && i < 200 {
				call = bad
			}
			_ = b.Do(t.Context(), call)
			pass(100 * time.Millisecond)
			if i < 100 || i%10 != 9 {
				continue
			}
			c := b.count(v)
			if c.Calls < 80 || c.Calls > 92 {
				t.Fatalf("after %d calls, ten a second, of the last 8 s it tells %d", i+1, c.Calls)
			}
			if bad := c.Failures; i < 200 && (bad < 8 || bad > 10) || i > 300 && bad != 0 {
				t.Fatalf("after %d calls it tells %d failures", i+1, bad)
			}
		}
		b.Local().Reset()
		for range 3 {
			_ = b.Do(t.Context(), bad)
		}
		if c := b.count(v); c.Calls != 3 || c.Failures != 3 {
			t.Errorf("three calls after a reset it tells %+v", c)
		}
		if n := len(b.samples); n > mostSamples {
			t.Errorf("it keeps %d samples", n)
		}
	})
}

// What a caller counted while it was on its own isn't told when it joins again: nobody knows how old it is.
func TestWhatWasCountedAloneIsntTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		b := callers(t, 1, Config{Store: store, Local: breaker.Config{FailureRate: -1}})[0]
		store.fails.Store(true)
		store.Flush()
		for range 10 {
			_ = b.Do(t.Context(), bad)
			pass(5 * time.Second)
		}
		store.fails.Store(false)
		pass(10 * time.Second)
		for range 50 {
			v := b.view.Load()
			if v == nil {
				t.Fatal("it hasn't joined again")
			}
			if c := b.count(v); c.Calls != 0 {
				t.Fatalf("there was no call in the last Window, and it tells %+v", c)
			}
			pass(100 * time.Millisecond)
		}
	})
}
