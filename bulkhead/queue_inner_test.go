package bulkhead

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Moments too short to be met from outside are made by hand here.

func TestNobodyPassesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := New(Config{Limit: 1, Wait: time.Minute, MaxWaiting: 2})
		if _, err := b.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
		order := make(chan int, 2)
		come := func(n int) {
			if _, err := b.Acquire(ctx); err == nil {
				order <- n
			}
		}
		go come(1)
		synctest.Wait()
		b.state.Add(^uint64(0)) // a slot is free, and whoever freed it hasn't come to the queue yet
		go come(2)
		synctest.Wait()
		if first := <-order; first != 1 {
			t.Errorf("%d came first", first)
		}
		b.free(1)
		if second := <-order; second != 2 {
			t.Errorf("%d came second", second)
		}
	})
}

func TestRoomThatComesBeforeTheQueueIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Limit: 1, Wait: time.Minute})
		began := time.Now()
		if _, err := b.wait(context.Background(), b.now()); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %s, want room at once", err, time.Since(began))
		}
		if b.state.Load()&someWait != 0 {
			t.Error("nobody waits, and the state says so")
		}
	})
}

func TestATurnInTheMomentOfACancelIsTheNextOnes(t *testing.T) {
	b := New(Config{Limit: 1, Wait: time.Minute})
	turn := make(chan struct{})
	place := b.queue.waiters.PushBack(turn)
	b.state.Or(someWait)
	b.serve()
	<-turn
	if err := b.giveUp(place, 1, context.Canceled); !errors.Is(err, ErrFull) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if s := b.Snapshot(); s.InFlight != 0 || s.Waiting != 0 || s.Admitted != 1 || s.GaveUp != 0 {
		t.Errorf("%+v, want nothing in flight", s)
	}
}

// When the limit grows, whoever waits need not wait for a release.
func TestAGrowingLimitLetsWaitersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := New(Config{Min: 1, Wait: time.Minute})
		b.limit.Store(1)
		if _, err := b.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			b.study.known, b.study.limit = true, 2
			b.publish(true, true)
		}()
		if _, err := b.Acquire(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %s, want room when the limit grew", err, time.Since(began))
		}
	})
}

// An OnEvent that doesn't keep up costs memory for so many events, and is told how many it missed.
func TestNewsAreBounded(t *testing.T) {
	var missed, told int
	var b *Bulkhead
	b = New(Config{Limit: 1, OnEvent: func(e Event) {
		if told++; told == 1 {
			for range mostNews + 10 {
				b.note(Event{Kind: Filled})
			}
		}
		missed += e.Missed
	}})
	b.note(Event{Kind: Filled})
	b.deliver()
	if told != mostNews+1 || missed != 10 {
		t.Errorf("told %d, missed %d, want %d and 10", told, missed, mostNews+1)
	}
}
