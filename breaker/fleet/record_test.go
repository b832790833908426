package fleet

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/breaker"
)

// world is a record in a store with a clock, and the messages to it that are on their way.
type world struct {
	now, written time.Duration
	r            Record
	late         []func()
	token        uint64
	holds        map[string]belief
}

// belief is what a caller thinks that it holds.
type belief struct {
	fence fence
	until time.Duration // by its own reckoning
}

func (w *world) age() time.Duration { return w.now - w.written }

// swap is the store's: of two that began with the same record the first counts.
func (w *world) swap(from, to Record) bool {
	if w.r.fence() != from.fence() || w.r.State != from.State {
		return false
	}
	w.r, w.written = to, w.now
	return true
}

func (w *world) live() (n int) {
	for _, b := range w.holds {
		if w.now < b.until {
			n++
		}
	}
	return n
}

// Messages are lost, late and repeated; two callers never hold a permit at the same time, a verdict that is refused moves nothing, and
// a fleet that asks again gets on.
func TestNeverTwoPermits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Successes: rapid.IntRange(1, 3).Draw(t, "successes"), Quorum: 1, Least: 1, OpenFor: time.Second, Lease: 5 * time.Second, Ramp: -1}
		set := c.settings()
		w := &world{r: Record{Epoch: 1}, holds: map[string]belief{}}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			caller := fmt.Sprintf("c%d", rapid.IntRange(1, 2).Draw(t, "caller"))
			var message func()
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				w.now += rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 6 * time.Second, time.Minute}).Draw(t, "time")
			case 1:
				seen := w.r
				message = func() {
					count := counted{Epoch: seen.Epoch, Generation: seen.Generation, Calls: 10, Failures: 10}
					if next, ok := w.r.judged(&set, w.age(), []Count{{Caller: caller, Count: count.bytes()}}); ok {
						w.swap(w.r, next)
					}
				}
			case 2:
				message = w.ask(&set, caller)
			case 3, 4:
				if b, ok := w.holds[caller]; ok {
					delete(w.holds, caller) // it is done with its call
					message = w.verdict(t, &set, b, rapid.SampledFrom([]breaker.Outcome{breaker.Success, breaker.Failure, breaker.Neutral}).Draw(t, "outcome"))
				}
			case 5:
				if len(w.late) > 0 {
					i := rapid.IntRange(0, len(w.late)-1).Draw(t, "which")
					w.late[i]()
					if rapid.Bool().Draw(t, "once") {
						w.late = append(w.late[:i], w.late[i+1:]...)
					}
				}
			}
			if message != nil && rapid.Bool().Draw(t, "late") {
				w.late = append(w.late, message) // perhaps for ever
			} else if message != nil {
				message()
			}
			if n := w.live(); n > 1 {
				t.Fatalf("%d callers hold the fleet's one permit: %+v", n, w.r)
			}
		}
		w.getsOn(t, &set)
	})
}

func (w *world) ask(set *settings, caller string) func() {
	w.token++
	asked, token, seen, age := w.now, w.token, w.r, w.age()
	return func() {
		if next, ok := seen.granted(set, age, caller, token); ok && w.swap(seen, next) {
			w.holds[caller] = belief{next.fence(), asked + set.lease}
		}
	}
}

func (w *world) verdict(t *rapid.T, set *settings, b belief, o breaker.Outcome) func() {
	return func() {
		before := w.r
		next, heard := w.r.settled(set, w.age(), b.fence, o)
		if !heard && next != before {
			t.Fatalf("a refused verdict made %+v of %+v", next, before)
		}
		if heard && (before.fence() != b.fence || w.age() >= set.lease) {
			t.Fatalf("the verdict of %+v was heard at %+v, %v old", b.fence, before, w.age())
		}
		if heard {
			w.swap(before, next)
		}
	}
}

// getsOn: whatever was lost, within the longest open time and two leases for each success who asks again closes it.
func (w *world) getsOn(t *rapid.T, set *settings) {
	for limit := w.now + set.maxOpen + 2*set.lease*time.Duration(set.successes); w.now <= limit; w.now += set.lease / 2 {
		if w.r.State == breaker.Closed {
			return
		}
		w.token++
		if next, ok := w.r.granted(set, w.age(), "last", w.token); ok && w.swap(w.r, next) {
			next, _ = w.r.settled(set, w.age(), w.r.fence(), breaker.Success)
			w.swap(w.r, next)
		}
	}
	t.Fatalf("it never closes: %+v, %v old", w.r, w.age())
}

func TestQuorum(t *testing.T) {
	set := (&Config{}).settings()
	told := func(kind string, n int, c counted, from string) (all []Count) {
		for i := range n {
			c.Epoch, c.Generation = 1, 7
			all = append(all, Count{Caller: fmt.Sprint(kind, i), From: from, Count: c.bytes()})
		}
		return all
	}
	well, ill := counted{Calls: 20}, counted{Calls: 20, Failures: 20}
	old := told("old", 5, ill, "")
	for i := range old {
		old[i].Age = 10 * time.Second
	}
	before := told("before", 5, ill, "")
	for i := range before {
		before[i].Count = counted{Epoch: 1, Generation: 6, Calls: 20, Failures: 20}.bytes()
	}
	other := told("other", 5, ill, "")
	for i := range other {
		other[i].Count = counted{Epoch: 2, Generation: 7, Calls: 20, Failures: 20}.bytes()
	}
	for _, c := range []struct {
		name  string
		all   [][]Count
		want  breaker.State
		seers int
	}{
		{"one that is sick itself", [][]Count{told("ill", 1, ill, "")}, breaker.Closed, 0},
		{"two", [][]Count{told("ill", 2, ill, "")}, breaker.Closed, 0},
		{"three, and nobody says otherwise", [][]Count{told("ill", 3, ill, "")}, breaker.Open, 3},
		{"three of ten", [][]Count{told("well", 7, well, ""), told("ill", 3, ill, "")}, breaker.Closed, 0},
		{"half", [][]Count{told("well", 5, well, ""), told("ill", 5, ill, "")}, breaker.Open, 5},
		{"half, slow", [][]Count{told("well", 5, well, ""), told("ill", 5, counted{Calls: 20, Bad: 20}, "")}, breaker.Open, 5},
		{"three from one place", [][]Count{told("ill", 3, ill, "10.0.0.7")}, breaker.Closed, 0},
		{"three from three places", [][]Count{told("a", 1, ill, "a"), told("b", 1, ill, "b"), told("c", 1, ill, "c")}, breaker.Open, 3},
		{"too few calls", [][]Count{told("ill", 3, counted{Calls: 6, Failures: 6}, "")}, breaker.Closed, 0},
		{"too few calls, but their own breakers are open", [][]Count{told("ill", 3, counted{Calls: 1, Failures: 1, Open: true}, "")}, breaker.Open, 3},
		{"told too long ago", [][]Count{old}, breaker.Closed, 0},
		{"of a generation before", [][]Count{before}, breaker.Closed, 0},
		{"of another epoch", [][]Count{other}, breaker.Closed, 0},
		{"garbage beside three", [][]Count{{{Caller: "x", Count: []byte("\xff")}, {Caller: "y", Count: []byte(`{"e":1,"g":7,"calls":1,"failures":9}`)}}, told("ill", 3, ill, "")}, breaker.Open, 3},
	} {
		var counts []Count
		for _, some := range c.all {
			counts = append(counts, some...)
		}
		r, opens := Record{Epoch: 1, Generation: 7}.judged(&set, time.Minute, counts)
		if r.State != c.want || r.Seers != c.seers || opens != (c.want == breaker.Open) {
			t.Errorf("%s: it is %+v", c.name, r)
		}
	}
}

// How long it is open doubles while it is of no use, and begins anew once it has held.
func TestOpenTimes(t *testing.T) {
	set := (&Config{OpenFor: time.Second, MaxOpen: 7 * time.Second}).settings()
	ill := func(r Record) (all []Count) {
		for i := range 3 {
			all = append(all, Count{Caller: fmt.Sprint(i), Count: counted{Epoch: r.Epoch, Generation: r.Generation, Calls: 10, Failures: 10}.bytes()})
		}
		return all
	}
	r, _ := Record{Epoch: 1}.judged(&set, time.Hour, ill(Record{Epoch: 1}))
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 7 * time.Second, 7 * time.Second} {
		if r.State != breaker.Open || r.For != want {
			t.Fatalf("the %d. time it is %v for %v, want %v", i+1, r.State, r.For, want)
		}
		if _, ok := r.granted(&set, r.For-1, "a", 1); ok {
			t.Fatal("a permit before its time")
		}
		r, _ = r.granted(&set, r.For, "a", 1)
		r, _ = r.settled(&set, 0, r.fence(), breaker.Failure)
	}
	r, _ = r.granted(&set, r.For, "a", 1)
	r, _ = r.settled(&set, 0, r.fence(), breaker.Success)
	if r.State != breaker.Ramping || r.At(r.For).State != breaker.Closed {
		t.Fatalf("after a success it is %+v", r)
	}
	if again, _ := r.judged(&set, 6*time.Second, ill(r)); again.For != 7*time.Second {
		t.Errorf("it relapses, and is open for %v", again.For)
	}
	if held, _ := r.judged(&set, 7*time.Second, ill(r)); held.For != time.Second {
		t.Errorf("it has held, and is open for %v", held.For)
	}
}

// A verdict is heard of who holds the permit, while its lease lasts, and of nobody else.
func TestWhoseVerdictIsHeard(t *testing.T) {
	set := (&Config{}).settings()
	held := Record{Epoch: 1, Generation: 7, State: breaker.HalfOpen, For: 10 * time.Second, Holder: "a", Token: 9}
	free, open := held.next(breaker.HalfOpen, 0), held.next(breaker.Open, time.Second)
	for _, c := range []struct {
		name string
		r    Record
		age  time.Duration
		f    fence
		want bool
	}{
		{"its holder's", held, 10*time.Second - 1, fence{1, 7, 9}, true},
		{"its holder's, late", held, 10 * time.Second, fence{1, 7, 9}, false},
		{"with another token", held, 0, fence{1, 7, 8}, false},
		{"of a generation before", held, 0, fence{1, 6, 9}, false},
		{"of another epoch", held, 0, fence{2, 7, 9}, false},
		{"while nobody holds it", free, 0, free.fence(), false},
		{"while it is open", open, 0, open.fence(), false},
	} {
		for _, o := range []breaker.Outcome{breaker.Success, breaker.Failure, breaker.Neutral} {
			if next, heard := c.r.settled(&set, c.age, c.f, o); heard != c.want || !heard && next != c.r {
				t.Errorf("%s, %v: heard %v, and it is %+v", c.name, o, heard, next)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Record{Epoch: 1}.Bytes())
	f.Add(Record{Epoch: 1, Generation: 3, State: breaker.HalfOpen, For: time.Second, Holder: "a", Token: 9}.Bytes())
	f.Add([]byte(`{"fleet":1,"epoch":1,"state":"open","for_ms":1e300}`))
	set := (&Config{}).settings()
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Read(Sight{Version: 1, Record: b})
		if err != nil {
			return
		}
		if again, err := Read(Sight{Version: 1, Record: r.Bytes()}); err != nil || again != r {
			t.Fatalf("%+v is read as %+v, %v", r, again, err)
		}
		if due := r.due(0); r.State == breaker.Open && due > Keep {
			t.Fatalf("it is open for %v", due)
		}
		r.granted(&set, 0, "a", 1)
		r.judged(&set, 0, []Count{{Caller: "a", Count: b}})
		r.settled(&set, 0, r.fence(), breaker.Failure)
	})
}
