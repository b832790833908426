package bulkhead_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/bulkhead"
)

// A dropped response leaks its slot, until nobody gets in any more. Slots end by themselves.
func TestK21ASlotThatIsNeverReleasedIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bulkhead.Event
		b := bulkhead.New(bulkhead.Config{Limit: 3, Lease: 15 * time.Second, OnEvent: func(e bulkhead.Event) { told = append(told, e) }})
		dropped := []bulkhead.Slot{acquire(t, b), acquire(t, b)}
		time.Sleep(14 * time.Second)
		young := acquire(t, b)
		if _, err := b.Acquire(ctx); !errors.Is(err, bulkhead.ErrFull) {
			t.Fatalf("before the lease has ended: %v", err)
		}
		time.Sleep(2 * time.Second) // a lease and a fifteenth, since the first two came
		s := acquire(t, b)
		inFlight(t, b, 2)
		for _, late := range dropped {
			late.Release(true)
		}
		inFlight(t, b, 2)
		if s := b.Snapshot(); s.Reclaimed != 2 || s.Late != 2 {
			t.Errorf("%+v, want 2 reclaimed and 2 late", s)
		}
		young.Release(true)
		s.Release(true)
		inFlight(t, b, 0)
		got := ""
		for _, e := range told {
			got += e.String() + "\n"
		}
		if !strings.Contains(got, "2 slots that weren't released") {
			t.Errorf("told:\n%swant that 2 slots were taken back", got)
		}
	})
}

// The age of each slot decides, wherever in its fifteenth it began: never before the lease, at most a fifteenth after.
func TestASlotIsTakenBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 40 {
			b := bulkhead.New(bulkhead.Config{Limit: 1, Lease: 15 * time.Second})
			time.Sleep(time.Duration(i) * 77 * time.Millisecond)
			acquire(t, b)
			began := time.Now()
			time.Sleep(15*time.Second - 1)
			if _, err := b.Acquire(ctx); err == nil {
				t.Fatalf("%d: taken back after %s of a lease of 15s", i, time.Since(began))
			}
			time.Sleep(time.Second + 1)
			if _, err := b.Acquire(ctx); err != nil {
				t.Fatalf("%d: not taken back after %s: %v", i, time.Since(began), err)
			}
		}
	})
}

// Where nobody else comes, who waits looks after the leases himself.
func TestAWaiterGetsASlotWhoseLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{Limit: 1, Lease: 15 * time.Second, Wait: time.Hour})
		for range 3 { // each waits for the lease of the one before
			began := time.Now()
			acquire(t, b)
			if waited := time.Since(began); waited > 16*time.Second {
				t.Errorf("waited %s for a lease of 15s", waited)
			}
		}
	})
}

// Who is asked first and called then is not kept away for ever by what leaked; nobody is told of it under the lock of who asks.
func TestAdmitsAndSnapshotLookAfterLeasesAndCallNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		b := bulkhead.New(bulkhead.Config{Limit: 1, OnEvent: func(bulkhead.Event) { told++ }})
		for range 2 {
			acquire(t, b)
			if b.Admits() {
				t.Error("one of one is in flight, and it would admit one more")
			}
			told = 0
			time.Sleep(3 * time.Minute)
			if !b.Admits() || b.Snapshot().InFlight != 0 {
				t.Error("what leaked keeps everybody away")
			}
			if told != 0 {
				t.Error("who asked had to tell")
			}
		}
		acquire(t, b).Release(true)
		if told == 0 {
			t.Error("nobody was told")
		}
	})
}

// A call that hangs in Do for ever doesn't block for ever, and the bulkhead isn't confused when it comes back.
func TestK1ACallThatNeverReturnsBlocksNothingForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{Limit: 1})
		hang, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			_ = b.Do(ctx, func(context.Context) error { <-hang; return nil })
		}()
		time.Sleep(3 * time.Minute)
		s := acquire(t, b)
		close(hang)
		<-done
		inFlight(t, b, 1)
		s.Release(true)
		inFlight(t, b, 0)
	})
}

func TestWithoutALeaseNothingIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{Limit: 1, Lease: -1, Wait: time.Minute})
		s := acquire(t, b)
		time.Sleep(1000 * time.Hour)
		began := time.Now()
		if _, err := b.Acquire(ctx); err == nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %s, want no room after a minute", err, time.Since(began))
		}
		s.Release(true)
		inFlight(t, b, 0)
	})
}

// When the leases of many end at once, as many get in as there is room for, and no more.
func TestK5NoFloodWhenLeasesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(bulkhead.Config{Limit: 5, Lease: 15 * time.Second})
		for range 5 {
			acquire(t, b)
		}
		time.Sleep(16 * time.Second)
		got := make(chan bool, 100)
		for range 100 {
			go func() {
				_, err := b.Acquire(ctx)
				got <- err == nil
			}()
		}
		admitted := 0
		for range 100 {
			if <-got {
				admitted++
			}
		}
		// Who came while the leases were being looked after may have been turned away.
		for ; admitted < 5; admitted++ {
			acquire(t, b)
		}
		if s := b.Snapshot(); admitted > 5 || s.InFlight != 5 || s.Reclaimed != 5 || b.Admits() {
			t.Errorf("%d got in of 5; %+v", admitted, s)
		}
	})
}

// Leases end while 64 goroutines take, drop, hold too long and release, on several processors at once: the clock of a
// bubble stands still meanwhile, and then all wake in the same moment.
func TestCountsHoldWhileLeasesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
			b := bulkhead.New(bulkhead.Config{Limit: 40, Lease: 15 * time.Millisecond, Wait: wait})
			var dropped, released atomic.Uint64
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					for i := range 200 {
						s, err := b.Acquire(ctx)
						if err != nil {
							time.Sleep(time.Millisecond)
							continue
						}
						time.Sleep(time.Duration((g*7+i*13)%20) * time.Millisecond)
						if (g+i)%5 == 0 {
							dropped.Add(1)
							continue
						}
						released.Add(1)
						s.Release(true)
						s.Release(true)
					}
				})
			}
			wg.Wait()
			time.Sleep(17 * time.Millisecond)
			s := b.Snapshot()
			if s.InFlight != 0 || s.Waiting != 0 || s.Admitted != dropped.Load()+released.Load() || s.Twice != released.Load() ||
				s.Admitted != s.Reclaimed+released.Load()-s.Late || s.Reclaimed == 0 || s.Late == 0 {
				t.Errorf("wait %s: %d dropped, %d released, %+v", wait, dropped.Load(), released.Load(), s)
			}
		}
	})
}
