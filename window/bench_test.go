package window_test

import (
	"testing"
	"time"

	"github.com/eiderhq/eider/window"
)

// Issue 4: ten terms at bins of 10 ms over ten minutes, at most 100 ms.
func BenchmarkSpread(b *testing.B) {
	uniform, mixed := window.Sum{}, window.Sum{}
	shape := make([]window.Bucket, 30)
	for i := range shape {
		shape[i] = window.Bucket{From: time.Duration(i) * 2 * s, To: time.Duration(i+1) * 2 * s, Weight: float64(1 + i%7)}
	}
	for i := range 10 {
		uniform = append(uniform, window.Uniform("t", 0, 60*s, ""))
		switch {
		case i < 7:
			mixed = append(mixed, window.Uniform("t", 0, 60*s, ""))
		case i < 9:
			mixed = append(mixed, window.Histogram("t", shape, ""))
		default:
			mixed = append(mixed, window.Backoff("t", window.Steps{First: s, Ceiling: 60 * s, Factor: 2, Jitter: 1, Failures: 9}, ""))
		}
	}
	preset := window.Sum{window.Uniform("lease", 150*s, 180*s, ""), window.Uniform("sweep", 0, 60*s, ""), window.Uniform("response cache", 0, 30*s, ""),
		window.Uniform("client cache", 0, 30*s, ""), window.Uniform("balancer cache", 0, 35*s, "")}
	for _, bench := range []struct {
		name string
		sum  window.Sum
	}{{"ten uniform terms over ten minutes", uniform}, {"with two histograms and a backoff", mixed}, {"eureka", preset}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				spread := bench.sum.Spread(10 * ms)
				for _, p := range []float64{0.5, 0.9, 0.99, 0.999} {
					if spread.Quantile(p) > spread.Worst() {
						b.Fatal("beyond the worst case")
					}
				}
			}
			b.ReportMetric(bench.sum.Spread(10*ms).Bin().Seconds()*1000, "ms/bin")
		})
	}
}
