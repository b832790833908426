package bulkhead

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Whatever it sees, the limit stays within its bounds, moves by a step at a time, and stands still while the dependency
// is ill.
func TestLawsOfTheSizer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := sizer{least: float64(rapid.IntRange(1, 50).Draw(t, "min")), headroom: rapid.Float64Range(1, 5).Draw(t, "headroom")}
		z.most = z.least + float64(rapid.IntRange(0, 1000).Draw(t, "more"))
		z.limit = min(max(firstLimit, z.least), z.most)
		for range rapid.IntRange(1, 200).Draw(t, "samples") {
			s := sample{
				took:    rapid.SampledFrom([]float64{0, 1e-9, 0.25, 0.25, 0.25, 1, 3600}).Draw(t, "took"),
				came:    uint64(rapid.IntRange(0, 100000).Draw(t, "came")),
				healthy: uint64(rapid.IntRange(0, 1000).Draw(t, "healthy")),
				ill:     uint64(rapid.IntRange(0, 100).Draw(t, "ill")),
			}
			s.spent = float64(s.healthy) * rapid.Float64Range(0, 100).Draw(t, "spent")
			was := z
			learnt := z.learn(s)
			if z.limit < z.least || z.limit > z.most || math.IsNaN(z.limit) {
				t.Fatalf("limit %v, bounds %v to %v", z.limit, z.least, z.most)
			}
			if z.limit > max(was.limit*1.5, was.limit+1) || z.limit < min(was.limit*0.875, was.limit-1) {
				t.Fatalf("limit %v after %v is more than a step", z.limit, was.limit)
			}
			if (s.healthy == 0 || s.ill > s.healthy) && (learnt || z != was) {
				t.Fatalf("%+v taught it something: %+v, was %+v", s, z, was)
			}
			if was.age > settling && z.latency > was.latency*1.012 {
				t.Fatalf("W went from %v to %v at once", was.latency, z.latency)
			}
		}
	})
}

// Calls come unevenly, by chance. λ is read off nearly as it is all the same, and follows upwards sooner than down.
func TestRateIsReadOffNoise(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	z := sizer{least: 10, most: 1000, headroom: 2, limit: 50}
	see := func(rate float64, seconds int) {
		for range 4 * seconds {
			mean := rate / 4
			came := uint64(max(math.Round(mean+math.Sqrt(mean)*rnd.NormFloat64()), 1)) // Poisson's, nearly
			z.learn(sample{took: 0.25, came: came, healthy: came, spent: float64(came) * 0.05})
		}
	}
	see(500, 60)
	if z.rate < 490 || z.rate > 530 {
		t.Errorf("500/s by chance are read as %v", z.rate)
	}
	see(1000, 4)
	if z.rate < 840 {
		t.Errorf("four seconds after it doubled λ is %v", z.rate)
	}
	see(1000, 60)
	see(500, 15)
	if z.rate < 700 || z.rate > 850 {
		t.Errorf("fifteen seconds after it halved λ is %v", z.rate)
	}
}
