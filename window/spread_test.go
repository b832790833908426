package window_test

import (
	"maps"
	"math"
	"slices"
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

// Points add up exactly: each sum has the product of the chances.
func TestPointsAddUpExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bin := rapid.SampledFrom([]time.Duration{10 * ms, 10 * time.Microsecond, s}).Draw(t, "bin")
		exact := map[time.Duration]float64{0: 1}
		sum := window.Sum{}
		for range rapid.IntRange(1, 3).Draw(t, "terms") {
			shape, total := make([]window.Bucket, rapid.IntRange(1, 4).Draw(t, "points")), 0.0
			for i := range shape {
				at := bin * time.Duration(rapid.IntRange(0, 500).Draw(t, "at"))
				shape[i] = window.Bucket{From: at, To: at, Weight: float64(rapid.IntRange(1, 5).Draw(t, "weight"))}
				total += shape[i].Weight
			}
			sum = append(sum, window.Histogram("points", shape, ""))
			next := map[time.Duration]float64{}
			for d, chance := range exact {
				for _, b := range shape {
					next[d+b.From] += chance * b.Weight / total
				}
			}
			exact = next
		}
		spread, below, mean := sum.Spread(bin), 0.0, 0.0
		for _, d := range slices.Sorted(maps.Keys(exact)) {
			if got := spread.Quantile(below + exact[d]/2); got != d {
				t.Fatalf("%v: %s comes with chance %v, and quantile %v is %s", sum, d, exact[d], below+exact[d]/2, got)
			}
			below += exact[d]
			mean += exact[d] * float64(d)
		}
		if got := sum.Mean(); math.Abs(float64(got)-mean) > 3 {
			t.Fatalf("%v: mean %s, want %s", sum, got, time.Duration(mean))
		}
	})
}

// What is half as likely as not is the lower of two points, not one between them, and a point that isn't a
// multiple of the bin is off by less than one.
func TestQuantilesOfPoints(t *testing.T) {
	coin := window.Histogram("coin", []window.Bucket{{From: s, To: s, Weight: 1}, {From: 3*s + 4*ms, To: 3*s + 4*ms, Weight: 1}}, "")
	spread := window.Sum{coin, window.Fixed("fixed", 1, "")}.Spread(10 * ms)
	for p, want := range map[float64]time.Duration{-1: s + 1, 0: s + 1, 0.25: s + 1, 0.5: s + 1, 0.51: 3*s + 4*ms, 0.9: 3*s + 4*ms + 1, 1: 3*s + 4*ms + 1, 2: 3*s + 4*ms + 1, math.NaN(): 3*s + 4*ms + 1} {
		if got := spread.Quantile(p); got < want-10*ms || got > want+10*ms || got > spread.Worst() || want == s+1 && got != want {
			t.Errorf("quantile %v is %s, want %s", p, got, want)
		}
	}
	tens := make([]window.Bucket, 10)
	for i := range tens {
		tens[i] = window.Bucket{From: time.Duration(i) * s, To: time.Duration(i) * s, Weight: 0.1}
	}
	for i := range tens { // tenths that add up to a bit less than what they are are enough
		if got := (window.Sum{window.Histogram("tens", tens, "")}).Spread(0).Quantile(float64(i+1) / 10); got != tens[i].From {
			t.Errorf("%d tenths are over after %s, want %s", i+1, got, tens[i].From)
		}
	}
	fixed := window.Sum{window.Fixed("a", 7, ""), window.Fixed("b", 1, "")}.Spread(0)
	if fixed.Quantile(0.001) != 8 || fixed.Quantile(1) != 8 || fixed.Bin() != 0 {
		t.Errorf("two fixed terms are %s to %s, bin %s", fixed.Quantile(0.001), fixed.Quantile(1), fixed.Bin())
	}
	var zero window.Spread
	if zero.Quantile(0.5) != 0 || zero.Quantile(1) != 0 {
		t.Error("the zero spread isn't nothing")
	}
}

func wild() *rapid.Generator[window.Term] {
	wide := rapid.Int64()
	weight := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, math.MaxFloat64}))
	return rapid.Custom(func(t *rapid.T) window.Term {
		term := window.Term{Name: "t", Min: time.Duration(wide.Draw(t, "min")), Max: time.Duration(wide.Draw(t, "max"))}
		for range rapid.IntRange(0, 4).Draw(t, "buckets") {
			term.Shape = append(term.Shape, window.Bucket{From: time.Duration(wide.Draw(t, "from")), To: time.Duration(wide.Draw(t, "to")), Weight: weight.Draw(t, "weight")})
		}
		if rapid.Bool().Draw(t, "backoff") {
			return window.Backoff("b", window.Steps{First: term.Min, Ceiling: term.Max, Factor: weight.Draw(t, "factor"), Jitter: weight.Draw(t, "jitter"),
				Failures: rapid.Int().Draw(t, "failures")}, "")
		}
		return term
	})
}

// Quantiles rise with p and lie between the best and the worst case, whatever the terms are, also wrong ones.
func TestSpreadLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := window.Sum(rapid.SliceOfN(rapid.OneOf(terms(), wild()), 0, 6).Draw(t, "sum"))
		spread := sum.Spread(time.Duration(rapid.Int64().Draw(t, "bin")))
		ps := append(rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 9).Draw(t, "p"), 0, 1)
		slices.Sort(ps)
		last := spread.Best()
		for _, p := range ps {
			q := spread.Quantile(p)
			if q < last || q > sum.Worst() {
				t.Fatalf("%v: quantile %v is %s after %s", sum, p, q, last)
			}
			last = q
		}
		if m := sum.Mean(); m < spread.Best() || m > sum.Worst() || m != spread.Mean() || spread.Best() < 0 || spread.Bin() < 0 {
			t.Fatalf("%v: mean %s, bin %s", sum, m, spread.Bin())
		}
	})
}

// A term that gets longer at its worst never shortens the worst case of a sum, nor its mean.
func TestTheWorstCaseIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := window.Sum(rapid.SliceOfN(terms(), 1, 6).Draw(t, "sum"))
		longer := slices.Clone(sum)
		which := rapid.IntRange(0, len(sum)-1).Draw(t, "which")
		longer[which].Max = time.Duration(rapid.Int64Range(int64(sum[which].Max), math.MaxInt64).Draw(t, "max"))
		if longer.Worst() < sum.Worst() || longer.Mean() < sum.Mean() {
			t.Fatalf("%v is worse than %v", sum, longer)
		}
	})
}

// A bin that would take too many points gets longer, and says so; one that doesn't is kept by any number of terms.
func TestTheBinIsBounded(t *testing.T) {
	year := window.Sum{window.Uniform("year", 0, 8760*time.Hour, ""), window.Uniform("second", 0, s, "")}
	if bin := year.Spread(0).Bin(); bin < 30*s || bin > 5*time.Minute {
		t.Fatalf("the bin of a year is %s", bin)
	}
	half := year.Spread(0).Quantile(0.5)
	if off := (half - 4380*time.Hour).Abs(); off > year.Spread(0).Bin() {
		t.Fatalf("half of a year is %s", half)
	}
	var many window.Sum
	for range 1500 {
		many = append(many, window.Uniform("t", 0, ms, ""))
	}
	for n, most := range map[int]time.Duration{100: 10 * ms, 150: 10 * ms, 1500: 200 * ms} { // 1,500 are too many for 10 ms
		spread := many[:n].Spread(10 * ms)
		half := time.Duration(n) * ms / 2
		if got := spread.Quantile(0.5); spread.Bin() > most || spread.Bin() < most/2 || (got-half).Abs() > 2*ms {
			t.Fatalf("half of %d terms are over after %s, bin %s", n, got, spread.Bin())
		}
	}
	ages := window.Sum{window.Uniform("a", 0, math.MaxInt64, ""), window.Uniform("b", 0, math.MaxInt64, ""), window.Fixed("c", math.MaxInt64-1, "")}
	if spread := ages.Spread(1); spread.Quantile(0.5) != math.MaxInt64 || spread.Best() != math.MaxInt64-1 {
		t.Fatalf("ages saturate at %s, from %s", spread.Quantile(0.5), spread.Best())
	}
	if spread := (window.Sum{window.Fixed("a", math.MaxInt64, ""), window.Fixed("b", s, "")}).Spread(0); spread.Best() != math.MaxInt64 {
		t.Fatalf("ages and a second wrap to %s", spread.Best())
	}
	shape := make([]window.Bucket, 100_000)
	for i := range shape {
		shape[i] = window.Bucket{From: time.Duration(i) * ms, To: time.Duration(i+1) * ms, Weight: 1}
	}
	fine := window.Sum{window.Histogram("fine", shape, "")}.Spread(ms)
	if got := fine.Quantile(0.5); fine.Bin() <= ms || (got-50*s).Abs() > fine.Bin() {
		t.Fatalf("half of 100,000 buckets are over after %s, bin %s", got, fine.Bin())
	}
}
