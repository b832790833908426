package breakers

import (
	"math"
	"runtime"
)

// Allocations is what a call of a path allocates: how often and how many bytes.
func Allocations(s Subject, p Path) (times, bytes float64, err error) {
	c, done, err := s.ready(p)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const n = 10_000
	times, bytes = math.Inf(1), math.Inf(1)
	for range 5 { // the least: what else the process allocates only adds
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c(n, p.every())
		runtime.ReadMemStats(&after)
		times = min(times, float64(after.Mallocs-before.Mallocs)/n)
		bytes = min(bytes, float64(after.TotalAlloc-before.TotalAlloc)/n)
	}
	return times, bytes, nil
}

// Weight is what a breaker holds once its window is full: bytes of heap, with all that making it has made, and goroutines. What else the
// process holds by then is less than a byte of each.
func Weight(s Subject, n int) (bytes, goroutines float64, ok bool) {
	if s.keep == nil {
		return 0, 0, false
	}
	into := make([]any, n)
	settle()
	var before, after runtime.MemStats
	running := runtime.NumGoroutine()
	runtime.ReadMemStats(&before)
	s.keep(into)
	settle()
	runtime.ReadMemStats(&after)
	bytes = float64(after.HeapAlloc) - float64(before.HeapAlloc)
	goroutines = float64(runtime.NumGoroutine() - running)
	runtime.KeepAlive(into)
	return math.Round(bytes / float64(n)), goroutines / float64(n), true
}

// settle collects twice: what pools hold survives the first.
func settle() {
	runtime.GC()
	runtime.GC()
}
