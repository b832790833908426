package breaker

import (
	"testing"
	"time"
)

// Failures that wait for the lock are overtaken by successes, which need none. They count where they came, or a target
// of which every second call fails would be taken for one that fails ten times in a row.
func TestFailuresThatWaitedCountWhereTheyCame(t *testing.T) {
	for _, c := range []Config{{Window: 100, Consecutive: 3, FailureRate: 0.7}, {Window: 100, Consecutive: 3, FailureRate: 0.7, SlowLimit: -1}} {
		b := New(c)
		e := b.era.Load()
		places := map[uint64]bool{}
		var waiting []uint64
		for range 10 {
			p, _ := b.Allow()
			place := e.queue(p, Failure)
			waiting = append(waiting, place)
			places[place] = true
			settle(t, b, 1, Success)
		}
		if len(places) != 10 || places[0] {
			t.Fatalf("ten have the places %v", waiting)
		}
		for _, i := range []int{0, 2, 1, 3, 4, 5, 9, 8, 7, 6} {
			e.add(Failure, failed, waiting[i], b.now())
		}
		if s := b.Snapshot(); s.State != Closed || s.Failures != 10 || s.Total != 20 || s.InFlight != 0 || e.run != 1 {
			t.Errorf("ten failures among twenty: %+v, %d in a row", s, e.run)
		}
		waiting = nil
		for range 3 {
			p, _ := b.Allow()
			waiting = append(waiting, e.queue(p, Failure))
		}
		for _, i := range []int{2, 1, 0} { // in a row, and told the other way round
			want(t, b, Closed)
			e.add(Failure, failed, waiting[i], b.now())
		}
		want(t, b, Open)
	}
}

// What has a place before its turn comes is counted once, whatever becomes of the era meanwhile.
func TestAQueuedOutcomeThatIsOverdueIsLeftToTheLock(t *testing.T) {
	b := New(Config{SlowLimit: time.Second})
	e := b.era.Load()
	p, _ := b.Allow()
	if e.queue(p, Neutral) != 0 {
		t.Error("what says nothing has a place")
	}
	b.lock.Lock()
	e.turn(b.now() + int64(3*time.Second))
	b.lock.Unlock()
	if place := e.queue(p, Failure); place != 0 {
		t.Errorf("one that was counted as slow has a place of its own, %d", place)
	}
	if s := b.Snapshot(); s.Total != 1 || s.Slow != 1 || s.Overdue != 1 {
		t.Errorf("%+v", s)
	}
}
