package breaker

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// K22: windows of every size hold what the last outcomes were, whatever came between the ones that bear a mark.
func TestK22WindowsOfEverySize(t *testing.T) {
	for _, size := range []uint16{1, 2, 3, 31, 32, 33, 64, 127, 128, 129, 160, 1000, mostWindow} {
		var w countWindow
		w.init(size)
		var all []mark
		r := rand.New(rand.NewPCG(1, uint64(size)))
		for range min(2000, 100_000/int(size)) {
			switch r.IntN(10) {
			case 0:
				all = append(all, make([]mark, r.IntN(2*int(size)))...)
			case 1:
				all = append(all, make([]mark, r.IntN(4))...)
			case 2:
				wanted := false
				for i := len(all) - 1; i >= max(0, len(all)-int(size)) && !wanted; i-- {
					if wanted = all[i] == slow; wanted {
						all[i] = slowFail
					}
				}
				if got := w.fail(uint64(len(all))); got != wanted {
					t.Fatalf("size %d: a slow one to fail: %v, want %v", size, got, wanted)
				}
			default:
				m := mark(1 + r.IntN(3))
				all = append(all, m)
				w.mark(uint64(len(all)), uint64(len(all)), m)
			}
			if r.IntN(4) == 0 {
				continue // it isn't looked at each time
			}
			want := counts{total: uint64(min(len(all), int(size)))}
			for _, m := range all[max(0, len(all)-int(size)):] {
				want.marks[m]++
			}
			want.marks[0] = 0
			if got, sum := w.counts(uint64(len(all))), w.buckets(uint64(len(all))); got != want || sum != want {
				t.Fatalf("size %d, %d outcomes: it counts %+v, its places %+v, want %+v", size, len(all), got, sum, want)
			}
		}
	}
}

// K22: sixty-four callers at once, epochs and buckets that end all the time: every outcome is counted once, and nobody is in flight after.
func TestK22EveryOutcomeIsCountedOnce(t *testing.T) {
	const callers, calls = 64, 200
	for name, c := range map[string]Config{
		"no limit": {SlowLimit: -1}, "a long limit": {SlowLimit: time.Hour}, "a tiny limit": {SlowLimit: 50 * time.Microsecond},
		"a window of calls": {SlowLimit: 50 * time.Microsecond, Window: mostWindow},
	} {
		if c.Window == 0 {
			c.Within = 10 * time.Hour
		}
		b := New(c)
		b.MetricsOnly()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for j := range calls {
					callOneWay(b, (i+j)%10)
				}
			})
		}
		wg.Wait()
		e := b.era.Load()
		s := b.Snapshot()
		if s.InFlight != 0 || s.Overdue != 0 || e.total() != callers*calls {
			t.Errorf("%s: %d of %d are counted: %+v", name, e.total(), callers*calls, s)
		}
		if w := e.window(); w.counts(e.total()) != w.buckets(e.total()) {
			t.Errorf("%s: %+v, added up %+v", name, w.counts(e.total()), w.buckets(e.total()))
		}
		if c.Within > 0 && (s.Total != callers*calls || s.Failures != callers*calls*4/10) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// callOneWay ends a call in one of ten ways, four of which are failures.
func callOneWay(b *Breaker, way int) {
	ctx := context.Background()
	switch way {
	case 0:
		_ = b.Do(ctx, func(context.Context) error { return errTest })
	case 1:
		defer func() { _ = recover() }()
		_ = b.Do(ctx, func(context.Context) error { panic("on purpose") })
	case 2:
		var wg sync.WaitGroup
		wg.Go(func() { _ = b.Do(ctx, func(context.Context) error { runtime.Goexit(); return nil }) })
		wg.Wait()
	case 3:
		p, _ := b.Allow()
		runtime.Gosched()
		p.Settle(Failure)
	case 4:
		p, _ := b.Allow()
		var wg sync.WaitGroup
		wg.Go(func() { p.Settle(Success) })
		wg.Wait()
	case 5:
		b.Report(Success)
	default:
		_ = b.Do(ctx, func(context.Context) error { return nil })
	}
}

// While it changes state all along, what belonged to no era is lost, and the last era's own numbers are still right.
func TestErasThatChangeUnderSixtyFourCallers(t *testing.T) {
	b := New(Config{Consecutive: 3, OpenFor: time.Microsecond, MaxOpen: time.Millisecond, SlowLimit: 20 * time.Microsecond, SlowRate: -1, Trials: 3, Successes: 2,
		TrialTimeout: time.Millisecond, Ramp: 50 * time.Microsecond, OnEvent: func(Event) {}})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 300 {
				switch k := i + j; {
				case k%97 == 0:
					b.byHand([]State{Closed, ForcedOpen, ForcedClosed, MetricsOnly}[k%4])
				case k%31 == 0:
					_ = b.Snapshot()
				default:
					callOneWay(b, k%20%10)
				}
			}
		})
	}
	wg.Wait()
	b.Reset()
	settle(t, b, 5, Success)
	settle(t, b, 2, Failure)
	if s := b.Snapshot(); s.State != Closed || s.Total != 7 || s.Failures != 2 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}
