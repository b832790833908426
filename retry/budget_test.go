package retry_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/retry"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestBudgetAllowsAShareOfFirstAttempts(t *testing.T) {
	b := retry.Budget{Ratio: 0.2, MinPerSecond: -1}
	for range 50 {
		b.Attempt(start)
	}
	if got := allowed(&b, start, 100); got != 10 {
		t.Errorf("50 first attempts allow %d retries, want 10", got)
	}
	if got := allowed(&b, start.Add(11*time.Second), 100); got != 0 {
		t.Errorf("eleven seconds later %d retries are allowed, want 0: the window has passed", got)
	}
}

// A budget over calls in flight shrinks as calls die: the very moment in which retries would help.
func TestK19BudgetDoesNotShrinkAsCallsDie(t *testing.T) {
	b := retry.Budget{Ratio: 0.2, MinPerSecond: -1}
	for range 100 {
		b.Attempt(start)
	}
	// All hundred die, one after the other; none is in flight any more when the last asks.
	got := 0
	for i := range 100 {
		if b.Allow(start.Add(time.Duration(i) * 50 * time.Millisecond)) {
			got++
		}
	}
	if got != 20 {
		t.Errorf("%d retries for 100 first attempts that died, want 20", got)
	}
}

func TestBudgetFloorServesTheQuiet(t *testing.T) {
	var b retry.Budget
	if got := allowed(&b, start, 1000); got != 100 {
		t.Errorf("a budget without attempts allows %d retries, want MinPerSecond × Window = 100", got)
	}
	if got := allowed(&b, start.Add(10*time.Second), 1000); got != 100 {
		t.Errorf("a window later it allows %d, want 100 again", got)
	}
}

func TestBudgetBelowZeroAllowsNone(t *testing.T) {
	b := retry.Budget{Ratio: -1, MinPerSecond: -1}
	b.Attempt(start)
	if b.Allow(start) {
		t.Error("a budget of nothing allowed a retry")
	}
}

func TestBudgetForgetsAfterAnyIdleTime(t *testing.T) {
	for _, idle := range []time.Duration{10 * time.Second, time.Hour, 20 * 24 * time.Hour, 30 * 24 * time.Hour, 400 * 24 * time.Hour} {
		b := retry.Budget{Ratio: 1, MinPerSecond: -1}
		for range 1000 {
			b.Attempt(start)
		}
		b.Attempt(start.Add(idle))
		if attempts, _, _ := b.Used(start.Add(idle)); attempts != 1 {
			t.Errorf("after %s idle the window holds %d attempts, want 1", idle, attempts)
		}
	}
}

// The law: whatever the order of calls, retries in any window never exceed what its attempts allow, and
// the counts equal those of a model that remembers every call.
func TestBudgetAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := retry.Budget{Ratio: 0.5, MinPerSecond: 0.3, Window: 10 * time.Second}
		b.Attempt(start)
		model := map[int][2]int{0: {1, 0}}
		now := 0
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now += rapid.SampledFrom([]int{0, 0, 0, 1, 2, 9, 10, 30}).Draw(t, "seconds")
			at := start.Add(time.Duration(now) * time.Second)
			attempts, retries := 0, 0
			for sec := now - 9; sec <= now; sec++ {
				attempts, retries = attempts+model[sec][0], retries+model[sec][1]
			}
			if gotA, gotR, _ := b.Used(at); gotA != attempts || gotR != retries {
				t.Fatalf("at %ds: %d attempts and %d retries, the model has %d and %d", now, gotA, gotR, attempts, retries)
			}
			m := model[now]
			if rapid.Bool().Draw(t, "retry") {
				want := float64(retries+1) <= 0.5*float64(attempts)+3
				if got := b.Allow(at); got != want {
					t.Fatalf("at %ds: Allow = %t with %d attempts and %d retries", now, got, attempts, retries)
				}
				if want {
					m[1]++
				}
			} else {
				b.Attempt(at)
				m[0]++
			}
			model[now] = m
		}
	})
}

func TestBudgetIsExactUnderConcurrency(t *testing.T) {
	b := retry.Budget{Ratio: 0.1, MinPerSecond: -1}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				b.Attempt(start)
			}
		})
	}
	wg.Wait()
	var got atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if b.Allow(start) {
					got.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got.Load() != 800 {
		t.Errorf("8000 attempts at 0.1 allowed %d retries, want 800", got.Load())
	}
}

func TestBudgetDoesNotAllocate(t *testing.T) {
	var b retry.Budget
	b.Attempt(start)
	if n := testing.AllocsPerRun(1000, func() { b.Attempt(start); b.Allow(start) }); n != 0 {
		t.Errorf("an attempt and a retry allocate %v times", n)
	}
}

// allowed asks n times and returns how often the answer was yes.
func allowed(b *retry.Budget, now time.Time, n int) (yes int) {
	for range n {
		if b.Allow(now) {
			yes++
		}
	}
	return yes
}

func BenchmarkBudgetAttempt(b *testing.B) {
	var budget retry.Budget
	now := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			budget.Attempt(now)
		}
	})
}

func BenchmarkBudgetAllow(b *testing.B) {
	var budget retry.Budget
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		budget.Allow(now)
	}
}
