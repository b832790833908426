package window_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/window"
)

const ms = time.Millisecond

// By formula: 60 s above the best case two waits of up to 60 s are over with chance 1/2, and below d <= 60 s
// with d²/2·60².
func TestTwoUniformsAreATriangle(t *testing.T) {
	spread := window.Sum{window.Uniform("sweep", 0, 60*s, ""), window.Uniform("fetch", 0, 60*s, "")}.Spread(10 * ms)
	for p := 0.001; p < 1; p += 0.001 {
		want := 60 * math.Sqrt(2*p)
		if p > 0.5 {
			want = 120 - 60*math.Sqrt(2*(1-p))
		}
		if got := spread.Quantile(p).Seconds(); math.Abs(got-want) >= 0.010 {
			t.Fatalf("quantile %.3f is %.4fs, want %.4fs", p, got, want)
		}
	}
	if spread.Mean() != 60*s || spread.Bin() != 10*ms || spread.Best() != 0 || spread.Worst() != 120*s {
		t.Errorf("mean %s, bin %s, %s to %s", spread.Mean(), spread.Bin(), spread.Best(), spread.Worst())
	}
}

func TestTextbook(t *testing.T) {
	sum := eureka()
	spread := sum.Spread(0)
	if sum.Worst() != 180*s || sum.Mean() != 120*s || spread.Quantile(0.5) != 120*s || spread.Quantile(1) != 180*s || spread.Quantile(0) != 60*s {
		t.Errorf("worst %s, mean %s, half of all %s, all %s, none %s",
			sum.Worst(), sum.Mean(), spread.Quantile(0.5), spread.Quantile(1), spread.Quantile(0))
	}
	if longest, ok := sum.Dominant(); !ok || longest.Name != "lease" {
		t.Errorf("dominant is %s, %v", longest, ok)
	}
	if longest, ok := window.Sum(nil).Dominant(); ok || longest.Max != 0 {
		t.Errorf("nothing dominates: %s", longest)
	}
}

// Quantiles rise with p and lie between the best and the worst case, for terms of any length and number.
func TestSpreadLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := window.Sum(rapid.SliceOfN(terms(), 0, 6).Draw(t, "sum"))
		spread := sum.Spread(time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "bin")))
		low, high := rapid.Float64().Draw(t, "p"), rapid.Float64().Draw(t, "q")
		if low > high {
			low, high = high, low
		}
		a, b := spread.Quantile(low), spread.Quantile(high)
		if a > b || a < spread.Best() || b > sum.Worst() || spread.Best() < sum.Best() {
			t.Fatalf("%s: quantile %v is %s, %v is %s", sum, low, a, high, b)
		}
		if m := sum.Mean(); m < sum.Best() || m > sum.Worst() {
			t.Fatalf("%s: mean %s", sum, m)
		}
	})
}
