package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
)

func (w *world) hold(k string, h eider.Hold) eider.Hold {
	w.t.Helper()
	h, fx, err := w.tb.Hold(w.now, key(k), h)
	w.saw(fx)
	if err != nil {
		w.t.Fatalf("hold %s: %v", k, err)
	}
	return h
}

func (w *world) release(k string) {
	w.t.Helper()
	fx, err := w.tb.Release(w.now, key(k), "ops")
	w.saw(fx)
	if err != nil {
		w.t.Fatalf("release %s: %v", k, err)
	}
}

// heldBy returns the count of the hold that a view shows of an instance, 0 if it isn't held or listed.
func (w *world) heldBy(k string) uint64 {
	if in, ok := w.tb.Instance(key(k)); ok && in.Hold != nil {
		return in.Hold.Count
	}
	return 0
}

// holdDrain returns the drain of an instance's holding.
func (w *world) holdDrain(k string, hold uint64) eider.Drain {
	w.t.Helper()
	dep := w.departure(k)
	dep.Hold = hold
	d, ok := w.tb.Drain(dep)
	if !ok {
		w.t.Fatalf("no drain of hold %d of %s", hold, k)
	}
	return d
}

func (w *world) letGoOfHold(name, k string, hold uint64) {
	dep := w.departure(k)
	dep.Hold = hold
	w.saw(w.tb.Ack(w.now, w.actor(name).follower, dep.Service, 1, []eider.Departure{dep}, nil))
}

// TestR7AHoldOutlivesEverything but its release: re-registration, silence, evidence, a leave, a new incarnation, the
// tombstone, and the restart of the node.
func TestR7AHoldOutlivesEverything(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	h := w.hold("orders/1", eider.Hold{Reason: "disk swap", By: "ops"})
	held := func(what string) {
		t.Helper()
		if got := w.heldBy("orders/1"); got != h.Count {
			t.Errorf("%s: held by %d, want %d", what, got, h.Count)
		}
	}
	held("at once")
	w.detach("p", Moving)
	w.attach("p")
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	held("attached again")
	w.advance(time.Second) // it is dialled once
	w.kill("p")
	w.advance(2 * time.Second)
	w.want("orders/1", eider.Dead, 0)
	w.ports["10.0.0.1:80"] = Accepted
	w.attach("p")
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	held("revived")
	w.leave("p", "orders/1")
	w.left("p", "orders/1")
	w.mustRegister("q", "orders/1", "10.0.0.2:80")
	held("another incarnation")
	w.leave("q", "orders/1")
	w.left("q", "orders/1")
	w.advance(25 * time.Hour)
	if w.tb.Counts().Tombstones != 0 {
		t.Fatal("the tombstone is still there")
	}
	w.mustRegister("r", "orders/1", "10.0.0.3:80")
	held("beyond the tombstone")
	marks := w.tb.Marks()
	again := newWorld(t, Config{Node: "a", Run: 1 << 60})
	again.saw(again.tb.Restore(again.now, Memory{Marks: marks, Written: again.now.Add(-48 * time.Hour)}))
	again.mustRegister("r", "orders/1", "10.0.0.3:80")
	w = again
	held("after a restart")
	w.release("orders/1")
	if got := w.heldBy("orders/1"); got != 0 || len(w.tb.Holds()) != 0 {
		t.Errorf("released, and held by %d: %v", got, w.tb.Holds())
	}
}

// TestAHoldLeavesTheInstanceAsItIs: UP, expected to beat, its lease its own.
func TestAHoldLeavesTheInstanceAsItIs(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	before := w.tb.node.expected
	rec := w.tb.find(key("orders/1")).rec
	w.hold("orders/1", eider.Hold{})
	if !w.last.Flush || !slices.Contains(w.last.Changed, key("orders/1")) {
		t.Errorf("it isn't published at once: %+v", w.last)
	}
	if in, _ := w.tb.Instance(key("orders/1")); !in.Record.Equal(&rec) || w.tb.node.expected != before {
		t.Errorf("its record is %v, was %v", in.Record, rec)
	}
	w.follow("c", "orders")
	w.hold("orders/1", eider.Hold{})
	if s := w.tb.Summary("orders"); s.Up != 1 || s.Held != 1 || w.tb.Running() != (Running{Holding: 1}) || w.tb.Counts().Draining != 0 || w.tb.Counts().Holds != 1 {
		t.Errorf("%+v", s)
	}
	w.processes["p"].beats = false
	w.advance(30 * time.Second)
	w.want("orders/1", eider.Lapsed, 0)
	if s := w.tb.Summary("orders"); s.Held != 0 {
		t.Errorf("gone, it counts as held: %+v", s)
	}
}

// TestAHoldsBarrier is reached by its own count alone, and a leave asks again.
func TestAHoldsBarrier(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	w.follow("c", "orders")
	w.letGo("c", "orders/1") // crossing: said before, of a leave that never was
	h := w.hold("orders/1", eider.Hold{})
	if d := w.holdDrain("orders/1", h.Count); d.Kind != eider.HoldDrain || d.Reached || d.Open != 1 || d.Status != eider.Up || d.Over {
		t.Fatalf("%+v", d)
	}
	w.letGoOfHold("c", "orders/1", h.Count+1)
	if d := w.holdDrain("orders/1", h.Count); d.Reached {
		t.Fatal("another hold's let-go counts for it")
	}
	w.letGoOfHold("c", "orders/1", h.Count)
	if d := w.holdDrain("orders/1", h.Count); !d.Reached || d.Over {
		t.Fatalf("%+v", d)
	}
	w.leave("p", "orders/1")
	if d := w.drain("orders/1"); d.Kind != eider.LeaveDrain || d.Reached || d.Open != 1 {
		t.Errorf("letting go for the hold counts for the leave: %+v", d)
	}
	if d := w.holdDrain("orders/1", h.Count); !d.Over {
		t.Errorf("it leaves, and the drain of its hold runs: %+v", d)
	}
	w.letGo("c", "orders/1")
	w.left("p", "orders/1")
	if n := w.tb.Counts().Draining + len(w.tb.drains); n != 0 {
		t.Errorf("%d drains run", n)
	}
}

// TestAReleaseAndAnotherHold: a count is never given twice, so what was said of the first hold says nothing of the
// second; nor what was said in another run of the node.
func TestAReleaseAndAnotherHold(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	w.follow("c", "orders")
	first := w.hold("orders/1", eider.Hold{})
	w.letGoOfHold("c", "orders/1", first.Count)
	w.release("orders/1")
	if d := w.holdDrain("orders/1", first.Count); !d.Over || d.Status != eider.Up {
		t.Errorf("released: %+v", d)
	}
	second := w.hold("orders/1", eider.Hold{})
	if d := w.holdDrain("orders/1", second.Count); second.Count <= first.Count || d.Reached {
		t.Errorf("hold %d after hold %d: %+v", second.Count, first.Count, d)
	}
	third := w.hold("orders/1", eider.Hold{Reason: "still"})
	if third.Count <= second.Count || !w.holdDrain("orders/1", second.Count).Over {
		t.Errorf("held anew by %d after %d", third.Count, second.Count)
	}
	other := newWorld(t, Config{Node: "a", Run: 0xabcdef1234567890})
	other.mustRegister("p", "orders/1", "10.0.0.1:80")
	if h := other.hold("orders/1", eider.Hold{}); h.Count == first.Count {
		t.Errorf("two runs have both given hold %d", h.Count)
	}
}

// TestAHoldEndsByItself, at its time, and says so; and is warned about when its instance is gone for days.
func TestAHoldEndsByItself(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	w.mustRegister("q", "orders/2", "10.0.0.2:80")
	w.hold("orders/1", eider.Hold{Until: w.now.Add(2 * time.Hour)})
	w.hold("orders/2", eider.Hold{Reason: "disk swap"})
	w.advance(2*time.Hour - time.Second)
	if w.heldBy("orders/1") == 0 {
		t.Error("it has ended too early")
	}
	w.advance(2 * time.Second)
	if w.heldBy("orders/1") != 0 || w.count(eider.EventHoldEnded) != 1 {
		t.Error("it hasn't ended")
	}
	w.advance(72 * time.Hour)
	if n := w.count(eider.EventHeldGone); n != 0 {
		t.Errorf("%d warnings while it is listed", n)
	}
	w.leave("q", "orders/2")
	w.left("q", "orders/2")
	w.advance(47 * time.Hour)
	if n := w.count(eider.EventHeldGone); n != 0 {
		t.Errorf("%d warnings after 47 hours", n)
	}
	w.advance(50 * time.Hour)
	if n := w.count(eider.EventHeldGone); n != 3 {
		t.Errorf("%d warnings within 97 hours, want 3: after two days, once a day", n)
	}
	if e := w.events[len(w.events)-1]; !strings.Contains(e.Detail, "disk swap") || !strings.Contains(e.Detail, "for 96h") {
		t.Errorf("the warning is %q", e.Detail)
	}
	if _, _, err := w.tb.Hold(w.now, key("orders/3"), eider.Hold{}); eider.KindOf(err) != eider.NotFound {
		t.Errorf("to hold who never was: %v", err)
	}
}

// slept is what a process reads of the clocks after its machine has slept, for whole seconds: the wall's has gone on, the
// monotonic one hasn't. No other function makes such a time, so it is written as package time lays it out.
func slept(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	woken := at
	*(*uint64)(unsafe.Pointer(&woken)) += uint64(d/time.Second) << 30
	if woken.Sub(at) != 0 || woken.Round(0).Sub(at.Round(0)) != d {
		t.Fatalf("a time is laid out otherwise: %s is %s later", woken, woken.Sub(at))
	}
	return woken
}

// TestAHoldsEndIsOfTheWallsClock: for as long as the node didn't run, its machine slept, or the clock is set, a hold ends
// when its time has come, not that much later; and neither the table's clock nor anybody's lease takes note.
func TestAHoldsEndIsOfTheWallsClock(t *testing.T) {
	for _, c := range []struct {
		what   string
		passes func(at time.Time, d time.Duration) time.Time
		paused int
	}{
		{"the process was stopped", func(at time.Time, d time.Duration) time.Time { return at.Add(d) }, 1},
		{"the machine slept", func(at time.Time, d time.Duration) time.Time { return slept(t, at, d) }, 0},
	} {
		w := fresh(t)
		w.now = time.Now()
		w.tb = New(Config{Node: "a", Fresh: true}, w.now)
		w.mustRegister("p", "orders/1", "10.0.0.1:80")
		w.mustRegister("q", "orders/2", "10.0.0.2:80")
		w.hold("orders/1", eider.Hold{Until: w.now.Add(2 * time.Hour)})
		w.hold("orders/2", eider.Hold{Until: w.now.Add(4 * time.Hour)})
		clock := w.tb.clock
		w.now = c.passes(w.now, 3*time.Hour)
		w.saw(w.tb.Look(w.now.Add(time.Millisecond)))
		if w.heldBy("orders/1") != 0 || w.count(eider.EventHoldEnded) != 1 {
			t.Errorf("%s: the hold overstays its end", c.what)
		}
		if e := w.events[len(w.events)-1]; e.Kind != eider.EventHoldEnded || !strings.Contains(e.Detail, "held for 3h0m0s") {
			t.Errorf("%s: %s", c.what, e)
		}
		if w.heldBy("orders/2") == 0 {
			t.Errorf("%s: a hold has ended early", c.what)
		}
		if got := w.count(eider.EventPaused); got != c.paused || w.tb.clock-clock > time.Second {
			t.Errorf("%s: %d pauses, and the table's clock is %s later", c.what, got, w.tb.clock-clock)
		}
		if next := w.tb.Next().Sub(w.tb.last); next > time.Second {
			t.Errorf("%s: it looks again in %s", c.what, next)
		}
	}
}

// TestAHoldOfAClockThatIsSetBack ends when that clock says so, as everybody is told; and is woken for at that time.
func TestAHoldOfAClockThatIsSetBack(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	until := w.now.Add(10 * time.Minute)
	w.hold("orders/1", eider.Hold{Until: until})
	w.now = w.now.Add(-5 * time.Minute)
	w.processes["p"].beaten = w.now
	w.advance(15*time.Minute - 100*time.Millisecond)
	if w.heldBy("orders/1") == 0 {
		t.Error("it has ended before the time that everybody was told")
	}
	w.saw(w.tb.Look(w.now))
	if next := w.tb.Next(); next.After(until) {
		t.Errorf("it looks again at %s, and the hold ends at %s", next, until)
	}
	w.advance(100 * time.Millisecond)
	if w.heldBy("orders/1") != 0 {
		t.Error("it overstays its end")
	}
}

// TestHoldsAreBounded, and so are releases.
func TestHoldsAreBounded(t *testing.T) {
	w := newWorld(t, Config{Node: "a", Fresh: true, MaxHolds: 2})
	for _, id := range []string{"1", "2", "3"} {
		w.mustRegister("p", "orders/"+id, "10.0.0.1:8"+id)
	}
	w.hold("orders/1", eider.Hold{})
	w.hold("orders/2", eider.Hold{})
	if _, _, err := w.tb.Hold(w.now, key("orders/3"), eider.Hold{}); eider.KindOf(err) != eider.Limited {
		t.Errorf("a third hold of two: %v", err)
	}
	w.hold("orders/2", eider.Hold{Reason: "anew"})
	for _, id := range []string{"1", "2", "3"} {
		if id == "3" {
			w.hold("orders/3", eider.Hold{})
		}
		w.release("orders/" + id)
	}
	if n := len(w.tb.Marks()); n != 2 {
		t.Errorf("%d releases are kept in mind, want 2", n)
	}
	w.advance(25 * time.Hour)
	if n := len(w.tb.Marks()); n != 0 {
		t.Errorf("%d releases are kept in mind for ever", n)
	}
}

// TestMarksOfOneCount: two nodes may give the same count at once. All keep the same mark, in whatever order they hear of
// them: of a hold and a release the hold, since nobody has let go of that yet; of two holds the later one.
func TestMarksOfOneCount(t *testing.T) {
	at := time.Unix(2000, 0)
	release := Mark{Key: key("orders/1"), Count: 7}
	held := func(h eider.Hold) Mark {
		h.Count = 7
		return Mark{Key: key("orders/1"), Count: 7, Hold: &h}
	}
	for _, c := range []struct {
		what          string
		stays, yields Mark
	}{
		{"a hold before a release", held(eider.Hold{}), release},
		{"who ends later", held(eider.Hold{Until: at.Add(time.Hour)}), held(eider.Hold{Until: at, Since: at, By: "z"})},
		{"who began later", held(eider.Hold{Since: at, By: "a"}), held(eider.Hold{By: "z"})},
		{"by name", held(eider.Hold{By: "z", Reason: "a"}), held(eider.Hold{By: "a", Reason: "z"})},
		{"by reason", held(eider.Hold{Reason: "z"}), held(eider.Hold{Reason: "a"})},
		{"the higher count", Mark{Key: key("orders/1"), Count: 8}, held(eider.Hold{})},
	} {
		for _, order := range [][]Mark{{c.stays, c.yields}, {c.yields, c.stays}, {c.stays, c.yields, c.stays, c.yields}} {
			w := fresh(t)
			for _, m := range order {
				w.saw(w.tb.ApplyHold(w.now, m))
			}
			got := w.tb.Marks()
			got[0].Gone = time.Time{}
			if diff := cmp.Diff([]Mark{c.stays}, got); diff != "" {
				t.Errorf("%s, of %d marks: %s", c.what, len(order), diff)
			}
		}
	}
}

// TestMarksMerge: in whatever order holds and releases come, and however often, all nodes agree.
func TestMarksMerge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) Mark {
			m := Mark{Key: key("orders/" + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "id")), Count: rapid.Uint64Range(1, 4).Draw(t, "count")}
			if rapid.Bool().Draw(t, "held") {
				m.Hold = &eider.Hold{Count: m.Count, Reason: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "reason"),
					By: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "by")}
			}
			return m
		})
		marks := rapid.SliceOfN(draw, 0, 8).Draw(rt, "marks")
		others := rapid.Permutation(marks).Draw(rt, "in another order")
		a, b := fresh(t), fresh(t)
		b.mustRegister("p", "orders/1", "10.0.0.1:80") // whether it is listed changes nothing
		for _, m := range marks {
			a.saw(a.tb.ApplyHold(a.now, m))
		}
		for _, m := range slices.Concat(others, others[:len(others)/2]) {
			b.saw(b.tb.ApplyHold(b.now, m))
		}
		gone := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Gone" }, cmp.Ignore())
		if diff := cmp.Diff(a.tb.Marks(), b.tb.Marks(), gone); diff != "" {
			rt.Fatal(diff)
		}
		if held := b.heldBy("orders/1"); len(marks) > 0 {
			for _, m := range b.tb.Marks() {
				if m.Key.ID == "1" && (m.Hold != nil) != (held == m.Count && held > 0) {
					rt.Fatalf("the view shows hold %d, the mark is %+v", held, m)
				}
			}
		}
	})
}
