package breaker

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAnAnswerThatHasBegunIsntSlow: downloads and streams may take as long as they like, and fail later.
func TestAnAnswerThatHasBegunIsntSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{SlowLimit: time.Second, SlowMin: 2, Consecutive: 2})
		var permits []Permit
		for range 10 {
			p, _ := b.Allow()
			permits = append(permits, p.Answered().Answered())
		}
		if s := b.Snapshot(); s.InFlight != 0 || s.Total != 0 {
			t.Fatalf("begun: %+v", s)
		}
		time.Sleep(time.Minute)
		for i, o := range []Outcome{Success, Success, Neutral, Failure, Success, Failure} {
			permits[i].Settle(o)
		}
		if s := b.Snapshot(); s.State != Closed || s.Slow != 0 || s.Failures != 2 || s.Total != 5 {
			t.Fatalf("a minute later: %+v", s)
		}
		permits[6].Settle(Failure)
		if s := b.Snapshot(); s.State != Open || s.Rule != RuleConsecutive {
			t.Fatalf("two failures in a row: %+v", s)
		}
	})
}

// TestATrialHasGoneWellWhenItsAnswerBegins, and one that was slow until then hasn't; what was overdue is counted once.
func TestATrialHasGoneWellWhenItsAnswerBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{SlowLimit: time.Second, SlowMin: 2, OpenFor: time.Second, Jitter: -1, TrialTimeout: time.Hour})
		late, _ := b.Allow()
		time.Sleep(3 * time.Second)
		if left := late.Answered(); left != (Permit{}) {
			t.Errorf("one that was overdue has a permit left: %+v", left)
		}
		if s := b.Snapshot(); s.State != Closed || s.Slow != 1 || s.Total != 1 || s.Overdue != 0 {
			t.Fatalf("after one that was overdue: %+v", s)
		}
		for _, row := range []struct {
			takes time.Duration
			want  State
		}{{2 * time.Second, Open}, {time.Second, Closed}} {
			b.Report(Refused)
			for b.State() == Open && !b.Admits() {
				time.Sleep(time.Second)
			}
			p, err := b.Allow()
			if err != nil || !p.Trial() {
				t.Fatalf("no trial: %v", err)
			}
			time.Sleep(row.takes)
			p = p.Answered()
			if b.State() != row.want || p.Trial() {
				t.Errorf("answered after %v: %v, want %v", row.takes, b.State(), row.want)
			}
			p.Settle(Failure)
			if b.State() != row.want {
				t.Errorf("what ended nothing made it %v", b.State())
			}
		}
	})
}

// A success that a rule waits for is judged beside the calls that hang by then, though it has nothing to do with the clock itself.
func TestAnAnsweredCallThatARuleWaitsForIsNotJudgedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{SlowLimit: time.Second, SlowRate: -1, FailureMin: 2})
		p, _ := b.Allow()
		for range 4 {
			_, _ = b.Allow()
		}
		b.Report(Failure)
		p = p.Answered()
		time.Sleep(time.Minute)
		p.Settle(Success)
		if s := b.Snapshot(); s.State != Closed || s.Failures != 1 || s.Total != 6 {
			t.Errorf("one failure of six outcomes: %+v", s)
		}
	})
}

// What the laws have found: see TestK22TheMachineIsItsModel.
func TestTheMachineIsItsModelInScriptsThatFailed(t *testing.T) {
	for _, script := range [][]int{
		{0, 0, 0, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3, 380, 1, 7, 1, 10, 3, 65536, 0, 0, 1, 0, 0}, // an answered call's success was judged beside calls that hung
	} {
		if fault := playBoth(t, script); fault != "" {
			t.Error(fault)
		}
	}
}

func TestAnsweredAllocatesNothing(t *testing.T) {
	b := New(Config{})
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := b.Allow()
		p.Answered().Settle(Success)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
