package window_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eiderhq/eider/window"
)

// eurekaRun lets lost of size instances die at one moment, with every clock at a phase of its own, and returns how long
// after it the one whose turn comes last, and one drawn at random, are called by a caller who looks all the time.
func eurekaRun(rnd *rand.Rand, size, lost int) (last, any time.Duration) {
	phase := func(period time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(period))) }
	expires := make([]time.Duration, lost) // after the crash: two leases after the last renewal
	for i := range expires {
		expires[i] = 180*s - phase(30*s)
	}
	gone := make([]time.Duration, 0, lost)
	for sweep := phase(60 * s); len(gone) < lost; sweep += 60 * s {
		room := size - int(float64(size)*0.85)
		for _, i := range rnd.Perm(len(expires)) {
			if expires[i] <= sweep && room > 0 {
				gone, room, size = append(gone, sweep), room-1, size-1
				expires[i] = 1 << 62
			}
		}
	}
	// Each list is refreshed from the one before it; a list shows a change at its first refresh after it.
	seen := func(at time.Duration) time.Duration {
		for _, period := range []time.Duration{30 * s, 30 * s, 35 * s} {
			first := phase(period)
			for first < at {
				first += period
			}
			at = first
		}
		return at
	}
	drawn := rnd.IntN(lost)
	for i, at := range gone {
		at = seen(at)
		last = max(last, at)
		if i == drawn {
			any = at
		}
	}
	return last, any
}

// What the preset derives is what happens: never longer, and as long on average. It is reckoned the other way round
// here, instance by instance and clock by clock.
func TestEurekaAsItRuns(t *testing.T) {
	for _, row := range []struct{ runs, size, lost int }{{20000, 100, 1}, {2000, 100, 15}, {400, 1000, 500}} {
		f := derive(t, "eureka", window.Fleet{Instances: row.size, Lost: row.lost}, "self-preservation=off")
		rnd, total, longest := rand.New(rand.NewPCG(4, uint64(row.lost))), time.Duration(0), time.Duration(0)
		for range row.runs {
			last, any := eurekaRun(rnd, row.size, row.lost)
			longest, total = max(longest, last), total+any
		}
		mean := total / time.Duration(row.runs)
		if longest > f.Crash.Terms.Worst() {
			t.Errorf("%d of %d: one took %s, longer than the bound %s", row.lost, row.size, longest, f.Crash.Terms.Worst())
		}
		// Where several sweeps are needed, the first may come before the last lease is over: the derived mean is on the safe side.
		low, high := f.Crash.Terms.Mean()*97/100, f.Crash.Terms.Mean()*103/100
		if row.lost > row.size*15/100 {
			low = f.Crash.Terms.Mean() * 85 / 100
		}
		if mean < low || mean > high {
			t.Errorf("%d of %d: %s on average, %s is derived", row.lost, row.size, mean, f.Crash.Terms.Mean())
		}
		t.Logf("%d of %d: mean %s (derived %s), longest %s (bound %s)", row.lost, row.size, mean, f.Crash.Terms.Mean(), longest, f.Crash.Terms.Worst())
	}
}
