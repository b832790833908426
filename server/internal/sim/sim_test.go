package sim

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seeds = flag.Uint64("seeds", 500, "how many seeds to play; EIDER_SIM_SEEDS sets it too")
	from  = flag.Uint64("from", 0, "the first of them")
	play  = flag.Uint64("play", 0, "play this seed alone, and tell what happens")
)

// failed are seeds that have found something, and what it was.
var failed = map[uint64]string{}

func TestSeeds(t *testing.T) {
	if *play != 0 {
		r := Run(*play, true)
		t.Logf("\n%s", r.Trace)
		for _, text := range r.Broken {
			t.Error(text)
		}
		return
	}
	n := *seeds
	if text := os.Getenv("EIDER_SIM_SEEDS"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("EIDER_SIM_SEEDS=%q: %v", text, err)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // it is all garbage
	begun := time.Now()
	var next, steps, barriers, capped, lapses, deaths, polled, wedged, restored, held, bad atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				seed := *from + uint64(next.Add(1))
				if seed > *from+n || bad.Load() > 5 {
					return
				}
				r := Run(seed, false)
				steps.Add(int64(r.Steps))
				barriers.Add(int64(r.Barriers))
				capped.Add(int64(r.Capped))
				lapses.Add(int64(r.Lapses))
				deaths.Add(int64(r.Deaths))
				polled.Add(int64(r.Polled))
				wedged.Add(int64(r.Wedged))
				restored.Add(int64(r.Restored))
				held.Add(int64(r.Held))
				for _, text := range r.Broken {
					bad.Add(1)
					t.Errorf("seed %d (go test ./internal/sim -run Seeds -v -play %d): %s", seed, seed, text)
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d seeds from %d in %s: %d steps, %d barriers, %d caps, %d lapses, %d deaths, %d polled, %d wedged, %d restarts from disk, %d barriers of holds", n, *from, time.Since(begun).Round(time.Millisecond),
		steps.Load(), barriers.Load(), capped.Load(), lapses.Load(), deaths.Load(), polled.Load(), wedged.Load(), restored.Load(), held.Load())
	if n >= 100 && (barriers.Load() == 0 || capped.Load() == 0 || lapses.Load() == 0 || deaths.Load() == 0 || polled.Load() == 0 || wedged.Load() == 0 || restored.Load() == 0 || held.Load() == 0) {
		t.Error("the worlds are too quiet to find anything")
	}
}

func TestSeedsThatFailed(t *testing.T) {
	for seed, what := range failed {
		if r := Run(seed, false); len(r.Broken) > 0 {
			t.Errorf("seed %d (%s): %s", seed, what, r.Broken[0])
		}
	}
}

// The same seed plays the same run, or it would be worth nothing.
func TestReplay(t *testing.T) {
	for seed := range uint64(20) {
		a, b := Run(seed, true), Run(seed, true)
		if a.Trace != b.Trace || a.Steps != b.Steps {
			t.Fatalf("seed %d played differently", seed)
		}
	}
}
