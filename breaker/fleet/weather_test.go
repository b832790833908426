package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// weather is a store that callers reach over ways of their own, each of which may be as bad as it likes. It holds every write to
// the arrows of a record.
type weather struct {
	*Memory
	mu    sync.Mutex
	wrong []string
	lost  time.Time // the store lost something then, or an operator overruled it
}

// newWeather is over when what is on its way has arrived.
func newWeather(t *testing.T) *weather {
	t.Cleanup(func() { pass(4 * time.Second) })
	return &weather{Memory: NewMemory(0)}
}

func (w *weather) way(name string) *way { return &way{w: w, name: name} }

// way is one caller's to the store.
type way struct {
	w    *weather
	name string
	is   atomic.Int32
}

const (
	well = iota
	refuses
	loses   // it is done, and the answer is lost
	repeats // the client asks twice, and hears the second answer
	after100
	after240
	after260
	after900
	after4s
	hangs
	mute // the watch is silent
	ways
)

var errLost = errors.New("the answer is lost")

func (w *weather) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *weather) isLost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = time.Now()
}

// over has something done in the store by this way; it arrives whether anybody waits for it or not.
func (s *way) over(ctx context.Context, deed func()) error {
	var d time.Duration
	switch s.is.Load() {
	case refuses:
		return errLost
	case loses:
		deed()
		return errLost
	case repeats:
		deed()
	case after100:
		d = 100 * time.Millisecond
	case after240:
		d = 240 * time.Millisecond
	case after260:
		d = 260 * time.Millisecond
	case after900:
		d = 900 * time.Millisecond
	case after4s:
		d = 4 * time.Second
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	if d == 0 {
		deed()
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass(d / 2)
		deed()
		pass(d / 2)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer is what the store said.
type answer struct {
	sight Sight
	ok    bool
	err   error
}

func (s *way) Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error) {
	var last atomic.Pointer[answer]
	if err := s.over(ctx, func() {
		sight, err := s.w.Memory.Tell(context.WithoutCancel(ctx), key, caller, count, all)
		last.Store(&answer{sight, false, err})
	}); err != nil {
		return Sight{}, err
	}
	a := last.Load()
	return a.sight, a.err
}

func (s *way) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	var last atomic.Pointer[answer]
	if err := s.over(ctx, func() {
		s.w.mu.Lock()
		before, _ := s.w.Memory.Tell(context.Background(), key, "looks", nil, false)
		after, ok, err := s.w.Memory.Swap(context.WithoutCancel(ctx), key, version, record)
		s.w.mu.Unlock()
		last.Store(&answer{after, ok, err})
		if ok && before.Version != 0 {
			s.check(before, after)
		}
	}); err != nil {
		return Sight{}, false, err
	}
	a := last.Load()
	return a.sight, a.ok, a.err
}

// check holds a write to what is there: a permit that is held is its holder's alone, and open lasts.
func (s *way) check(before, after Sight) {
	o, err := Read(before)
	n, wrote := Read(after)
	if err != nil || wrote != nil {
		s.w.say("%s wrote %q over %q", s.name, after.Record, before.Record)
		return
	}
	if n.Generation != o.Generation+1 || n.Epoch != o.Epoch {
		s.w.say("%s: %+v follows %+v", s.name, n, o)
	}
	held := o.State == breaker.HalfOpen && o.Holder != "" && before.Age < o.For
	if held && o.Holder != s.name {
		s.w.say("%s moved what %s holds: %+v to %+v", s.name, o.Holder, o, n)
	}
	if held && n.Holder != "" {
		s.w.say("%s granted a permit beside one that is held: %+v to %+v", s.name, o, n)
	}
	if o.State == breaker.HalfOpen && !held && n.Holder == "" && o.Holder != s.name { // its holder's word is heard while nobody else has been granted it
		s.w.say("%s: a verdict of who doesn't hold it, %v old: %+v to %+v", s.name, before.Age, o, n)
	}
	if o.State == breaker.Open && (n.State != breaker.HalfOpen || before.Age < o.For) {
		s.w.say("%s: open for %v: %+v to %+v", s.name, before.Age, o, n)
	}
	if forced := o.State == breaker.ForcedOpen || o.State == breaker.ForcedClosed; forced {
		s.w.say("%s overruled an operator: %+v to %+v", s.name, o, n)
	}
}

func (s *way) Watch(ctx context.Context, key string) iter.Seq2[Sight, error] {
	return func(yield func(Sight, error) bool) {
		for sight, err := range s.w.Memory.Watch(ctx, key) {
			switch s.is.Load() {
			case mute, hangs:
				<-ctx.Done()
				yield(Sight{}, ctx.Err())
				return
			case refuses:
				yield(Sight{}, errLost)
				return
			}
			if !yield(sight, err) {
				return
			}
		}
	}
}

// failover makes the store what it was at a moment before; the first time it remembers the moment.
func (w *weather) failover(saved *kept) *kept {
	w.Memory.mu.Lock()
	defer w.Memory.mu.Unlock()
	k := w.keys["orders"]
	switch {
	case k == nil || k.version == 0:
		return saved
	case saved == nil:
		now := *k
		return &now
	}
	k.version, k.record, k.written = saved.version, saved.record, saved.written // and no watch is told
	return nil
}
