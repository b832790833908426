package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// A store that is slower than a call waits, one that can be read and not written, and one whose every answer is lost: nobody is rejected
// for that once the target is well.
func TestAStoreThatIsHardToReach(t *testing.T) {
	for _, is := range []int32{after240, after260, after900, loses} {
		t.Run(fmt.Sprint("way ", is), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := newWeather(t).way("all")
				hardToReach(t, to, func() { to.is.Store(is) }, func() { to.is.Store(well) })
			})
		})
	}
	t.Run("read-only", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			to := &readOnly{Memory: NewMemory(0)}
			hardToReach(t, to, func() { to.is.Store(true) }, func() { to.is.Store(false) })
		})
	})
}

func hardToReach(t *testing.T, store Store, turn, mend func()) {
	all := callers(t, 3, Config{Store: store})
	trip(t, all)
	turn()
	defer mend()
	var rejected atomic.Int64
	var calls sync.WaitGroup
	for i := range 4 * 60 * 10 { // four minutes, of which the last must be without a fault
		for _, b := range all {
			calls.Go(func() {
				var no *breaker.Rejected
				if err := b.Do(t.Context(), good); i >= 3*60*10 && errors.As(err, &no) && strings.HasSuffix(no.Name, "of the fleet") {
					rejected.Add(1)
				}
			})
		}
		pass(100 * time.Millisecond)
	}
	calls.Wait()
	if n := rejected.Load(); n > 0 {
		t.Errorf("in the fourth minute after the target was well %d calls were rejected", n)
	}
}

type readOnly struct {
	*Memory
	is atomic.Bool
}

func (s *readOnly) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	if s.is.Load() {
		return Sight{}, false, errors.New("READONLY: it is a replica")
	}
	return s.Memory.Swap(ctx, key, version, record)
}

// A client of a store that asks again when an answer was lost is told that somebody was faster: itself. The permit is its.
func TestAnAnswerOfWhichTheClientMadeTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newWeather(t).way("all")
		to.is.Store(repeats)
		all := callers(t, 3, Config{Store: to, Lease: 10 * time.Minute})
		trip(t, all)
		pass(5*time.Second + spread)
		p, err := all[0].Allow(t.Context())
		if err != nil || !p.Trial() || !p.Live() {
			t.Fatalf("%v, and the permit is %q's", err, all[1].Snapshot().Holder)
		}
		if s := all[0].Snapshot(); s.Trials != 1 {
			t.Errorf("it thinks that it had %d trials", s.Trials)
		}
		p.Settle(breaker.Success)
		synctest.Wait()
		if s := all[1].Snapshot(); s.State != breaker.Ramping {
			t.Errorf("its verdict isn't heard: %+v", s.Record)
		}
	})
}

// A store that doesn't mind its context holds no call up for longer than Wait.
func TestAStoreDeafToItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowly{&sick{Memory: NewMemory(0)}, 3 * time.Second}
		all := callers(t, 3, Config{Store: store.sick})
		trip(t, all)
		deaf := callers(t, 1, Config{Store: store})[0]
		pass(5*time.Second + spread)
		began := time.Now()
		if err := deaf.Do(t.Context(), good); err != nil {
			t.Errorf("rejected for its store: %v", err)
		}
		if took := time.Since(began); took > 250*time.Millisecond {
			t.Errorf("a call waited for %v", took)
		}
	})
}

// A verdict that reaches the store after its lease is heard if nobody else has been granted the permit meanwhile: it is newer than
// any other there will be.
func TestAVerdictThatIsLongOnItsWay(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprint("taken over ", taken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { longOnItsWay(t, taken) })
		})
	}
}

func longOnItsWay(t *testing.T, taken bool) {
	w := newWeather(t)
	far := w.way("far")
	c := Config{Store: far, Key: "orders", Caller: "far", Lease: 4 * time.Second, Local: breaker.Config{SlowLimit: -1}}
	prober, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer prober.Close()
	_ = prober.Do(t.Context(), good)
	c.Store = w.Memory
	all := callers(t, 3, c)
	trip(t, all)
	pass(5*time.Second + spread)
	p, err := prober.Allow(t.Context())
	if err != nil || !p.Trial() {
		t.Fatal(err)
	}
	pass(2900 * time.Millisecond)
	far.is.Store(after4s)
	p.Settle(breaker.Success) // sent in time, and there 0.9 s after the lease
	if taken {
		pass(1100*time.Millisecond + spread)
		if q, err := all[1].Allow(t.Context()); err != nil || !q.Trial() || p.Live() {
			t.Fatalf("%v, two are live: %v", err, p.Live())
		}
	}
	pass(3 * time.Second)
	far.is.Store(well)
	if s := all[2].Snapshot(); (s.State == breaker.Ramping) == taken {
		t.Errorf("it is %+v", s.Record)
	}
}

// ageless is a store without a clock, as the contract allows: ages count since a client of it first saw the version.
type ageless struct {
	*Memory
	mu   sync.Mutex
	seen map[uint64]time.Time
}

func (s *ageless) since(sight Sight) Sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[uint64]time.Time{}
	}
	if _, ok := s.seen[sight.Version]; !ok {
		s.seen[sight.Version] = time.Now()
	}
	sight.Age = time.Since(s.seen[sight.Version])
	return sight
}

func (s *ageless) Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error) {
	sight, err := s.Memory.Tell(ctx, key, caller, count, all)
	return s.since(sight), err
}

func (s *ageless) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	sight, ok, err := s.Memory.Swap(ctx, key, version, record)
	return s.since(sight), ok, err
}

func (s *ageless) Watch(ctx context.Context, key string) iter.Seq2[Sight, error] {
	return func(yield func(Sight, error) bool) {
		for sight, err := range s.Memory.Watch(ctx, key) {
			if !yield(s.since(sight), err) {
				return
			}
		}
	}
}

// Who joins long after a ramp, by a store without a clock, doesn't take it for a new one.
func TestWhoJoinsLaterDoesntRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(0)
		bring(t, callers(t, 3, Config{Store: &ageless{Memory: memory}}), breaker.Ramping)
		pass(10 * time.Minute)
		b := callers(t, 1, Config{Store: &ageless{Memory: memory}})[0]
		for range 1000 {
			if err := b.Do(t.Context(), good); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A ramp that is over is written down once, not by each caller.
func TestTheEndOfARampIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(t, 20, Config{Store: NewMemory(0)})
		bring(t, all, breaker.Ramping)
		before := all[0].Snapshot().Generation
		pass(20 * time.Second)
		for i, b := range all {
			if s := b.Snapshot(); s.State != breaker.Closed || s.Generation != before+1 || s.For != 0 {
				t.Errorf("caller %d: %+v", i, s.Record)
			}
		}
	})
}

// late is a store whose watch is late, while what is told is answered at once.
type late struct {
	*Memory
	by atomic.Int64
}

func (s *late) Watch(ctx context.Context, key string) iter.Seq2[Sight, error] {
	return func(yield func(Sight, error) bool) {
		for sight, err := range s.Memory.Watch(ctx, key) {
			pass(time.Duration(s.by.Load()))
			if !yield(sight, err) {
				return
			}
		}
	}
}

// A sight that was long on its way says that it is young; one of the same version that knows better is gone by.
func TestAnAgeThatIsKnownBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(0)
		all := callers(t, 3, Config{Store: memory, OpenFor: time.Minute})
		far := &late{Memory: memory}
		b, err := New(Config{Store: far, Key: "orders", Caller: "far", Report: 8 * time.Second, Poll: 8 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_ = b.Do(t.Context(), good)
		pass(8 * time.Second)
		far.by.Store(int64(5500 * time.Millisecond))
		trip(t, all)
		pass(40 * time.Second)
		if got, want := b.Snapshot().Retry, all[0].Snapshot().Retry; got.Sub(want) > time.Second {
			t.Errorf("it has asked the store since, and is %v late", got.Sub(want))
		}
	})
}
