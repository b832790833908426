package fleet

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/breaker"
)

// Whatever can be read, what follows from it can be read as well: a number at its end doesn't make a record that nobody can read.
func TestWhatFollowsCanBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom([]uint64{0, 1, 1 << 53, math.MaxInt64, math.MaxUint64 - 1, math.MaxUint64})
		lasting := rapid.SampledFrom([]time.Duration{0, 1, time.Second, longestOpen})
		small := rapid.SampledFrom([]int{0, 1, mostStreak - 1, mostStreak, mostWon, mostWon + 1, math.MaxInt})
		r := Record{
			Epoch: number.Draw(t, "epoch"), Generation: number.Draw(t, "generation"), State: rapid.SampledFrom(states).Draw(t, "state"), For: lasting.Draw(t, "for"),
			Streak: small.Draw(t, "streak"), Length: lasting.Draw(t, "length"), Count: number.Draw(t, "count"), Of: number.Draw(t, "of"),
			Seers: small.Draw(t, "seers"), Won: small.Draw(t, "won"), Abandoned: number.Draw(t, "abandoned"), Rule: rapid.SampledFrom(rules).Draw(t, "rule"),
		}
		if r.State == breaker.HalfOpen && rapid.Bool().Draw(t, "held") {
			r.Holder, r.Token = "a", rapid.Uint64Min(1).Draw(t, "token")
		}
		if _, err := Read(Sight{Version: 1, Record: r.Bytes()}); err != nil {
			return
		}
		set := (&Config{OpenFor: longestOpen, MaxOpen: longestOpen, Lease: longestOpen, Successes: rapid.IntRange(1, 1000).Draw(t, "successes"), Quorum: 1}).settings()
		count := counted{Epoch: r.Epoch, Generation: r.Generation, Calls: mostCalls, Failures: mostCalls}.bytes()
		counts := make([]Count, MostCallers)
		for i := range counts {
			counts[i] = Count{Caller: fmt.Sprint(i), Count: count}
		}
		age := rapid.SampledFrom([]time.Duration{0, longestOpen, math.MaxInt64}).Draw(t, "age")
		granted, _ := r.granted(&set, age, "b", math.MaxUint64)
		judged, _ := r.judged(&set, age, counts)
		settled, _ := granted.settled(&set, 0, granted.fence(), rapid.SampledFrom([]breaker.Outcome{breaker.Success, breaker.Failure, breaker.Neutral}).Draw(t, "outcome"))
		for _, next := range []Record{granted, judged, settled, r.Force(breaker.ForcedOpen), r.At(age)} {
			if again, err := Read(Sight{Version: 1, Record: next.Bytes()}); err != nil || again != next {
				t.Fatalf("of %+v comes %+v, which is read as %+v, %v", r, next, again, err)
			}
		}
	})
}

// odd is a store whose clock is no use for a while.
type odd struct {
	*Memory
	mu  sync.Mutex
	is  bool
	age time.Duration
}

func (s *odd) set(is bool, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is, s.age = is, age
}

func (s *odd) aged(sight Sight) Sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.is {
		return sight
	}
	sight.Age = s.age
	for i := range sight.Counts {
		sight.Counts[i].Age = s.age
	}
	return sight
}

func (s *odd) Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error) {
	sight, err := s.Memory.Tell(ctx, key, caller, count, all)
	return s.aged(sight), err
}

func (s *odd) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	sight, ok, err := s.Memory.Swap(ctx, key, version, record)
	return s.aged(sight), ok, err
}

func (s *odd) Watch(ctx context.Context, key string) iter.Seq2[Sight, error] {
	return func(yield func(Sight, error) bool) {
		for sight, err := range s.Memory.Watch(ctx, key) {
			if !yield(s.aged(sight), err) {
				return
			}
		}
	}
}

// A store whose clock is set says that things are as old as the stars, or not made yet: nothing stays open for it, and nothing overflows.
func TestAgesThatCantBeTrue(t *testing.T) {
	for _, age := range []time.Duration{math.MinInt64, -time.Hour, -1, 0, math.MaxInt64 - 1, math.MaxInt64} {
		t.Run(age.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { aged(t, age) }) })
	}
}

func aged(t *testing.T, age time.Duration) {
	store := &odd{Memory: NewMemory(0)}
	all := callers(t, 3, Config{Store: store})
	trip(t, all)
	for i := range 600 {
		store.set(i < 200, age)
		for _, b := range all {
			_ = b.Do(t.Context(), good)
			_ = b.Snapshot()
		}
		pass(100 * time.Millisecond)
	}
	for i, b := range all {
		if err := b.Do(t.Context(), good); err != nil {
			t.Errorf("caller %d a minute after the target was well: %v, %+v", i, err, b.Snapshot().Record)
		}
	}
}

// A generation at its end begins anew: whoever takes it for a store that has gone back joins again.
func TestTheLastGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory(0)
		if _, ok, err := store.Swap(t.Context(), "orders", 0, Record{Epoch: 1, Generation: math.MaxUint64}.Bytes()); !ok || err != nil {
			t.Fatal(err)
		}
		all := callers(t, 3, Config{Store: store})
		for _, b := range all {
			for range 30 {
				_ = b.Do(t.Context(), bad)
			}
		}
		for range 300 {
			pass(100 * time.Millisecond)
			for _, b := range all {
				_ = b.Do(t.Context(), good)
			}
		}
		for i, b := range all {
			if s := b.Snapshot(); s.Alone || s.State != breaker.Closed {
				t.Errorf("caller %d: %+v", i, s)
			}
		}
	})
}

// seen keeps what callers hand to a store.
type seen struct {
	*Memory
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *seen) keep(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.Write(b)
	s.all.WriteByte('\n')
}

func (s *seen) Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error) {
	s.keep(count)
	return s.Memory.Tell(ctx, key, caller, count, all)
}

func (s *seen) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	s.keep(record)
	return s.Memory.Swap(ctx, key, version, record)
}

// Nothing of a caller's clock goes into the store: two fleets, of which one lives a year later than the other, write the same bytes, but
// for what is drawn.
func TestNoClockIsWritten(t *testing.T) {
	life := func(later time.Duration) (written string) {
		synctest.Test(t, func(t *testing.T) {
			pass(later)
			store := &seen{Memory: NewMemory(0)}
			b := callers(t, 1, Config{Store: store, Quorum: 1, Least: 1, Caller: "one"})[0]
			for _, call := range []func(context.Context) error{bad, good} {
				for range 30 {
					_ = b.Do(t.Context(), bad)
				}
				pass(20 * time.Second)
				_ = b.Do(t.Context(), call)
				pass(11*time.Second + spread)
			}
			_ = b.Do(t.Context(), good)
			pass(20 * time.Second)
			store.mu.Lock()
			defer store.mu.Unlock()
			written = store.all.String()
		})
		return written
	}
	kinds := func(written string) string {
		drawn := map[string]bool{}
		for line := range strings.Lines(written) {
			if r, err := Read(Sight{Version: 1, Record: []byte(line)}); err == nil && strings.Contains(line, `"fleet"`) {
				r.Epoch, r.Token = 1, min(r.Token, 1)
				drawn[string(r.Bytes())] = true
			}
		}
		if len(drawn) < 5 {
			t.Fatalf("only %d records were written: %v", len(drawn), drawn)
		}
		return fmt.Sprint(drawn)
	}
	now, later := kinds(life(0)), kinds(life(365*24*time.Hour+12345*time.Second))
	if now != later {
		t.Errorf("now\n%s\nand a year later\n%s", now, later)
	}
}
