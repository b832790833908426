package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// stops is a caller's way to the store on which its process is stopped once: before or after what it does there. What it asked is done and
// answered however long that was ago, as if the answer had lain in a socket.
type stops struct {
	*Memory
	n       atomic.Int64 // how often the store has been asked
	at      atomic.Int64 // the time that it is stopped at; 0: never
	after   bool
	takes   time.Duration
	stopped atomic.Bool
}

func (s *stops) around(deed func()) {
	stop := func() {
		s.stopped.Store(true)
		pass(s.takes)
	}
	now := s.n.Add(1) == s.at.Load()
	if now && !s.after {
		stop()
	}
	deed()
	if now && s.after {
		stop()
	}
}

func (s *stops) Tell(ctx context.Context, key, caller string, count []byte, all bool) (sight Sight, err error) {
	s.around(func() { sight, err = s.Memory.Tell(context.WithoutCancel(ctx), key, caller, count, all) })
	return sight, err
}

func (s *stops) Swap(ctx context.Context, key string, version uint64, record []byte) (sight Sight, ok bool, err error) {
	s.around(func() { sight, ok, err = s.Memory.Swap(context.WithoutCancel(ctx), key, version, record) })
	return sight, ok, err
}

// A caller is stopped at each thing that it asks of the store from when a trial is due, for longer than a lease: it holds no permit beside
// another's, its late word counts for nothing, and the fleet gets on without it and with it again.
func TestACallerThatIsStopped(t *testing.T) {
	for at := range int64(6) {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(at+1, after), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { stopped(t, at+1, after) }) })
		}
	}
}

func stopped(t *testing.T, at int64, after bool) {
	t.Cleanup(func() { pass(20 * time.Second) })
	far := &stops{Memory: NewMemory(0), after: after, takes: 15 * time.Second}
	c := Config{Store: far, Key: "orders", Caller: "far", OpenFor: 2 * time.Second, MaxOpen: 2 * time.Second, Ramp: time.Second}
	prober, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prober.Close)
	_ = prober.Do(t.Context(), good)
	c.Store = far.Memory
	all := callers(t, 3, c)
	trip(t, all)
	far.n.Store(0)
	far.at.Store(at)
	var live []Permit
	try := func(b *Breaker) {
		p, err := b.Allow(t.Context())
		if err != nil {
			return
		}
		if !p.Trial() {
			p.Settle(breaker.Neutral)
			return
		}
		live = append(live, p)
	}
	pass(time.Second + spread)
	for i := range 300 { // half a minute
		if try(prober); prober.Snapshot().State == breaker.Open && i > 20 || i > 80 {
			try(all[i%3])
		}
		n := 0
		for _, p := range live {
			if p.Live() {
				n++
			}
		}
		if n > 1 {
			t.Fatalf("%d permits are live, of %d", n, len(live))
		}
		if i%20 == 19 {
			for _, p := range live {
				p.Settle(breaker.Success)
			}
			live = nil
		}
		pass(100 * time.Millisecond)
	}
	if !far.stopped.Load() {
		t.Fatal("it was never stopped")
	}
	back(t, append(all, prober))
}

// back: the target is well, and in the longest open time, a lease and a pause every caller is with the others and closed.
func back(t *testing.T, all []*Breaker) {
	t.Helper()
	for range 400 {
		pass(100 * time.Millisecond)
		for _, b := range all {
			_ = b.Do(t.Context(), good)
		}
	}
	for i, b := range all {
		if s := b.Snapshot(); s.Alone || s.State != breaker.Closed || s.Local.State != breaker.Closed || s.Epoch != all[0].Snapshot().Epoch {
			t.Errorf("caller %d isn't back: %+v", i, s)
		}
	}
}

// half is a store of which one half hangs: what is told and swapped, or the watch.
type half struct {
	*sick
	told bool
}

func (s half) Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error) {
	if !s.told {
		return s.Memory.Tell(ctx, key, caller, count, all)
	}
	return s.sick.Tell(ctx, key, caller, count, all)
}

// While nothing can be told and the watch works, callers are on their own: what they would ask nobody hears. While the watch is silent and
// they can tell, they learn of each turn with their reports.
func TestHalfOfAStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := half{&sick{Memory: NewMemory(0)}, false}
		all := callers(t, 3, Config{Store: store})
		store.hangs.Store(true)
		if _, err := Force(t.Context(), store.Memory, "orders", breaker.ForcedOpen); err != nil { // the watch hangs from now on
			t.Fatal(err)
		}
		pass(6 * time.Second) // a poll
		for i, b := range all {
			if s := b.Snapshot(); s.Alone || s.State != breaker.ForcedOpen {
				t.Errorf("caller %d, its watch is silent: %+v", i, s)
			}
		}
		if _, err := Force(t.Context(), store.Memory, "orders", breaker.Closed); err != nil {
			t.Fatal(err)
		}
		pass(time.Second) // a report, for it isn't closed
		for i, b := range all {
			if s := b.Snapshot(); s.Alone || s.State != breaker.Closed {
				t.Errorf("caller %d, its watch is silent: %+v", i, s)
			}
		}
		store.hangs.Store(false)
	})
	synctest.Test(t, func(t *testing.T) {
		store := half{&sick{Memory: NewMemory(0)}, true}
		all := callers(t, 3, Config{Store: store})
		trip(t, all)
		store.hangs.Store(true) // nothing changes: the watch says nothing
		pass(2*time.Second + time.Millisecond)
		for i, b := range all {
			if s := b.Snapshot(); !s.Alone || !errors.Is(s.Why, errSlow) || s.Parted != 1 {
				t.Errorf("caller %d, nothing that it tells is heard: %+v", i, s)
			}
		}
		store.hangs.Store(false)
		back(t, all)
	})
}

// Callers that lost the store together come back one after the other, and ask a store that stays away ever less often.
func TestComingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var joined []time.Time
		store := &sick{Memory: NewMemory(0)}
		all := callers(t, 20, Config{Store: store, OnEvent: func(ev Event) {
			mu.Lock()
			defer mu.Unlock()
			if ev.Joined {
				joined = append(joined, ev.At)
			}
		}})
		mu.Lock()
		joined = nil
		mu.Unlock()
		store.Flush()
		pass(2 * time.Second)
		mu.Lock()
		if len(joined) != 20 || joined[19].Sub(joined[0]) < 100*time.Millisecond {
			t.Errorf("%d of 20 came back: %v", len(joined), joined)
		}
		mu.Unlock()
		store.fails.Store(true)
		store.Flush()
		pass(30 * time.Second)
		store.asked.Store(0)
		pass(time.Minute)
		if n := store.asked.Load(); n < 20*5 || n > 20*13 {
			t.Errorf("20 callers asked a store that is away %d times in a minute, want 6 to 12 each", n)
		}
		store.fails.Store(false)
		back(t, all)
	})
}

// overruled is a store in which an operator is faster than the answer to whom a permit was granted.
type overruled struct {
	*Memory
	is atomic.Bool
}

func (s *overruled) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	sight, ok, err := s.Memory.Swap(ctx, key, version, record)
	if s.is.Load() {
		_, _ = Force(ctx, s.Memory, key, breaker.ForcedOpen)
		pass(50 * time.Millisecond) // the watch is faster
	}
	return sight, ok, err
}

func TestAGrantThatIsOverruledBeforeItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &overruled{Memory: NewMemory(0)}
		all := callers(t, 3, Config{Store: store})
		trip(t, all)
		pass(5*time.Second + spread)
		store.is.Store(true)
		err := all[0].Do(t.Context(), func(context.Context) error { t.Error("the call is made"); return nil })
		if !errors.Is(err, breaker.ErrRejected) {
			t.Error(err)
		}
		store.is.Store(false)
	})
}
