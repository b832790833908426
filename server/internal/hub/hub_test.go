package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a publisher whose topics are counters: a frame is kind, base and number.
type world struct {
	*Hub
	mu      sync.Mutex
	numbers map[string]uint64
	ahead   uint64 // how far the next snapshot runs ahead of what was published
	fail    error
	builds  atomic.Int64
}

const (
	whole   = 'w'
	step    = 'd'
	nothing = 'n'
)

func frame(kind byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, number)
}

func open(cfg Config) *world {
	w := &world{numbers: make(map[string]uint64)}
	cfg.Snapshot = func(topic string) (uint64, []byte, error) {
		w.builds.Add(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		n := w.numbers[topic] + w.ahead
		return n, frame(whole, n), w.fail
	}
	cfg.Current = func(_ string, n uint64) ([]byte, error) { return frame(nothing, n), w.fail }
	w.Hub = New(cfg)
	return w
}

func (w *world) change(topic string) {
	w.mu.Lock()
	w.numbers[topic]++
	n := w.numbers[topic]
	w.mu.Unlock()
	w.Publish(topic, n, frame(step, n))
}

func (w *world) watch(t testing.TB) *Watcher {
	t.Helper()
	watcher, err := w.Watch()
	if err != nil {
		t.Fatal(err)
	}
	return watcher
}

// got returns what Next has at once, as text; "" if it would wait.
func got(t testing.TB, w *Watcher) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	frames, err := w.Next(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var out string
	for _, f := range frames {
		out += fmt.Sprintf("%c%d ", f[0], binary.BigEndian.Uint64(f[1:]))
	}
	return out
}

func expect(t testing.TB, w *Watcher, want string) {
	t.Helper()
	if have := got(t, w); have != want {
		t.Fatalf("Next has %q, want %q", have, want)
	}
}

func subscribe(t testing.TB, w *Watcher, topic string, number uint64) {
	t.Helper()
	if err := w.Subscribe(topic, number); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotThenDeltasInOrder(t *testing.T) {
	w := open(Config{})
	w.change("a")
	r := w.watch(t)
	defer r.Close()
	subscribe(t, r, "a", 0)
	expect(t, r, "w1 ")
	expect(t, r, "")
	w.change("a")
	w.change("a")
	expect(t, r, "d2 d3 ")
	expect(t, r, "")
}

func TestEverySubscribeIsAnswered(t *testing.T) {
	w := open(Config{MaxDeltas: 3})
	for range 9 {
		w.change("a")
	}
	for number, want := range map[uint64]string{
		0:  "w9 ",       // has nothing
		9:  "n9 ",       // is current
		8:  "d9 ",       // in the ring
		6:  "d7 d8 d9 ", // its last delta's base
		5:  "w9 ",       // before the ring
		99: "w9 ",       // has never been
	} {
		r := w.watch(t)
		subscribe(t, r, "a", number)
		if have := got(t, r); have != want {
			t.Errorf("subscribing at %d brings %q, want %q", number, have, want)
		}
		expect(t, r, "")
		r.Close()
	}
	r := w.watch(t)
	defer r.Close()
	w.numbers["unheard of"] = 1
	subscribe(t, r, "unheard of", 0)
	expect(t, r, "w1 ")
}

func TestR11ChurnInAnotherTopicWakesNobody(t *testing.T) {
	w := open(Config{})
	r := w.watch(t)
	defer r.Close()
	subscribe(t, r, "a", 0)
	expect(t, r, "w0 ")
	<-r.wake // of Subscribe: what it told of was read without waiting
	for range 1000 {
		w.change("b")
	}
	if len(r.wake) != 0 || r.changed.Load() != nil {
		t.Error("a watcher of a was woken by a change of b")
	}
	expect(t, r, "")
	w.change("a")
	if len(r.wake) != 1 {
		t.Error("a watcher of a wasn't woken by its change")
	}
	expect(t, r, "w1 ")
}

func TestSlowWatcherSkipsToTheSnapshot(t *testing.T) {
	w := open(Config{MaxDeltas: 8})
	slow, quick := w.watch(t), w.watch(t)
	defer slow.Close()
	defer quick.Close()
	subscribe(t, slow, "a", 0)
	subscribe(t, quick, "a", 0)
	expect(t, slow, "w0 ")
	expect(t, quick, "w0 ")
	w.builds.Store(0)
	for i := range 100 {
		w.change("a")
		want := fmt.Sprintf("d%d ", i+1)
		if i == 0 {
			want = "w1 " // 0 is no number to start a delta from
		}
		expect(t, quick, want)
	}
	expect(t, slow, "w100 ")
	expect(t, slow, "")
	if n := w.Stats().Skipped; n != 2 {
		t.Errorf("skipped %d times, want 2", n)
	}
}

func TestSnapshotIsBuiltOnceForAll(t *testing.T) {
	w := open(Config{})
	w.change("a")
	for range 100 {
		r := w.watch(t)
		defer r.Close()
		subscribe(t, r, "a", 0)
		expect(t, r, "w1 ")
	}
	if n := w.builds.Load(); n != 1 {
		t.Errorf("built %d times for 100 watchers, want once", n)
	}
	w.change("a")
	if w.topics["a"].whole.Load() != nil {
		t.Error("a snapshot that nobody can use any more is kept")
	}
}

// A change that comes while a reader builds the snapshot isn't in it: the reader must look again.
func TestAChangeDuringARead(t *testing.T) {
	w := open(Config{})
	w.change("a")
	r := w.watch(t)
	defer r.Close()
	build := w.cfg.Snapshot
	w.cfg.Snapshot = func(topic string) (uint64, []byte, error) {
		number, f, err := build(topic)
		w.change(topic)
		return number, f, err
	}
	subscribe(t, r, "a", 0)
	expect(t, r, "w1 ")
	expect(t, r, "d2 ")
}

func TestANumberLeftOutEmptiesTheRing(t *testing.T) {
	w := open(Config{})
	w.change("a")
	r := w.watch(t)
	defer r.Close()
	subscribe(t, r, "a", 0)
	expect(t, r, "w1 ")
	w.numbers["a"] = 2 // couldn't be encoded
	w.change("a")
	expect(t, r, "w3 ")
	w.Publish("a", 3, frame(step, 3)) // and what isn't newer is no change
	expect(t, r, "")
}

// A snapshot may run ahead of what is published: the change that comes after it is then no news.
func TestSnapshotAheadOfItsDelta(t *testing.T) {
	w := open(Config{})
	w.change("a")
	r := w.watch(t)
	defer r.Close()
	w.ahead = 1
	subscribe(t, r, "a", 0)
	expect(t, r, "w2 ")
	w.change("a")
	expect(t, r, "")
	w.change("a")
	expect(t, r, "d3 ")
}

func TestFailedSnapshotEndsTheStream(t *testing.T) {
	w := open(Config{})
	w.fail = errors.New("no")
	r := w.watch(t)
	defer r.Close()
	subscribe(t, r, "a", 0)
	if _, err := r.Next(context.Background()); !errors.Is(err, w.fail) {
		t.Errorf("Next returns %v, want the snapshot's error", err)
	}
}

func TestR12WatchersAreBoundedClosedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(Config{MaxWatchers: 100, MaxSubscriptions: 3})
		var watchers []*Watcher
		ended := make(chan error)
		for range 100 {
			r := w.watch(t)
			watchers = append(watchers, r)
			for _, topic := range []string{"a", "b", "c"} {
				subscribe(t, r, topic, 0)
			}
			if err := r.Subscribe("d", 0); !errors.Is(err, ErrSubscriptions) {
				t.Fatalf("a fourth topic: %v", err)
			}
			go func() {
				var err error
				for err == nil {
					_, err = r.Next(context.Background())
				}
				ended <- err
			}()
		}
		if _, err := w.Watch(); !errors.Is(err, ErrWatchers) {
			t.Fatalf("watcher 101: %v", err)
		}
		w.change("a")
		synctest.Wait()
		if s := w.Stats(); s.Watchers != 100 || s.Subscriptions != 300 || s.Topics != 3 {
			t.Errorf("open: %+v", s)
		}
		for i, r := range watchers {
			if i%2 == 0 {
				r.Unsubscribe("a")
			}
			r.Close()
			r.Close()
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Fatalf("Next returns %v after Close", err)
			}
			if err := r.Subscribe("a", 0); !errors.Is(err, ErrClosed) {
				t.Fatalf("Subscribe returns %v after Close", err)
			}
		}
		if s := w.Stats(); s.Watchers != 0 || s.Subscriptions != 0 || s.Topics != 1 {
			t.Errorf("closed: %+v; only the published topic stays", s)
		}
		if !w.Forget("a") || w.Stats().Topics != 0 {
			t.Error("an unwatched topic wasn't forgotten")
		}
	})
}

func TestCloseEndsEverybody(t *testing.T) {
	w := open(Config{})
	ended := make(chan error)
	for range 10 {
		r := w.watch(t)
		subscribe(t, r, "a", 0)
		go func() {
			var err error
			for err == nil {
				_, err = r.Next(context.Background())
			}
			ended <- err
		}()
	}
	w.Close()
	for range 10 {
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("Next returns %v", err)
		}
	}
	if _, err := w.Watch(); !errors.Is(err, ErrClosed) {
		t.Errorf("Watch after Close: %v", err)
	}
	w.change("a")
}

// A large change may turn everything before it out of the ring: the array, in which all that still lies, is left too.
func TestWhatLeftTheRingIsLetGoOf(t *testing.T) {
	cfg := Config{MaxDeltas: 100, MaxBytes: 1000}
	var s state
	for n := range uint64(100) {
		s.push(&cfg, delta{n + 1, make([]byte, 10)})
	}
	full := cap(s.ring)
	s.push(&cfg, delta{101, make([]byte, 1000)})
	if len(s.ring) != 1 || s.dead != 0 || full < 100 || cap(s.ring) > 2 {
		t.Errorf("%d deltas are left of 101, with %d dead slots before them and room for %d", len(s.ring), s.dead, cap(s.ring))
	}
}

func TestRingIsBoundedInCountAndBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{MaxDeltas: rapid.IntRange(1, 9).Draw(t, "deltas"), MaxBytes: rapid.IntRange(1, 99).Draw(t, "bytes")}
		s := &state{}
		for n := range rapid.IntRange(1, 99).Draw(t, "changes") {
			next := &state{number: uint64(n) + 1, ring: s.ring, bytes: s.bytes, dead: s.dead}
			next.push(&cfg, delta{next.number, make([]byte, rapid.IntRange(0, 60).Draw(t, "size"))})
			s = next
			sum := 0
			for i, d := range s.ring {
				sum += len(d.frame)
				if d.number != s.number-uint64(len(s.ring)-1-i) {
					t.Fatalf("the ring has a hole: %v", s.ring)
				}
			}
			if len(s.ring) > cfg.MaxDeltas || sum > cfg.MaxBytes && len(s.ring) > 1 || sum != s.bytes {
				t.Fatalf("%d deltas, %d bytes (counted %d) with bounds %d and %d", len(s.ring), sum, s.bytes, cfg.MaxDeltas, cfg.MaxBytes)
			}
			if s.dead > len(s.ring) {
				t.Fatalf("%d dead slots beside %d alive", s.dead, len(s.ring))
			}
		}
	})
}
