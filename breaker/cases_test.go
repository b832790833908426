package breaker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"
)

var second = Config{OpenFor: time.Second, Jitter: -1}

// K3: an error of a trial that says nothing, and a panic of one, neither close the circuit nor hold it shut.
func TestK3ATrialThatEndsOddlyIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := second
		c.Classify = func(err error) Outcome {
			if errors.Is(err, errTest) {
				return Neutral
			}
			return Failure
		}
		b := New(c)
		settle(t, b, 10, Failure)
		time.Sleep(time.Second)
		for range 3 {
			if err := b.Do(t.Context(), func(context.Context) error { return errTest }); err != errTest {
				t.Fatalf("a trial got %v", err)
			}
			want(t, b, HalfOpen)
		}
		func() {
			defer func() { _ = recover() }()
			_ = b.Do(t.Context(), func(context.Context) error { panic("on purpose") })
		}()
		wantRejected(t, b, Open, RuleTrial)
		time.Sleep(2 * time.Second)
		settle(t, b, 1, Success)
		want(t, b, Closed)
	})
}

// K4: however many outcomes a rule needs, one trial decides.
func TestK4AMinimumIsNotForTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := second
		c.Consecutive, c.FailureMin, c.SlowMin, c.Window, c.SlowLimit = 10, 100, 100, 200, time.Second
		b := New(c)
		settle(t, b, 10, Failure)
		time.Sleep(time.Second)
		settle(t, b, 1, Failure)
		wantRejected(t, b, Open, RuleTrial)
		time.Sleep(2 * time.Second)
		slow, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second - 1)
		slow.Settle(Success)
		want(t, b, Closed)
	})
}

// K8: what a breaker has rejected is no failure of the target: not its own, not another guard's in the same call.
func TestK8RejectionsAreNeverFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := New(Config{})
		inner.ForceOpen()
		b := New(second)
		nested := func(ctx context.Context) error {
			return fmt.Errorf("charge: %w", inner.Do(ctx, func(context.Context) error { return nil }))
		}
		for range 100 {
			if err := b.Do(t.Context(), nested); !errors.Is(err, ErrRejected) {
				t.Fatal(err)
			}
		}
		if s := b.Snapshot(); s.State != Closed || s.Total != 0 || s.InFlight != 0 {
			t.Fatalf("after a hundred rejections of another: %+v", s)
		}
		settle(t, b, 10, Failure)
		for range 100 {
			wantRejected(t, b, Open, RuleFailureRate)
		}
		time.Sleep(time.Second)
		if err := b.Do(t.Context(), nested); !errors.Is(err, ErrRejected) || b.State() != HalfOpen {
			t.Fatalf("a trial that another rejected: %v, %v", err, b.State())
		}
		settle(t, b, 1, Success)
		want(t, b, Closed)
	})
}

// stepped is a breaker that was made before the wall clock was set by so much: its base has the old wall clock's reading and
// the monotonic one that it would have. A test can't set the machine's clock; it writes into the time instead.
func stepped(c Config, by time.Duration) *Breaker {
	b := New(c)
	seconds := int64(by / time.Second)
	wall := (*uint64)(unsafe.Pointer(&b.base)) // time.Time: a bit, 33 bits of seconds, 30 of nanoseconds; then the monotonic reading
	*wall -= uint64(seconds) << 30
	return b
}

// K9: a clock that is set, by hand or by NTP, neither opens nor closes nor holds anything.
func TestK9AClockThatIsSetChangesNothing(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		b := stepped(Config{}, by)
		if off := time.Until(b.base.Round(0)) + by; off < -time.Minute || off > time.Minute {
			t.Fatalf("its wall clock reads %v, set by %v", b.base, by)
		}
		b = stepped(Config{OpenFor: time.Minute, Jitter: -1, SlowLimit: time.Minute, Within: 10 * time.Minute, SlowMin: 1, SlowRate: 0.01}, by)
		settle(t, b, 11, Success)
		_, _ = b.Allow()
		settle(t, b, 10, Failure)
		want(t, b, Closed)
		if s := b.Snapshot(); s.Total != 21 || s.Overdue != 0 {
			t.Errorf("set by %v: %+v", by, s)
		}
		settle(t, b, 1, Failure)
		r := wantRejected(t, b, Open, RuleFailureRate)
		if left := time.Until(r.Retry); left > time.Minute || left < time.Minute/2 {
			t.Errorf("set by %v: open for a minute is open for %v", by, left)
		}
	}
	b := stepped(Config{OpenFor: time.Millisecond, MaxOpen: time.Millisecond, Jitter: -1}, -time.Hour)
	settle(t, b, 10, Failure)
	for begun := time.Now(); ; runtime.Gosched() {
		if _, err := b.Allow(); err == nil {
			break
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatal("a millisecond isn't over after 20s: the clock was set back")
		}
	}
}

// K10: a caller that hangs up says nothing of the target, whatever cause it gave and whatever error came of it.
func TestK10ACallerThatHangsUpIsNeutral(t *testing.T) {
	b := New(Config{Consecutive: 1})
	for _, err := range []error{context.Canceled, errTest, context.DeadlineExceeded} {
		ctx, cancel := context.WithCancelCause(t.Context())
		got := b.Do(ctx, func(ctx context.Context) error {
			cancel(errTest)
			return err
		})
		if got != err {
			t.Errorf("the error became %v", got)
		}
		if s := b.Snapshot(); s.State != Closed || s.Total != 0 || s.InFlight != 0 {
			t.Errorf("hung up with %v: %+v", err, s)
		}
	}
	_ = b.Do(t.Context(), func(context.Context) error { return context.Canceled }) // somebody else's
	want(t, b, Open)
}

// K11: a deadline is the target's fault if it had at least the slow limit, and the caller's own affair if it had less.
func TestK11ADeadlineIsAFailureIfItHadTheSlowLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			limit, budget time.Duration
			failures      uint64
		}{{time.Second, time.Second, 1}, {time.Second, time.Second - 1, 0}, {time.Second, 1, 0}, {-1, 1, 1}} {
			b := New(Config{SlowLimit: row.limit})
			ctx, cancel := context.WithTimeout(t.Context(), row.budget)
			err := b.Do(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			cancel()
			if s := b.Snapshot(); !errors.Is(err, context.DeadlineExceeded) || s.Failures != row.failures || s.Total != row.failures || s.InFlight != 0 {
				t.Errorf("limit %v, budget %v: %v, %+v", row.limit, row.budget, err, s)
			}
			called := false
			err = b.Do(ctx, func(context.Context) error { called = true; return nil })
			if !errors.Is(err, context.DeadlineExceeded) || called {
				t.Errorf("with nothing left it was called: %v, error %v", called, err)
			}
		}
	})
}

// K13: a breaker is as long-lived as whoever holds it: no table, no goroutine, no timer keeps it.
func TestK13ABreakerGoesWithItsOwner(t *testing.T) {
	before := runtime.NumGoroutine()
	var gone []weak.Pointer[Breaker]
	for range 100 {
		b := New(Config{OnEvent: func(Event) {}, OpenFor: time.Hour})
		_, _ = b.Allow()
		settle(t, b, 10, Failure)
		want(t, b, Open)
		gone = append(gone, weak.Make(b))
	}
	for late := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(late) { // until then it may be one of the runtime's, at somebody's finalizer
			t.Fatalf("%d goroutines for a hundred breakers", runtime.NumGoroutine()-before)
		}
	}
	left := 0
	for range 10 {
		runtime.GC()
		left = 0
		for _, w := range gone {
			if w.Value() != nil {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
	t.Errorf("%d of 100 are held by something", left)
}

// K14: nothing closes an open breaker but a trial that went well, however long nobody calls.
func TestK14AnOpenBreakerStaysOpenUntilATrial(t *testing.T) {
	for _, within := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := second
			c.Within = within
			b := New(c)
			settle(t, b, 10, Failure)
			for range 10 {
				time.Sleep(1000 * time.Hour)
				if s := b.Snapshot(); s.State != Open || s.Rule != RuleFailureRate || s.Count != 10 || b.State() != Open {
					t.Fatalf("nobody called, and it is %+v", s)
				}
			}
			if !b.Admits() {
				t.Error("a trial is due")
			}
			settle(t, b, 1, Neutral)
			time.Sleep(1000 * time.Hour)
			if s := b.Snapshot(); s.State != HalfOpen {
				t.Fatalf("nobody tried, and it is %+v", s)
			}
			settle(t, b, 1, Success)
			want(t, b, Closed)
		})
	}
}

// A clock that reads again and again what it read before, as coarse ones do, is no reason to do anything twice.
func TestAClockThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{SlowLimit: 1, Within: 10, OpenFor: 1, Jitter: -1, TrialTimeout: 1, Ramp: 1, SlowMin: 1, FailureMin: 1})
		settle(t, b, 1000, Success)
		settle(t, b, 1, Failure) // one of 1001
		want(t, b, Closed)
		b.Report(Refused)
		for range 1000 {
			wantRejected(t, b, Open, RuleRefused)
		}
		time.Sleep(time.Nanosecond)
		trial, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			wantRejected(t, b, HalfOpen, RuleRefused)
		}
		trial.Settle(Success)
		let := 0
		for range 1000 {
			if _, err := b.Allow(); err == nil {
				let++
			}
		}
		if want(t, b, Ramping); let != 99 && let != 100 {
			t.Errorf("at the beginning of the ramp %d of 1000 went through", let)
		}
	})
}

// What nobody has said is no reason to fall over.
func TestWhatIsNoPermitEndsNothing(t *testing.T) {
	b := New(Config{})
	Permit{}.Settle(Failure)
	Permit{}.Done(t.Context(), errTest)
	Permit{}.Answered().Settle(Failure)
	b.ForceClosed()
	p, err := b.Allow()
	if err != nil {
		t.Fatal(err)
	}
	p.Settle(Refused)
	b.Reset()
	p.Settle(Refused)
	if s := b.Snapshot(); s.State != Closed || s.Total != 0 {
		t.Errorf("%+v", s)
	}
	other, _ := New(Config{Consecutive: 1}).Allow()
	other.Settle(Failure)
	want(t, b, Closed)
	p, _ = b.Allow()
	p.Settle(Outcome(99))
	if s := b.Snapshot(); s.Failures != 1 {
		t.Errorf("an outcome that isn't one: %+v", s)
	}
	if (&Rejected{}).Error() == "" || !strings.Contains(Rule(99).String()+State(99).String(), "99") {
		t.Error("what it doesn't know has no name")
	}
}

// A panic passes through as it came, also where the callback of the change that it made recovers one of its own.
func TestAPanicGoesOn(t *testing.T) {
	b := New(Config{Consecutive: 1, OnEvent: func(Event) { panic("of the callback") }})
	defer func() {
		if got := recover(); got != "of the call" {
			t.Errorf("it became %v", got)
		}
		want(t, b, Open)
	}()
	_ = b.Do(t.Context(), func(context.Context) error { panic("of the call") })
}
