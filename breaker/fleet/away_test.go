package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// A store that fails, hangs or forgets, in each state: no call is rejected or held up for that, the caller says so, and joins again.
func TestK20AStoreThatIsAwayRejectsNobody(t *testing.T) {
	for _, ill := range []string{"fails", "hangs", "flushed"} {
		for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.Ramping} {
			t.Run(fmt.Sprintf("%s %v", ill, state), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { awayIn(t, ill, state) }) })
		}
	}
}

func awayIn(t *testing.T, ill string, state breaker.State) {
	store := &sick{Memory: NewMemory(0)}
	var parted, joined atomic.Int64
	all := callers(t, 4, Config{Store: store, OnEvent: func(ev Event) {
		if ev.Parted != nil {
			parted.Add(1)
		}
		if ev.Joined {
			joined.Add(1)
		}
	}})
	bring(t, all, state)
	b := all[0]
	joined.Store(0)
	for _, b := range all {
		b.Local().Reset() // else they say at once what they have seen, and open it again: rightly
	}
	switch ill {
	case "fails":
		store.fails.Store(true)
		store.Flush() // wakes the watch
	case "hangs":
		store.hangs.Store(true)
	case "flushed":
		store.Flush()
	}
	notice := 2 * time.Second // a report, and its patience
	if state == breaker.Closed {
		notice = 7 * time.Second // a poll, looked for each second: there are no calls
	}
	pass(notice + time.Millisecond)
	if ill != "flushed" && !b.Snapshot().Alone {
		t.Fatalf("it still goes by a store that is away: %+v", b.Snapshot())
	}
	for range 100 {
		began := time.Now()
		if err := b.Do(t.Context(), good); err != nil || time.Since(began) > 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
	}
	if parted.Load() != 4 {
		t.Errorf("%d of 4 callers said that they were on their own", parted.Load())
	}
	store.fails.Store(false)
	store.hangs.Store(false)
	pass(10*time.Second + 4*time.Second)
	for i, b := range all {
		if s := b.Snapshot(); s.Alone || s.Epoch != all[0].Snapshot().Epoch {
			t.Errorf("caller %d hasn't joined again: %+v", i, s)
		}
	}
	if joined.Load() != 4 {
		t.Errorf("%d of 4 joins were told", joined.Load())
	}
}

// A store that was never there is told of like one that went away, once.
func TestAwayFromTheBeginningIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Memory: NewMemory(0)}
		store.fails.Store(true)
		var told atomic.Int64
		b, err := New(Config{Store: store, Key: "orders", OnEvent: func(ev Event) {
			if ev.Parted != nil {
				told.Add(1)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_ = b.Do(t.Context(), good)
		pass(time.Minute)
		if n := told.Load(); n != 1 {
			t.Errorf("the store is away since a minute, which was told %d times", n)
		}
	})
}

// bring has a fleet's breaker come to a state.
func bring(t *testing.T, all []*Breaker, state breaker.State) {
	t.Helper()
	if state != breaker.Closed {
		trip(t, all)
	}
	if state == breaker.HalfOpen || state == breaker.Ramping {
		pass(5*time.Second + spread)
		p, err := all[1].Allow(t.Context())
		if err != nil || !p.Trial() {
			t.Fatal(err)
		}
		if state == breaker.Ramping {
			p.Settle(breaker.Success)
		}
	}
	synctest.Wait()
	if s := all[0].Snapshot(); s.State != state {
		t.Fatalf("it is %v, want %v", s.State, state)
	}
}

// cut is a store that doesn't answer, and whose watch breaks when it is told to.
type cut struct {
	*sick
	broken chan struct{}
}

var errCut = errors.New("the watch broke")

func (s cut) Watch(ctx context.Context, key string) iter.Seq2[Sight, error] {
	return func(yield func(Sight, error) bool) {
		select {
		case <-s.broken:
			yield(Sight{}, errCut)
		case <-ctx.Done():
			yield(Sight{}, ctx.Err())
		}
	}
}

// What is said to be the reason is what was first, and not that something else was given up because of it.
func TestTheReasonIsWhatWasFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := cut{&sick{Memory: NewMemory(0)}, make(chan struct{})}
		b := callers(t, 1, Config{Store: store})[0]
		store.hangs.Store(true)
		b.poke() // something is being told
		synctest.Wait()
		close(store.broken)
		synctest.Wait()
		if s := b.Snapshot(); !s.Alone || !errors.Is(s.Why, errCut) {
			t.Errorf("alone %v, because: %v", s.Alone, s.Why)
		}
	})
}
