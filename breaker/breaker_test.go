package breaker

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errTest = errors.New("it failed")

// settle makes n calls that end so.
func settle(t *testing.T, b *Breaker, n int, o Outcome) {
	t.Helper()
	for i := range n {
		p, err := b.Allow()
		if err != nil {
			t.Fatalf("call %d of %d: %v", i+1, n, err)
		}
		p.Settle(o)
	}
}

func want(t *testing.T, b *Breaker, s State) {
	t.Helper()
	if got := b.State(); got != s {
		t.Fatalf("it is %v, want %v: %+v", got, s, b.Snapshot())
	}
}

func wantRejected(t *testing.T, b *Breaker, s State, r Rule) *Rejected {
	t.Helper()
	_, err := b.Allow()
	var rejected *Rejected
	if !errors.As(err, &rejected) || !errors.Is(err, ErrRejected) {
		t.Fatalf("a call got %v, want a rejection", err)
	}
	if rejected.State != s || rejected.Rule != r {
		t.Fatalf("rejected by %v, %v; want %v, %v", rejected.State, rejected.Rule, s, r)
	}
	return rejected
}

func TestFailureRateOpens(t *testing.T) {
	b := New(Config{})
	settle(t, b, 5, Success)
	settle(t, b, 4, Failure)
	want(t, b, Closed)
	settle(t, b, 1, Failure)
	want(t, b, Open)
	if r := wantRejected(t, b, Open, RuleFailureRate); r.Count != 5 || r.Of != 10 {
		t.Errorf("it counts %d of %d, want 5 of 10", r.Count, r.Of)
	}
}

// The rule waits for ten outcomes, and the tenth is a success.
func TestASuccessCanBeTheOneThatARuleWaitsFor(t *testing.T) {
	for _, c := range []Config{{}, {Within: time.Minute}, {SlowLimit: -1}, {Within: time.Minute, SlowLimit: -1}} {
		b := New(c)
		settle(t, b, 9, Failure)
		want(t, b, Closed)
		settle(t, b, 1, Success)
		want(t, b, Open)
	}
}

// K7: two hundred calls hang, none has come back, and call 201 isn't let through.
func TestK7CallsThatHangOpenIt(t *testing.T) {
	for _, c := range []Config{{SlowLimit: time.Second}, {SlowLimit: time.Second, Within: 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			b := New(c)
			for range 200 {
				if _, err := b.Allow(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			if _, err := b.Allow(); err != nil {
				t.Fatalf("a limit isn't over before it is over: %v", err)
			}
			time.Sleep(time.Second/15 + time.Microsecond)
			wantRejected(t, b, Open, RuleHanging)
		})
	}
}

// K1: a trial whose owner never comes back blocks nothing.
func TestK1ATrialThatNeverReturnsBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{OpenFor: time.Second, Jitter: -1, TrialTimeout: 2 * time.Second})
		settle(t, b, 10, Failure)
		time.Sleep(time.Second)
		if _, err := b.Allow(); err != nil {
			t.Fatal(err)
		}
		wantRejected(t, b, HalfOpen, RuleFailureRate)
		time.Sleep(2 * time.Second)
		wantRejected(t, b, Open, RuleHanging)
		time.Sleep(2 * time.Second)
		settle(t, b, 1, Success)
		want(t, b, Closed)
	})
}

// K1: a panic and a Goexit give a trial back, as failures.
func TestK1PanicAndGoexitSettle(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("on purpose") }, "goexit": runtime.Goexit} {
		b := New(Config{Consecutive: 1})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { _ = recover() }()
			_ = b.Do(t.Context(), func(context.Context) error { end(); return nil })
		})
		wg.Wait()
		if s := b.Snapshot(); s.State != Open || s.InFlight != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// K2: what says nothing gives the trial back, and the next call gets it.
func TestK2ANeutralTrialIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{OpenFor: time.Second, Jitter: -1})
		settle(t, b, 10, Failure)
		time.Sleep(time.Second)
		settle(t, b, 3, Neutral)
		want(t, b, HalfOpen)
		if s := b.Snapshot(); s.Retry.After(time.Now()) {
			t.Errorf("the next may come in %v, want now", time.Until(s.Retry))
		}
		settle(t, b, 1, Success)
		want(t, b, Closed)
	})
}

// K6: what began before it opened decides nothing after.
func TestK6ALateResultDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{OpenFor: time.Second, Jitter: -1})
		early, _ := b.Allow()
		late, _ := b.Allow()
		settle(t, b, 10, Failure)
		time.Sleep(time.Second)
		trial, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		early.Settle(Success)
		want(t, b, HalfOpen)
		late.Settle(Failure)
		want(t, b, HalfOpen)
		trial.Settle(Success)
		want(t, b, Closed)
	})
}

// K5: as the time ends, sixty-four calls at once get one trial between them.
func TestK5OneTrialAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{OpenFor: time.Second, Jitter: -1})
		settle(t, b, 10, Failure)
		time.Sleep(time.Second)
		var lock sync.Mutex
		let := 0
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if _, err := b.Allow(); err == nil {
					lock.Lock()
					let++
					lock.Unlock()
				}
			})
		}
		wg.Wait()
		if let != 1 {
			t.Errorf("%d calls were let through", let)
		}
	})
}

func TestARefusalOpensAtOnce(t *testing.T) {
	b := New(Config{})
	settle(t, b, 100, Success)
	settle(t, b, 1, Refused)
	if r := wantRejected(t, b, Open, RuleRefused); !strings.Contains(r.Error(), "refused") {
		t.Errorf("it says %q", r)
	}
}

func TestReportCountsWithoutAPermit(t *testing.T) {
	b := New(Config{Consecutive: 2})
	settle(t, b, 1, Success)
	b.Report(Failure)
	b.Report(Neutral)
	want(t, b, Closed)
	b.Report(Failure)
	wantRejected(t, b, Open, RuleConsecutive)
	b.Report(Refused)
	want(t, b, Open)
}

// While it ramps up, the tenth call at the latest is let through.
func TestARampBeginsWithATenth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Consecutive: 1, OpenFor: time.Second, Jitter: -1, Ramp: time.Hour})
		settle(t, b, 1, Failure)
		time.Sleep(time.Second)
		settle(t, b, 1, Success)
		want(t, b, Ramping)
		let := 0
		for range 100 {
			if p, err := b.Allow(); err == nil {
				p.Settle(Success)
				let++
			}
		}
		if let != 10 {
			t.Errorf("%d of 100 were let through, want 10", let)
		}
	})
}
