package bulkhead

import (
	"math"
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
