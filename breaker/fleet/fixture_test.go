package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
)

var errDown = errors.New("it is down")

func good(context.Context) error { return nil }
func bad(context.Context) error  { return errDown }

// sick is a store that does what it is told to.
type sick struct {
	*Memory
	fails, hangs, deaf atomic.Bool // deaf: it does what it is asked, and the answer is lost
	asked              atomic.Int64
}

func (s *sick) ill(ctx context.Context) error {
	s.asked.Add(1)
	if s.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.fails.Load() {
		return errors.New("the store is away")
	}
	return nil
}

func (s *sick) Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error) {
	if err := s.ill(ctx); err != nil {
		return Sight{}, err
	}
	return s.Memory.Tell(ctx, key, caller, count, all)
}

func (s *sick) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	if err := s.ill(ctx); err != nil {
		return Sight{}, false, err
	}
	sight, ok, err := s.Memory.Swap(ctx, key, version, record)
	if s.deaf.Load() {
		return Sight{}, false, errors.New("the answer is lost")
	}
	return sight, ok, err
}

func (s *sick) Watch(ctx context.Context, key string) iter.Seq2[Sight, error] {
	return func(yield func(Sight, error) bool) {
		for sight, err := range s.Memory.Watch(ctx, key) {
			if s.hangs.Load() {
				<-ctx.Done()
				yield(Sight{}, ctx.Err())
				return
			}
			if s.fails.Load() {
				yield(Sight{}, errors.New("the store is away"))
				return
			}
			if !yield(sight, err) {
				return
			}
		}
	}
}

// fleet makes so many callers of a store, which are closed with the test, and makes each join.
func callers(t *testing.T, n int, c Config) []*Breaker {
	t.Helper()
	var all []*Breaker
	for i := range n {
		c.Key, c.Caller = "orders", fmt.Sprint("caller-", i)
		b, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		all = append(all, b)
		_ = b.Do(t.Context(), good)
	}
	pass(time.Second)
	for i, b := range all {
		if s := b.Snapshot(); s.Alone {
			t.Fatalf("caller %d hasn't joined: %v", i, s.Why)
		}
	}
	return all
}

// trip has all callers see that the target is down, and waits until each knows that the fleet's breaker is open.
func trip(t *testing.T, all []*Breaker) {
	t.Helper()
	for _, b := range all {
		for range 30 {
			_ = b.Do(t.Context(), bad)
		}
	}
	pass(time.Second) // a store may take its time
	for i, b := range all {
		if s := b.Snapshot(); s.State != breaker.Open || s.Seers < 3 {
			t.Fatalf("caller %d isn't open: %+v", i, s)
		}
	}
}

// pass waits, in a bubble.
func pass(d time.Duration) { <-time.After(d) }
