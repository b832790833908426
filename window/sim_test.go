package window_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/window"
)

// A cause is a term beside the thing itself, of which the simulation draws: it knows nothing of buckets.
type cause struct {
	term window.Term
	draw func(*rand.Rand) float64 // in nanoseconds
}

func fixed(d time.Duration) cause {
	return cause{window.Fixed("fixed", d, ""), func(*rand.Rand) float64 { return float64(d) }}
}

func uniform(from, to time.Duration) cause {
	return cause{window.Uniform("uniform", from, to, ""), func(r *rand.Rand) float64 { return float64(from) + r.Float64()*float64(to-from) }}
}

// A caller has failed for a while and the peer comes back: the moment falls into a wait, into a long one likelier
// than into a short one, and anywhere within it.
func backoff(b window.Steps) cause {
	longest := min(float64(b.First)*math.Pow(max(b.Factor, 1), float64(b.Failures)), float64(b.Ceiling))
	return cause{window.Backoff("backoff", b, ""), func(r *rand.Rand) float64 {
		for {
			wait := longest * (1 - b.Jitter*r.Float64())
			if moment := longest * r.Float64(); moment < wait {
				return wait - moment
			}
		}
	}}
}

func measured(shape []window.Bucket) cause {
	total := 0.0
	for _, b := range shape {
		total += b.Weight
	}
	return cause{window.Histogram("measured", shape, ""), func(r *rand.Rand) float64 {
		at := r.Float64() * total
		for _, b := range shape {
			if at -= b.Weight; at < 0 {
				return float64(b.From) + r.Float64()*float64(b.To-b.From)
			}
		}
		return float64(shape[0].From)
	}}
}

// simulate draws n departures and holds the spread's quantiles against them. By Dvoretzky, Kiefer, Wolfowitz and
// Massart the share of n draws below any delay is off by more than sqrt(ln(2/alpha)/2n) at once with a chance of at
// most alpha, here one in 10⁹. The slack of 0.0005 is for a backoff's slope, which a term has in 32 steps.
func simulate(causes []cause, bin time.Duration, n int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 4))
	var sum window.Sum
	for _, c := range causes {
		sum = append(sum, c.term)
	}
	if err := sum.Check(); err != nil {
		return err
	}
	draws, mean := make([]float64, n), 0.0
	for i := range draws {
		for _, c := range causes {
			draws[i] += c.draw(r)
		}
		mean += draws[i] / float64(n)
		whole := float64(len(causes)) // terms are whole nanoseconds, draws aren't
		if draws[i] > float64(sum.Worst())*(1+1e-12)+whole || draws[i] < float64(sum.Best())*(1-1e-12)-whole {
			return fmt.Errorf("%s took %v", sum, time.Duration(draws[i]))
		}
	}
	slices.Sort(draws)
	band := math.Sqrt(math.Log(2e9)/float64(2*n)) + 0.0005
	// Hoeffding's bound for a mean of values in best..worst, as unlikely to be missed.
	if off := math.Abs(mean - float64(sum.Mean())); off > float64(sum.Worst()-sum.Best())*band+1 {
		return fmt.Errorf("%s: the mean is %v, simulated %v", sum, sum.Mean(), time.Duration(mean))
	}
	spread := sum.Spread(bin)
	for _, p := range []float64{0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999} {
		q, off := float64(spread.Quantile(p)), float64(spread.Bin())+1
		notAbove, _ := slices.BinarySearch(draws, math.Nextafter(q+off, math.Inf(1)))
		below, _ := slices.BinarySearch(draws, q-off)
		if share := float64(notAbove) / float64(n); share < p-band {
			return fmt.Errorf("%s: quantile %v is %v, bin %v; only %v of the draws are below", sum, p, time.Duration(q), spread.Bin(), share)
		}
		if share := float64(below) / float64(n); share > p+band {
			return fmt.Errorf("%s: quantile %v is %v, bin %v; %v of the draws are below", sum, p, time.Duration(q), spread.Bin(), share)
		}
	}
	return nil
}

// With 100,000 draws the band is ±0.011, and the seed is always the same.
func TestSpreadsAgreeWithASimulation(t *testing.T) {
	push := []window.Bucket{{From: 0, To: 10 * ms, Weight: 99}, {From: 5 * s, To: 6 * s, Weight: 0.9}, {From: 8 * s, To: 8 * s, Weight: 0.1}}
	for name, causes := range map[string][]cause{
		"textbook":         {uniform(60*s, 90*s), uniform(0, 60*s), uniform(0, 30*s)},
		"one":              {uniform(3*s, 9*s)},
		"fixed":            {fixed(4 * s), fixed(7 * ms)},
		"measured":         {measured(push)},
		"measured, twice":  {measured(push), fixed(3 * s), measured(push)},
		"full jitter":      {backoff(window.Steps{First: 50 * ms, Ceiling: 2 * s, Factor: 2, Jitter: 1, Failures: 5})},
		"gRPC's jitter":    {backoff(window.Steps{First: 1200 * ms, Ceiling: 144 * s, Factor: 1.6, Jitter: 1.0 / 3, Failures: 20})},
		"no jitter":        {backoff(window.Steps{First: s, Ceiling: 30 * s, Factor: 1, Failures: 7}), uniform(0, s)},
		"a native caller":  {measured(push), backoff(window.Steps{First: 50 * ms, Ceiling: 2 * s, Factor: 2, Jitter: 1, Failures: 3}), fixed(5 * ms)},
		"wide and narrow":  {uniform(0, time.Hour), uniform(0, 7*time.Microsecond), uniform(0, 3*ms), measured(push)},
		"all of the kinds": {fixed(13 * ms), uniform(s, 4*s), backoff(window.Steps{First: s, Ceiling: 9 * s, Factor: 2, Jitter: 0.5, Failures: 2}), measured(push)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, bin := range []time.Duration{0, 500 * ms} {
				if err := simulate(causes, bin, 100_000, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func causes() *rapid.Generator[cause] {
	delay := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(1, 1000).Draw(t, "n")) * rapid.SampledFrom([]time.Duration{1, time.Microsecond, ms, 777 * ms, s}).Draw(t, "unit")
	})
	return rapid.Custom(func(t *rapid.T) cause {
		from := delay.Draw(t, "from")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return fixed(from)
		case 1:
			return uniform(from, from+delay.Draw(t, "width"))
		case 2:
			return backoff(window.Steps{First: from, Ceiling: from + delay.Draw(t, "more"), Factor: rapid.Float64Range(1, 3).Draw(t, "factor"),
				Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"), Failures: rapid.IntRange(0, 20).Draw(t, "failures")})
		}
		shape := make([]window.Bucket, rapid.IntRange(1, 5).Draw(t, "buckets"))
		for i := range shape {
			shape[i].From = delay.Draw(t, "low")
			shape[i].To = shape[i].From + rapid.SampledFrom([]time.Duration{0, 1}).Draw(t, "point")*delay.Draw(t, "size")
			shape[i].Weight = rapid.Float64Range(0.1, 10).Draw(t, "weight")
		}
		return measured(shape)
	})
}

// With 4,000 draws the band is ±0.052.
func TestAnySpreadAgreesWithASimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(causes(), 1, 5).Draw(t, "causes")
		bin := rapid.SampledFrom([]time.Duration{0, ms, s, 20 * s}).Draw(t, "bin")
		if err := simulate(some, bin, 4_000, rapid.Uint64().Draw(t, "seed")); err != nil {
			t.Fatal(err)
		}
	})
}
