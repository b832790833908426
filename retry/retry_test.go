package retry_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/retry"
)

func TestBackoffDoublesToItsMax(t *testing.T) {
	var b retry.Backoff
	want := []time.Duration{50, 100, 200, 400, 800, 1600, 2000, 2000}
	for attempt, ms := range want {
		if got := b.Ceiling(attempt); got != ms*time.Millisecond {
			t.Errorf("Ceiling(%d) = %s, want %s", attempt, got, ms*time.Millisecond)
		}
	}
	if got := b.Ceiling(math.MaxInt); got != 2*time.Second {
		t.Errorf("Ceiling(max) = %s, want 2s", got)
	}
	huge := retry.Backoff{Base: time.Second, Max: math.MaxInt64}
	if got := huge.Ceiling(200); got <= 0 {
		t.Errorf("Ceiling(200) without a max = %s: it overflowed", got)
	}
}

func TestDelayIsNeverZeroAndNeverAboveTheCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := retry.Backoff{
			Base: time.Duration(rapid.Int64Range(-5, math.MaxInt64).Draw(t, "base")),
			Max:  time.Duration(rapid.Int64Range(-5, math.MaxInt64).Draw(t, "max")),
		}
		attempt := rapid.IntRange(-2, 1000).Draw(t, "attempt")
		rnd := rapid.Float64().Draw(t, "rnd")
		if got := b.Delay(attempt, rnd); got <= 0 || got > b.Ceiling(attempt) {
			t.Fatalf("Delay = %d, want within (0, %d]", got, b.Ceiling(attempt))
		}
	})
}

func TestDelayUsesTheWholeRange(t *testing.T) {
	var b retry.Backoff
	for _, row := range []struct {
		rnd  float64
		want time.Duration
	}{{0, 800 * time.Millisecond}, {0.5, 400 * time.Millisecond}, {0.75, 200 * time.Millisecond}} {
		if got := b.Delay(4, row.rnd); got != row.want {
			t.Errorf("Delay(4, %v) = %s, want %s", row.rnd, got, row.want)
		}
	}
}

func TestEarlyGoesDownAndLateUp(t *testing.T) {
	for _, row := range []struct{ rnd, fraction, early, late float64 }{
		{0, 0.25, 2, 2}, {0.5, 0.25, 1.75, 2.25}, {1, 0.25, 1.5, 2.5}, {0.5, 0, 2, 2}, {math.NaN(), 0.25, 2, 2}, {7, 9, 0, 4},
	} {
		if got := retry.Early(2*time.Second, row.fraction, row.rnd).Seconds(); got != row.early {
			t.Errorf("Early(2s, %v, %v) = %v s, want %v", row.fraction, row.rnd, got, row.early)
		}
		if got := retry.Late(2*time.Second, row.fraction, row.rnd).Seconds(); got != row.late {
			t.Errorf("Late(2s, %v, %v) = %v s, want %v", row.fraction, row.rnd, got, row.late)
		}
	}
}
