package breaker

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// K12: the callback may call the breaker, which holds no lock meanwhile, and is told one change after the other.
func TestK12TheCallbackMayCallTheBreaker(t *testing.T) {
	var b *Breaker
	var told []State
	inside := 0
	b = New(Config{Consecutive: 1, OnEvent: func(ev Event) {
		if inside++; inside > 1 {
			t.Error("a change is told within another")
		}
		defer func() { inside-- }()
		if !b.lock.TryLock() {
			t.Error("it is called under the lock")
			return
		}
		b.lock.Unlock()
		told = append(told, ev.To)
		switch ev.To {
		case Open:
			b.ForceClosed()
			b.MetricsOnly()
			if b.State() != MetricsOnly || b.Snapshot().State != MetricsOnly {
				t.Error("what it did isn't done")
			}
		case MetricsOnly:
			b.Reset()
		}
		_ = b.Admits()
		p, _ := b.Allow()
		p.Settle(Success)
	}})
	settle(t, b, 1, Failure)
	if !slices.Equal(told, []State{Open, ForcedClosed, MetricsOnly, Closed}) {
		t.Errorf("told %v", told)
	}
}

// K12: a callback that panics or ends its goroutine is the last of nothing.
func TestK12ACallbackThatPanicsOrEndsIsContained(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("on purpose") }, "goexit": runtime.Goexit} {
		var told []State
		b := New(Config{Consecutive: 1, OnEvent: func(ev Event) {
			told = append(told, ev.To)
			end()
		}})
		for range 3 {
			var wg sync.WaitGroup
			wg.Go(func() {
				p, _ := b.Allow()
				p.Settle(Failure)
			})
			wg.Wait()
			want(t, b, Open)
			wg.Go(b.Reset)
			wg.Wait()
			want(t, b, Closed)
		}
		if !slices.Equal(told, []State{Open, Closed, Open, Closed, Open, Closed}) {
			t.Errorf("%s: told %v", name, told)
		}
	}
}

// K12: a callback that blocks holds up the one who tells it, and nobody else; what it misses is counted.
func TestK12ACallbackThatBlocksHoldsUpNobodyElse(t *testing.T) {
	blocked, release := make(chan struct{}), make(chan struct{})
	var told []Event
	b := New(Config{Consecutive: 1, OnEvent: func(ev Event) {
		if told = append(told, ev); len(told) == 1 {
			close(blocked)
			<-release
		}
	}})
	var teller sync.WaitGroup
	teller.Go(b.ForceOpen)
	<-blocked
	if !b.lock.TryLock() {
		close(release)
		t.Fatal("it is told under the lock")
	}
	b.lock.Unlock()
	for range mostNews {
		b.Reset()
		settle(t, b, 1, Failure)
		want(t, b, Open)
	}
	close(release)
	teller.Wait()
	missed := 0
	for i, ev := range told {
		missed += ev.Missed
		if i > 1 && ev.From != told[i-1].To {
			t.Errorf("%v came after %v", ev, told[i-1])
		}
	}
	if len(told) != 1+mostNews || missed != mostNews || told[1].Missed != mostNews || told[len(told)-1].To != Open {
		t.Errorf("%d told, %d missed, the second says %d, the last is %+v", len(told), missed, told[1].Missed, told[len(told)-1])
	}
}

// K12: whoever changes it, changes are told in their order, one at a time.
func TestK12ChangesAreToldInOrder(t *testing.T) {
	var b *Breaker
	var inside atomic.Int32
	last := Closed
	told := 0
	b = New(Config{Consecutive: 1, OnEvent: func(ev Event) {
		if inside.Add(1) != 1 {
			t.Error("two at a time")
		}
		defer inside.Add(-1)
		if told++; ev.From != last && ev.Missed == 0 {
			t.Errorf("from %v after to %v", ev.From, last)
		}
		last = ev.To
	}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 500 {
				if i%2 == 0 {
					b.Report(Failure)
				} else {
					b.Reset()
				}
			}
		})
	}
	wg.Wait()
	if told == 0 || last != b.State() {
		t.Errorf("%d told, the last %v, it is %v", told, last, b.State())
	}
}

func TestEventsSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Event
		b := New(Config{Name: "orders/1", OpenFor: time.Second, Jitter: -1, Ramp: time.Second, OnEvent: func(ev Event) { told = append(told, ev) }})
		begun := time.Now()
		settle(t, b, 10, Failure)
		time.Sleep(time.Second)
		settle(t, b, 1, Success)
		time.Sleep(time.Second)
		settle(t, b, 1, Success)
		b.MetricsOnly()
		settle(t, b, 12, Failure)
		wanted := []Event{
			{From: Closed, To: Open, Rule: RuleFailureRate, Count: 10, Of: 10, At: begun, OpenFor: time.Second},
			{From: Open, To: HalfOpen, At: begun.Add(time.Second)},
			{From: HalfOpen, To: Ramping, At: begun.Add(time.Second)},
			{From: Ramping, To: Closed, At: begun.Add(2 * time.Second)},
			{From: Closed, To: MetricsOnly, Rule: RuleByHand, At: begun.Add(2 * time.Second)},
			{From: MetricsOnly, To: MetricsOnly, Rule: RuleFailureRate, Count: 10, Of: 10, At: begun.Add(2 * time.Second)},
		}
		if len(told) != len(wanted) {
			t.Fatalf("told %+v", told)
		}
		for i, ev := range told {
			want := wanted[i]
			if want.Name = "orders/1"; !ev.At.Equal(want.At) {
				t.Errorf("%+v, want it at %v", ev, want.At)
			}
			if ev.At = want.At; ev != want {
				t.Errorf("%+v, want %+v", ev, want)
			}
		}
	})
}
