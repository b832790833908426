package solo

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/replica"
)

func never(*ledger.Dial) bool { return false }

func dialOf(n int, after time.Duration, try int) ledger.Dial {
	return ledger.Dial{Address: fmt.Sprintf("127.0.0.1:%d", n), After: after, Try: try}
}

func TestDialsGoOutWhenTheyAreDueInOrder(t *testing.T) {
	now := time.Now()
	d := newDialer()
	for i, ms := range []int{300, 0, 100, 20} {
		d.add(now, dialOf(i+1, time.Duration(ms)*time.Millisecond, 1))
	}
	var order []string
	for ms := 0; ms <= 300; ms++ {
		at := now.Add(time.Duration(ms) * time.Millisecond)
		if next := d.next(); !next.IsZero() && next.Before(at) {
			t.Fatalf("at %dms the next dial is overdue", ms)
		}
		for _, dial := range d.take(at, never) {
			order = append(order, fmt.Sprintf("%d@%d", ms, i64(dial.After)))
		}
	}
	if got := fmt.Sprint(order); got != "[0@0 20@20 100@100 300@300]" {
		t.Errorf("dialled at %s", got)
	}
}

func i64(d time.Duration) int64 { return d.Milliseconds() }

func TestDialsAreBoundedAtOnceAndInASecond(t *testing.T) {
	now := time.Now()
	l := lane{most: 3, limit: rate.NewLimiter(10, 2)}
	d := dialer{evidence: l, checks: l}
	for i := range 9 {
		d.add(now, dialOf(i+1, 0, 1))
	}
	if n := len(d.take(now, never)); n != 2 {
		t.Fatalf("%d dials at once with a burst of 2", n)
	}
	if wait := d.next().Sub(now); wait != 100*time.Millisecond {
		t.Fatalf("the next is due in %s, want 100ms at 10 a second", wait)
	}
	now = now.Add(time.Minute)
	if n := len(d.take(now, never)); n != 1 {
		t.Fatalf("%d more dials while 2 of at most 3 run", n)
	}
	if !d.next().IsZero() {
		t.Error("a dial is due though none may begin before another ends")
	}
}

func TestDialsThatTellNothingNewAreDropped(t *testing.T) {
	now := time.Now()
	d := newDialer()
	for i := range 9 {
		d.add(now, dialOf(i+1, 0, i%2))
	}
	if n := len(d.take(now, func(*ledger.Dial) bool { return true })); n != 0 || !d.next().IsZero() {
		t.Errorf("%d dials of no use were made", n)
	}
}

func TestWaitingDialsAreBounded(t *testing.T) {
	now := time.Now()
	d := newDialer()
	for i := range dialQueue {
		if !d.add(now, dialOf(1+i%60000, time.Hour, 1)) {
			t.Fatalf("dial %d isn't taken", i)
		}
	}
	if d.add(now, dialOf(1, 0, 1)) {
		t.Error("one dial too many is taken")
	}
	if !d.add(now, dialOf(1, 0, 0)) {
		t.Error("waiting evidence keeps the checks of new addresses out")
	}
}

// A mass start asks for a check of every address; the evidence of one death doesn't wait for them.
func TestEvidenceDoesNotWaitForAMassStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		r := New(Config{Fresh: true, Logger: slog.New(slog.DiscardHandler), Dial: func(ctx context.Context, address string) error {
			if address == "127.0.0.1:1" {
				if dead.Load() {
					return syscall.ECONNREFUSED
				}
				return nil
			}
			<-ctx.Done() // everybody else is slow
			return ctx.Err()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		a := attach(t, r, "first")
		register(t, a, record("orders", "first", "127.0.0.1:1", 1))
		time.Sleep(time.Second)
		crowd := attach(t, r, "crowd")
		for i := range 2000 {
			register(t, crowd, record("orders", fmt.Sprint(i), fmt.Sprintf("127.0.0.1:%d", i+2), uint64(i)+2))
		}
		dead.Store(true)
		a.End(replica.Lost)
		time.Sleep(time.Millisecond)
		v, _ := r.View("orders")
		if _, listed := v.Find("first"); listed {
			t.Error("the refused dial of one that died waits behind 2000 checks")
		}
		cancel()
		<-ended
	})
}

// A service that nobody knows or watches any more is forgotten, and its numbers are never given again.
func TestR12ForgottenServicesLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Fresh: true, Logger: slog.New(slog.DiscardHandler), Dial: silent, Ledger: ledger.Config{Retention: time.Minute}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		kept := func() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.services.known) }

		w := follow(t, r, "c", "unheard-of")
		views(t, w, time.Second)
		w.End(replica.Bye)
		if n, s := kept(), r.hub.Stats(); n != 0 || s.Topics != 0 {
			t.Errorf("an unknown service that was watched leaves %d entries and %d topics", n, s.Topics)
		}

		a, rec := attach(t, r, "p"), record("orders", "1", "127.0.0.1:1", 1)
		register(t, a, rec)
		for i := range 10 {
			if err := a.SetStatus(rec.Key, []eider.Status{eider.Down, eider.Up}[i%2]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		v, _ := r.View("orders")
		before := v.Cursor
		if err := a.Left(rec.Key); err != nil {
			t.Fatal(err)
		}
		a.End(replica.Moving)
		time.Sleep(time.Hour)
		if n, s := kept(), r.hub.Stats(); n != 0 || s.Topics != 0 {
			t.Errorf("a service whose last tombstone is gone leaves %d entries and %d topics", n, s.Topics)
		}
		if _, known := r.View("orders"); known {
			t.Error("it is still known")
		}

		b := attach(t, r, "q")
		register(t, b, record("orders", "2", "127.0.0.1:2", 2))
		time.Sleep(10 * time.Millisecond)
		if v, _ = r.View("orders"); v.Cursor.Number <= before.Number {
			t.Errorf("its second life is at %s, its first ended after %s", v.Cursor, before)
		}
		late := follow(t, r, "late", "billing")
		if err := late.Subscribe("orders", before, nil); err != nil {
			t.Fatal(err)
		}
		for _, got := range views(t, late, time.Second) {
			if got.GetService() == "orders" && got.GetBase() != 0 {
				t.Errorf("a cursor of its first life resumes by a delta: %v", got)
			}
		}
		cancel()
		<-ended
	})
}
