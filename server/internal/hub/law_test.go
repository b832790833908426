package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// reader applies frames as a client does, and fails on one that doesn't fit.
type reader struct {
	*Watcher
	at map[string]uint64
}

func (r *reader) apply(name string, f []byte) error {
	number := binary.BigEndian.Uint64(f[1:])
	if f[0] == step && number != r.at[name]+1 {
		return fmt.Errorf("%s: a delta to %d for a reader at %d", name, number, r.at[name])
	}
	if number < r.at[name] || f[0] == nothing && number != r.at[name] {
		return fmt.Errorf("%s: %c%d for a reader at %d", name, f[0], number, r.at[name])
	}
	r.at[name] = number
	return nil
}

// Whatever happens in whatever order: each frame fits what the reader has, and a reader that reads
// stands at the newest number of all that it watches.
func TestReadersNeverMissAChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := open(Config{MaxDeltas: rapid.IntRange(1, 4).Draw(t, "deltas")})
		names := []string{"a", "b", "c"}
		for _, name := range names {
			w.change(name)
		}
		var readers []*reader
		for range 3 {
			watcher, err := w.Watch()
			if err != nil {
				t.Fatal(err)
			}
			defer watcher.Close()
			readers = append(readers, &reader{watcher, make(map[string]uint64)})
		}
		pick := func() (*reader, string) {
			return readers[rapid.IntRange(0, 2).Draw(t, "reader")], rapid.SampledFrom(names).Draw(t, "topic")
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) { w.change(rapid.SampledFrom(names).Draw(t, "topic")) },
			"subscribe": func(t *rapid.T) {
				r, name := pick()
				if err := r.Subscribe(name, r.at[name]); err != nil {
					t.Fatal(err)
				}
			},
			"unsubscribe": func(t *rapid.T) {
				r, name := pick()
				r.Unsubscribe(name)
			},
			"read": func(t *rapid.T) {
				r, _ := pick()
				drain(t, w, r)
				for _, name := range r.Topics() {
					if r.at[name] != w.numbers[name] {
						t.Fatalf("%s stands at %d, its reader at %d", name, w.numbers[name], r.at[name])
					}
				}
			},
		})
	})
}

// drain reads all there is. Frames don't name their topic: whichever is watched and fits is theirs,
// by the pointer that the topic's ring or snapshot has.
func drain(t *rapid.T, w *world, r *reader) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		frames, err := r.Next(ctx)
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			if err := r.apply(owner(w, r, f), f); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// owner finds the topic whose newest state holds the frame; a frame that changes nothing is of a topic
// where the reader stands there.
func owner(w *world, r *reader, f []byte) string {
	for name, tp := range w.topics {
		st := tp.state.Load()
		if whole := tp.whole.Load(); whole != nil && &whole.frame[0] == &f[0] {
			return name
		}
		for _, d := range st.ring {
			if &d.frame[0] == &f[0] {
				return name
			}
		}
	}
	for name, s := range r.subs {
		if f[0] == nothing && s.number == binary.BigEndian.Uint64(f[1:]) && r.at[name] == s.number {
			return name
		}
	}
	return ""
}

// Readers, subscribers and a publisher at once, for the race detector and for lost wake-ups: every
// reader reaches the last number, or this test never ends.
func TestNoWakeUpIsLost(t *testing.T) {
	const readers, changes = 20, 2000
	var number atomic.Uint64
	number.Store(1)
	h := New(Config{
		MaxDeltas: 4,
		Snapshot: func(string) (uint64, []byte, error) {
			n := number.Load()
			return n, frame(whole, n), nil
		},
		Current: func(_ string, n uint64) ([]byte, error) { return frame(nothing, n), nil },
	})
	defer h.Close()
	var all sync.WaitGroup
	for i := range readers {
		watcher, err := h.Watch()
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			r := &reader{watcher, make(map[string]uint64)}
			subscribe(t, r.Watcher, "a", 0)
			for r.at["a"] <= changes {
				if i%4 == 0 && r.at["a"]%7 == 0 { // some ask again and again
					subscribe(t, r.Watcher, "a", r.at["a"])
				}
				frames, err := r.Next(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				for _, f := range frames {
					if err := r.apply("a", f); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range changes {
		n := number.Add(1)
		h.Publish("a", n, frame(step, n))
	}
	all.Wait()
}
