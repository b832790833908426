package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A state is seen with its reason or not at all: who is rejected at the moment of a change can say why, and when to come back.
func TestARejectionSaysWhyAtTheMomentOfAChange(t *testing.T) {
	b := New(Config{Consecutive: 1, OpenFor: 1, MaxOpen: 1, Jitter: -1, Ramp: time.Hour})
	var wg sync.WaitGroup
	var stop atomic.Bool
	wg.Go(func() {
		for !stop.Load() {
			_, err := b.Allow()
			if err == nil {
				continue
			}
			if r := err.(*Rejected); r == nil || r.State == Closed {
				t.Errorf("rejected with %+v", r)
				return
			}
		}
	})
	for range 3_000 {
		b.ForceOpen()
		b.Reset()
		b.Report(Failure)
		for b.State() != HalfOpen {
			_, _ = b.Allow()
		}
	}
	stop.Store(true)
	wg.Wait()
}

// As good as never is never, not at once.
func TestTheLongestTimesAreLong(t *testing.T) {
	const forever = time.Duration(1<<63 - 1)
	for name, c := range map[string]Config{
		"within": {Within: forever}, "slow limit": {SlowLimit: forever}, "trial": {TrialTimeout: forever}, "ramp": {Ramp: forever},
		"open": {OpenFor: forever, MaxOpen: forever, Jitter: 10}, "most": {MaxOpen: forever, Jitter: 10},
		"all": {Within: forever, SlowLimit: forever, TrialTimeout: forever, Ramp: forever},
	} {
		b := New(c)
		if next := b.era.Load().next.Load(); next <= b.now() {
			t.Fatalf("%s: calls look again at %d, before now: they'd never get on", name, next)
		}
		hanging, _ := b.Allow()
		settle(t, b, 9, Failure)
		want(t, b, Closed)
		hanging.Settle(Failure)
		want(t, b, Open)
		if r := wantRejected(t, b, Open, RuleFailureRate); c.OpenFor > 0 && time.Until(r.Retry) < 1000*time.Hour {
			t.Fatalf("%s: for ever ends in %v", name, time.Until(r.Retry))
		}
		for range 70 { // as if each time had passed
			b.era.Load().next.Store(0)
			trial, err := b.Allow()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if b.Snapshot().State != HalfOpen {
				t.Fatalf("%s: a trial's time is over at once", name)
			}
			trial.Settle(Failure)
			want(t, b, Open)
			if r := wantRejected(t, b, Open, RuleTrial); time.Until(r.Retry) < time.Second {
				t.Fatalf("%s: it opened until %v", name, time.Until(r.Retry))
			}
		}
		b.era.Load().next.Store(0)
		settle(t, b, 1, Success)
		if c.Ramp > 0 {
			want(t, b, Ramping)
		}
	}
}

// A call whose goroutine stood still between reading the clock and being counted is counted once, and gone when it is settled.
func TestACallerThatStoodStillIsCountedOnce(t *testing.T) {
	b := New(Config{SlowLimit: time.Hour})
	p, _ := b.Allow()
	p.start -= int64(3 * time.Hour)
	p.Settle(Success)
	if s := b.Snapshot(); s.InFlight != 0 || s.Overdue != 0 || s.Total != 1 || s.Slow != 1 {
		t.Errorf("%+v", s)
	}
}

// The rule waits for ten outcomes. However the last two meet, whoever is the tenth has it opened.
func TestTheOutcomeThatARuleWaitsForIsNeverMissed(t *testing.T) {
	for _, c := range []Config{{SlowLimit: -1}, {}} {
		for i := range 2_000 {
			b := New(c)
			settle(t, b, 8, Success)
			b.set.failRate = 0.1
			p, _ := b.Allow()
			q, _ := b.Allow()
			var wg sync.WaitGroup
			wg.Go(func() { p.Settle(Failure) })
			q.Settle(Success)
			wg.Wait()
			if b.State() != Open {
				t.Fatalf("the %dth time ten outcomes with a failure left it %v", i, b.State())
			}
		}
	}
}
