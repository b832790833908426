package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/bulkhead"
)

// model is a bulkhead that remembers every slot, in twenty lines.
type model struct {
	limit                                     int
	width                                     time.Duration
	began                                     []time.Duration // of each slot in flight
	admitted, refused, reclaimed, late, twice int
}

func (m *model) look(now time.Duration) {
	n := len(m.began)
	m.began = slices.DeleteFunc(m.began, func(at time.Duration) bool { return now/m.width-at/m.width >= 16 })
	m.reclaimed += n - len(m.began)
}

func (m *model) acquire(now time.Duration) bool {
	m.look(now)
	if len(m.began) == m.limit {
		m.refused++
		return false
	}
	m.admitted++
	m.began = append(m.began, now)
	return true
}

func (m *model) release(at time.Duration, released bool) {
	i := slices.Index(m.began, at)
	switch {
	case released:
		m.twice++
	case i < 0:
		m.late++
	default:
		m.began = slices.Delete(m.began, i, i+1)
	}
}

func TestAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		script := rapid.SliceOfN(rapid.IntRange(0, 1<<12), 1, 300).Draw(rt, "script") // drawn before the bubble
		var fault string
		synctest.Test(t, func(t *testing.T) { fault = besideBubble(limit, script) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// besideBubble plays the script to both, and returns where they differ.
func besideBubble(limit int, script []int) string {
	type slot struct {
		bulkhead.Slot
		at       time.Duration
		released bool
	}
	m := model{limit: limit, width: time.Second}
	b := bulkhead.New(bulkhead.Config{Limit: limit, Lease: 15 * time.Second})
	origin := time.Now()
	var slots []*slot
	for i, word := range script {
		now := time.Since(origin)
		switch word % 4 {
		case 0, 1:
			s, err := b.Acquire(ctx)
			if want := m.acquire(now); want != (err == nil) {
				return fmt.Sprintf("step %d at %s: %v, the model says %t", i, now, err, want)
			}
			if err == nil {
				slots = append(slots, &slot{Slot: s, at: now})
			}
		case 2:
			if len(slots) > 0 {
				s := slots[word/4%len(slots)]
				s.Release(word%3 > 0)
				m.release(s.at, s.released)
				s.released = true
			}
		case 3:
			time.Sleep([]time.Duration{1, time.Second - 1, time.Second, 14 * time.Second, 15 * time.Second, time.Hour}[word/4%6])
		}
		m.look(time.Since(origin))
		got := b.Snapshot()
		want := bulkhead.Snapshot{Limit: limit, InFlight: len(m.began), Admitted: uint64(m.admitted), Refused: uint64(m.refused),
			Reclaimed: uint64(m.reclaimed), Late: uint64(m.late), Twice: uint64(m.twice), Rate: got.Rate, Latency: got.Latency}
		if got != want {
			return fmt.Sprintf("step %d at %s: %+v, the model has %+v", i, now, got, want)
		}
	}
	return ""
}

// Whatever comes in which order, also while the clock stands still: counts add up, nothing is left, nobody waits for ever.
func FuzzInterleavings(f *testing.F) {
	f.Add([]byte{0, 0, 0, 4, 5, 1, 9, 2, 10, 3, 11})
	f.Add([]byte{0, 16, 32, 0, 3, 3, 48, 5, 5, 5, 6, 7, 1, 17, 33, 2, 2, 2})
	f.Add([]byte{6, 6, 6, 6, 6, 6, 22, 38, 54, 6, 6, 3, 19, 35, 5, 5, 0, 1, 2, 3})
	f.Add([]byte{4, 4, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 3, 7, 7, 7, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			return
		}
		synctest.Test(t, func(t *testing.T) { interleaveBubble(t, script) })
	})
}

// crowd is who uses a bulkhead in every way, right and wrong.
type crowd struct {
	b     *bulkhead.Bulkhead
	calls atomic.Uint64 // that asked: a context that was over before doesn't
	wg    sync.WaitGroup
	lock  sync.Mutex
	slots []bulkhead.Slot
}

func (c *crowd) acquire() {
	c.calls.Add(1)
	c.wg.Go(func() {
		if s, err := c.b.Acquire(ctx); err == nil {
			c.lock.Lock()
			defer c.lock.Unlock()
			c.slots = append(c.slots, s)
		}
	})
}

func (c *crowd) release(which int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(c.slots) > 0 {
		s := c.slots[which%len(c.slots)]
		c.wg.Go(func() { s.Release(which&1 == 0) })
	}
}

func (c *crowd) do(ctx context.Context, call func(context.Context) error) {
	c.wg.Go(func() {
		defer func() { _ = recover() }()
		err := c.b.Do(ctx, func(ctx context.Context) error { c.calls.Add(1); return call(ctx) })
		if errors.Is(err, bulkhead.ErrFull) {
			c.calls.Add(1)
		}
	})
}

func interleaveBubble(t *testing.T, script []byte) {
	const limit = 3
	c := crowd{b: bulkhead.New(bulkhead.Config{Limit: limit, Wait: 10 * time.Second, MaxWaiting: 4, Lease: 15 * time.Second,
		OnEvent: func(e bulkhead.Event) {
			if e.InFlight == 2 {
				panic(e)
			}
		}})}
	for _, word := range script {
		arg := int(word >> 3)
		switch word & 7 {
		case 0:
			c.acquire()
		case 1, 2: // once, twice, late
			c.release(arg)
		case 3:
			c.do(ctx, func(context.Context) error { time.Sleep(time.Duration(arg) * time.Second); return nil })
		case 4: // gives up while it waits, perhaps
			short, cancel := context.WithTimeout(ctx, time.Duration(arg)*time.Second/4)
			defer cancel()
			c.do(short, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		case 5:
			c.do(ctx, func(context.Context) error { panic(errors.New("the call's own")) })
		case 6:
			c.do(ctx, func(context.Context) error { runtime.Goexit(); return nil })
		case 7:
			time.Sleep([]time.Duration{0, 1, time.Second, 16 * time.Second}[arg%4])
		}
		if s := c.b.Snapshot(); s.InFlight > limit || s.Waiting > 4 {
			t.Fatalf("%+v", s)
		}
	}
	c.wg.Wait()
	time.Sleep(17 * time.Second) // what was never released is over by now
	s := c.b.Snapshot()
	if s.InFlight != 0 || s.Waiting != 0 || s.Admitted+s.Refused+s.GaveUp != c.calls.Load() {
		t.Fatalf("%d calls, in the end %+v", c.calls.Load(), s)
	}
	for range limit {
		acquire(t, c.b)
	}
}
