package bulkhead_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/bulkhead"
)

// traffic makes calls evenly, perSecond of them for a while, each in a goroutine of its own, as a server's are. It returns
// how many were turned away; the last calls are still in flight then.
func traffic(t *testing.T, b *bulkhead.Bulkhead, perSecond int, d time.Duration, call func(n int) error) (refused int) {
	t.Cleanup(func() { waitBubble(time.Minute) })
	var no atomic.Int64
	every := time.Second / time.Duration(perSecond)
	for n, end := 0, time.Now().Add(d); time.Now().Before(end); n++ {
		go func() {
			if err := b.Do(ctx, func(context.Context) error { return call(n) }); errors.Is(err, bulkhead.ErrFull) {
				no.Add(1)
			}
		}()
		waitBubble(every)
	}
	synctest.Wait()
	return int(no.Load())
}

func waitBubble(d time.Duration) { time.Sleep(d) }

func takes(d time.Duration) func(int) error {
	return func(int) error { waitBubble(d); return nil }
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Little's law, L = λ·W: 500/s of 50 ms are 25 in flight. With headroom 2 a hang holds 50 of a pool of 200, and the
// calls beside it find theirs.
func TestB9AHangHoldsWhatLittlesLawAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const poolSize = 200
		pool := make(chan struct{}, poolSize)
		var poolFull atomic.Int64
		use := func(f func()) {
			select {
			case pool <- struct{}{}:
				f()
				<-pool
			default:
				poolFull.Add(1)
			}
		}
		b := bulkhead.New(bulkhead.Config{Name: "orders"})
		refused := traffic(t, b, 500, 30*time.Second, func(int) error { use(func() { waitBubble(50 * time.Millisecond) }); return nil })
		s := b.Snapshot()
		near(t, "λ", s.Rate, 500, 0.02)
		near(t, "W", s.Latency.Seconds(), 0.05, 0.02)
		near(t, "L", s.Needed(), 25, 0.03)
		near(t, "the limit", float64(s.Limit), 50, 0.03)
		if s.InFlight != 25 && s.InFlight != 24 || refused != 0 {
			t.Errorf("%d in flight and %d refused, want 25 and 0", s.InFlight, refused)
		}

		hang := make(chan struct{})
		refused = traffic(t, b, 500, 30*time.Second, func(int) error { use(func() { <-hang }); return nil })
		after := b.Snapshot()
		if after.Limit != s.Limit || after.InFlight != s.Limit || len(pool) != s.Limit {
			t.Errorf("the hang holds %d of the pool; limit %d, was %d", len(pool), after.Limit, s.Limit)
		}
		if want := 30*500 - (s.Limit - 25); math.Abs(float64(refused-want)) > 60 {
			t.Errorf("%d were turned away, want %d", refused, want)
		}
		for range poolSize - s.Limit - 1 { // the innocent ones, at once
			pool <- struct{}{}
		}
		use(func() {})
		if poolFull.Load() != 0 {
			t.Errorf("the pool of %d was full %d times", poolSize, poolFull.Load())
		}
		close(hang)
		synctest.Wait()
		refused = traffic(t, b, 500, 30*time.Second, takes(50*time.Millisecond))
		near(t, "the limit when it is well again", float64(b.Snapshot().Limit), 50, 0.03)
		if refused != 0 {
			t.Errorf("%d were turned away when it was well again", refused)
		}
	})
}

// Callers that try again in a hang are more calls, not more need.
func TestRetriesInAHangDontGrowTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{})
		traffic(t, b, 500, 10*time.Second, takes(50*time.Millisecond))
		was := b.Snapshot().Limit
		timeout := func(int) error { waitBubble(time.Second); return errors.New("timeout") }
		traffic(t, b, 500, time.Second, timeout)
		traffic(t, b, 1500, 10*time.Second, timeout)
		if got := b.Snapshot().Limit; got > was+2 {
			t.Errorf("the limit went from %d to %d", was, got)
		}
	})
}

// A dependency that answers everything forty times as slowly would get forty times the room by a law that believes it.
func TestASlowDependencyDoesntGetTheRoomItAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{})
		traffic(t, b, 500, 35*time.Second, takes(50*time.Millisecond))
		traffic(t, b, 500, time.Minute, takes(2*time.Second))
		if got := b.Snapshot().Limit; got < 50 || got > 110 {
			t.Errorf("a minute after it became slow the limit is %d, want 50 to 100", got)
		}
	})
}

// What comes back after a hang came back well, and says nothing of how long a healthy call takes.
func TestSlowCallsArentHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			limit time.Duration
			known bool
		}{{0, false}, {-1, true}, {12 * time.Second, true}, {time.Second, false}} {
			b := bulkhead.New(bulkhead.Config{SlowLimit: c.limit})
			for range 30 {
				go func() { _ = b.Do(ctx, func(context.Context) error { waitBubble(11 * time.Second); return nil }) }()
			}
			waitBubble(12 * time.Second)
			if s := b.Snapshot(); s.Latency > 0 != c.known {
				t.Errorf("SlowLimit %s: W of calls of 11s is %s", c.limit, s.Latency)
			}
		}
	})
}

// What says nothing of the dependency doesn't keep a bulkhead from learning of the rest, however much of it there is.
func TestWhatSaysNothingIsCountedAsNothing(t *testing.T) {
	full := bulkhead.New(bulkhead.Config{Limit: 1})
	acquire(t, full)
	for _, way := range []struct {
		name   string
		call   func(b *bulkhead.Bulkhead)
		learns bool
	}{
		{"failed", func(b *bulkhead.Bulkhead) { _ = b.Do(ctx, func(context.Context) error { return errors.New("no") }) }, false},
		{"released as failed", func(b *bulkhead.Bulkhead) { s, _ := b.Acquire(ctx); s.Release(false) }, false},
		{"forgotten", func(b *bulkhead.Bulkhead) { s, _ := b.Acquire(ctx); s.Forget() }, true},
		{"turned away by another", func(b *bulkhead.Bulkhead) {
			_ = b.Do(ctx, func(ctx context.Context) error { return full.Do(ctx, nothing) })
		}, true},
		{"cancelled", func(b *bulkhead.Bulkhead) {
			mine, cancel := context.WithCancel(ctx)
			_, _ = bulkhead.Call(mine, b, func(ctx context.Context) (int, error) { cancel(); return 0, ctx.Err() })
		}, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bulkhead.New(bulkhead.Config{})
				for range 20 {
					if err := b.Do(ctx, func(context.Context) error { waitBubble(10 * time.Millisecond); return nil }); err != nil {
						t.Fatal(err)
					}
					way.call(b)
					way.call(b)
				}
				waitBubble(time.Second)
				inFlight(t, b, 0)
				if s := b.Snapshot(); s.Latency > 0 != way.learns {
					t.Errorf("%+v, want W known: %t", s, way.learns)
				}
			})
		})
	}
}

// One call in ten takes a hundred times as long as the others: a median would turn most of them away.
func TestLatencyIsTheMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{})
		mixed := func(n int) error {
			if n%10 == 0 {
				waitBubble(500 * time.Millisecond)
			} else {
				waitBubble(5 * time.Millisecond)
			}
			return nil
		}
		traffic(t, b, 1000, 2*time.Second, mixed)
		refused := traffic(t, b, 1000, 20*time.Second, mixed)
		s := b.Snapshot()
		near(t, "W", s.Latency.Seconds(), 0.0545, 0.03)
		near(t, "the limit", float64(s.Limit), 109, 0.05)
		if refused > 0 {
			t.Errorf("%d of 20000 were turned away", refused)
		}
	})
}

// It begins with 50, gets there in steps from either side, and stays within its bounds.
func TestTheLimitFindsItself(t *testing.T) {
	for _, c := range []struct {
		name           string
		cfg            bulkhead.Config
		perSecond      int
		took           time.Duration
		first, in, end int // at once, after a second, in the end
	}{
		{"quiet", bulkhead.Config{}, 5, 20 * time.Millisecond, 50, 50, 10},
		{"busy", bulkhead.Config{}, 1000, 200 * time.Millisecond, 50, 253, 400},
		{"bounded", bulkhead.Config{Max: 300}, 1000, 200 * time.Millisecond, 50, 253, 300},
		{"little to spare", bulkhead.Config{Max: 20}, 200, 200 * time.Millisecond, 20, 20, 20},
		{"much at least", bulkhead.Config{Min: 60}, 5, 20 * time.Millisecond, 60, 60, 60},
		{"no headroom", bulkhead.Config{Headroom: 1}, 500, 200 * time.Millisecond, 50, 100, 100},
		{"little headroom", bulkhead.Config{Headroom: 1.2}, 500, 100 * time.Millisecond, 50, 60, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bulkhead.New(c.cfg)
				for _, at := range []struct {
					after time.Duration
					want  int
				}{{0, c.first}, {time.Second + 10*time.Millisecond, c.in}, {15 * time.Second, c.end}} {
					traffic(t, b, c.perSecond, at.after, takes(c.took))
					near(t, "the limit after "+at.after.String(), float64(b.Snapshot().Limit), float64(at.want), 0.04)
				}
			})
		})
	}
}

// A night without calls teaches nothing: the morning finds the limit of the day before.
func TestIdleTimeIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{})
		traffic(t, b, 500, 30*time.Second, takes(50*time.Millisecond))
		was := b.Snapshot().Limit
		time.Sleep(8 * time.Hour)
		refused := traffic(t, b, 500, 2*time.Second, takes(50*time.Millisecond))
		if got := b.Snapshot().Limit; refused > 0 || math.Abs(float64(got-was)) > 3 {
			t.Errorf("the limit was %d and is %d, %d were turned away", was, got, refused)
		}
	})
}

// With a fixed limit both are measured as well, so that an error can say what would be needed.
func TestAFixedLimitSaysWhatWouldBeNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{Limit: 10})
		traffic(t, b, 500, 20*time.Second, takes(50*time.Millisecond))
		s := b.Snapshot()
		near(t, "L", s.Needed(), 25, 0.03)
		if s.Limit != 10 || s.Auto {
			t.Errorf("%+v, want the limit of 10", s)
		}
		for range 10 {
			_, _ = b.Acquire(ctx)
		}
		_, err := b.Acquire(ctx)
		var full *bulkhead.Full
		if !errors.As(err, &full) || full.Rate == 0 || full.Latency == 0 || full.Retry > time.Second {
			t.Errorf("%v, want λ, W and when to come back", err)
		}
	})
}
