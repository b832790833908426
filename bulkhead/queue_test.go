package bulkhead_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/bulkhead"
)

func TestWaitersAreServedInOrderAndNobodyPassesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{Limit: 1, Wait: time.Hour, MaxWaiting: 10})
		s := acquire(t, b)
		var lock sync.Mutex
		var order []int
		var wg sync.WaitGroup
		come := func(n int) {
			wg.Go(func() {
				mine, err := b.Acquire(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				lock.Lock()
				order = append(order, n)
				lock.Unlock()
				time.Sleep(time.Second)
				mine.Release(true)
			})
		}
		for n := range 5 {
			come(n)
			synctest.Wait()
		}
		s.Release(true)
		come(5) // comes in the moment in which there is room, and goes to the end
		wg.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5}) {
			t.Errorf("served in the order %v", order)
		}
		inFlight(t, b, 0)
	})
}

func TestWaitEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{Limit: 1, Wait: 3 * time.Second})
		acquire(t, b)
		began := time.Now()
		_, err := b.Acquire(ctx)
		var full *bulkhead.Full
		if !errors.As(err, &full) || full.Waited != 3*time.Second || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s, want a *Full after 3s", err, time.Since(began))
		}
		if s := b.Snapshot(); s.Waiting != 0 || s.Refused != 1 {
			t.Errorf("%+v, want nobody waiting, 1 refused", s)
		}
	})
}

func TestMaxWaitingTurnsTheNextAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ most, want int }{{1, 1}, {0, 2}} { // 0: as many as the limit
			b := bulkhead.New(bulkhead.Config{Limit: 2, Wait: time.Minute, MaxWaiting: c.most})
			acquire(t, b)
			acquire(t, b)
			for range c.want {
				go b.Acquire(ctx)
			}
			synctest.Wait()
			began := time.Now()
			var full *bulkhead.Full
			if _, err := b.Acquire(ctx); !errors.As(err, &full) || full.Waiting != c.want || time.Since(began) != 0 {
				t.Errorf("MaxWaiting %d: %v after %s, want a *Full at once", c.most, err, time.Since(began))
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

func TestCancelWhileWaitingGivesThePlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{Limit: 1, Wait: time.Hour})
		s := acquire(t, b)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := b.Acquire(short)
		if !errors.Is(err, bulkhead.ErrFull) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waited 1s") {
			t.Errorf("%v, want that it waited for a second and its deadline passed", err)
		}
		if got := b.Snapshot(); got.Waiting != 0 || got.GaveUp != 1 || got.Refused != 0 {
			t.Errorf("%+v, want nobody waiting, 1 gave up", got)
		}
		s.Release(true)
		acquire(t, b).Release(true)
		inFlight(t, b, 0)
	})
}

// A turn that comes in the moment of the cancel is the next one's, not lost. Many rounds, since the moment is short.
func TestATurnIsNotLostToACancel(t *testing.T) {
	b := bulkhead.New(bulkhead.Config{Limit: 1, Wait: time.Hour, MaxWaiting: 10})
	for range 500 {
		s := acquire(t, b)
		hurried, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() {
			if mine, err := b.Acquire(hurried); err == nil {
				mine.Release(true)
			}
		})
		wg.Go(func() {
			mine, err := b.Acquire(ctx)
			if err != nil {
				t.Error(err)
			}
			mine.Release(true)
		})
		wg.Go(cancel)
		wg.Go(func() { s.Release(true) })
		wg.Wait()
		inFlight(t, b, 0)
	}
}
