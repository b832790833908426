package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

func TestR1LeaseLapsesOnce(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	w.advance(10 * time.Second)
	w.actor("p").beats = false
	w.advance(20*time.Second - time.Millisecond)
	w.want("orders/1", eider.Up, eider.BeatsMissed)
	w.advance(time.Millisecond) // the lease after the last beat: once, not twice
	w.want("orders/1", eider.Lapsed, 0)
	if n := w.count(eider.EventLapsed); n != 1 {
		t.Errorf("it lapsed %d times", n)
	}
}

func TestR1OwnLease(t *testing.T) {
	w := fresh(t)
	a := w.attach("p")
	a.beats = false
	rec := eider.Record{Key: key("orders/1"), Incarnation: eider.Incarnation{Nonce: 1}, Attachment: 1, Status: eider.Up, Address: "10.0.0.1:81"}
	for asked, want := range map[time.Duration]time.Duration{0: 20 * time.Second, time.Second: 4500 * time.Millisecond, 30 * time.Second: 30 * time.Second, 48 * time.Hour: time.Hour} {
		grant, _, err := w.tb.Register(w.now, a.session, rec, asked, Proof{})
		if err != nil || grant.Lease != want {
			t.Errorf("asked for %s: %s, %v; want %s", asked, grant.Lease, err, want)
		}
		rec.Incarnation, rec.Attachment = grant.Record.Incarnation, rec.Attachment+1
	}
}

func TestR2PlannedLeavesLowerTheExpectationAtOnce(t *testing.T) {
	w := fresh(t)
	w.fleet(20)
	w.advance(5 * time.Second)
	for i := range 18 { // scaled in
		w.leave(fmt.Sprint("p", i), fmt.Sprint("orders/", i))
	}
	if g := w.tb.groups[groupKey{"orders", ""}]; g.expected != 2 || w.tb.node.expected != 2 {
		t.Fatalf("expected %d in the group, %d in the node, want 2 and 2", g.expected, w.tb.node.expected)
	}
	for i := range 18 {
		w.left(fmt.Sprint("p", i), fmt.Sprint("orders/", i))
	}
	w.actor("p19").beats = false
	w.advance(21 * time.Second)
	w.want("orders/18", eider.Up, 0)
	w.want("orders/19", eider.Lapsed, 0)
	if n := w.count(eider.EventPreserving); n != 0 || w.tb.Void() != nil {
		t.Errorf("preserving after leaves alone: %d times, %q", n, w.tb.Void())
	}
}

func TestR2PreservationEndsByItself(t *testing.T) {
	w := fresh(t)
	w.fleet(10)
	w.advance(2 * time.Second)
	w.silence(5)
	w.advance(200 * time.Second)
	if now, _ := w.tb.Timing("orders"); len(now.Void) != 2 {
		t.Errorf("the window of who is preserved is void for %q, want its node's and its group's reasons", now.Void)
	}
	if got := w.count(eider.EventLapsed); got != 0 || w.count(eider.EventPreserving) != 2 || len(w.tb.Void()) != 2 {
		t.Fatalf("within ten leases: %d lapsed, %d scopes preserving, void: %q", got, w.count(eider.EventPreserving), w.tb.Void())
	}
	w.advance(10 * time.Second) // ten leases after the fifth second
	for n := 1; n <= 4; n++ {
		if got := w.count(eider.EventLapsed); got != n {
			t.Fatalf("%d leases after the tenth %d have lapsed, want one a lease", n-1, got)
		}
		w.advance(20 * time.Second)
	}
	w.advance(40 * time.Second)
	if now, _ := w.tb.Timing("orders"); len(now.Void) != 0 {
		t.Errorf("in the end a lease ends somebody again, and it is void: %q", now.Void)
	}
	if w.count(eider.EventLapsed) != 5 || w.tb.Void() != nil || w.tb.Counts().Suspects != 0 {
		t.Errorf("in the end %d have lapsed, void: %q", w.count(eider.EventLapsed), w.tb.Void())
	}
}

func TestR2PreservationEndsBackInside(t *testing.T) {
	w := fresh(t)
	w.fleet(10)
	w.advance(2 * time.Second)
	w.silence(5)
	w.advance(30 * time.Second)
	for i := 1; i < 5; i++ {
		w.actor(fmt.Sprint("p", i)).beats = true
	}
	w.advance(2 * time.Second)
	w.want("orders/0", eider.Lapsed, 0) // it alone is still silent, which is inside
	w.want("orders/1", eider.Up, 0)
	if w.tb.Void() != nil {
		t.Errorf("void: %q", w.tb.Void())
	}
}

// Groups of one to six: one silent instance lapses in each, two or more are kept, and in the end all go.
func TestR3SmallGroups(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for silent := 1; silent <= n; silent++ {
			t.Run(fmt.Sprintf("%d of %d", silent, n), func(t *testing.T) {
				w := fresh(t)
				w.fleet(n)
				w.advance(2 * time.Second)
				w.silence(silent)
				w.advance(60 * time.Second)
				want := 0
				if silent == 1 {
					want = 1
				}
				if got := w.count(eider.EventLapsed); got != want {
					t.Errorf("after three leases %d have lapsed, want %d", got, want)
				}
				w.advance(20 * 20 * time.Second)
				if got := w.count(eider.EventLapsed); got != silent {
					t.Errorf("in the end %d have lapsed, want all %d", got, silent)
				}
				if w.tb.Void() != nil {
					t.Errorf("still void: %q", w.tb.Void())
				}
			})
		}
	}
}

// A switch: two of three in each of many groups of their own are too many of the node's.
func TestR3NodeWide(t *testing.T) {
	w := fresh(t)
	for i := range 20 {
		w.mustRegister(fmt.Sprint("p", i), fmt.Sprintf("s%d/1", i), fmt.Sprint("10.0.0.1:", 100+i))
	}
	w.advance(2 * time.Second)
	for i := range 4 { // each alone in its group, and together 20 percent
		w.actor(fmt.Sprint("p", i)).beats = false
	}
	w.advance(60 * time.Second)
	if got := w.count(eider.EventLapsed); got != 0 {
		t.Errorf("%d have lapsed", got)
	}
	w.actor("p0").beats = true
	w.advance(2 * time.Second)
	if got := w.count(eider.EventLapsed); got != 3 {
		t.Errorf("back inside, %d have lapsed, want 3", got)
	}
}

// A loss in slices, each small enough, within one lease is one loss.
func TestR3LossInSlices(t *testing.T) {
	w := fresh(t)
	w.fleet(20)
	w.advance(2 * time.Second)
	for i := range 10 {
		w.actor(fmt.Sprint("p", i)).beats = false
		w.advance(6 * time.Second)
		if g := w.tb.groups[groupKey{"orders", ""}]; g.recent > g.tolerance() {
			t.Fatalf("%d have lapsed within a lease, %d may", g.recent, g.tolerance())
		}
	}
}

func TestR4OneNodeAlone(t *testing.T) {
	w := newWorld(t, Config{}) // nobody else, nothing set
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	w.actor("p").beats = false
	w.advance(21 * time.Second)
	w.want("orders/1", eider.Lapsed, 0)
}

func TestR5HeartbeatsNeverCreate(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	s := w.actor("p").session
	w.advance(10 * time.Second)
	before, _ := w.tb.Instance(key("orders/1"))
	w.saw(w.tb.Beat(w.now, s))
	if after, _ := w.tb.Instance(key("orders/1")); !after.Equal(&before) {
		t.Errorf("a beat changed the record: %+v, was %+v", after, before)
	}
	w.leave("p", "orders/1")
	w.left("p", "orders/1")
	w.saw(w.tb.Beat(w.now, s))
	w.want("orders/1", eider.Left, 0)
	if len(w.last.Changed)+len(w.last.End) != 0 {
		t.Errorf("a beat after LEFT did something: %+v", w.last)
	}
	w.saw(w.tb.Beat(w.now, s+1000))
	if len(w.last.End) != 1 || w.tb.Counts().Instances != 0 || w.tb.Counts().Sessions != 1 {
		t.Errorf("a beat of an unknown stream: %+v, %+v", w.last, w.tb.Counts())
	}
}

func TestR5BeatOfTheLapsedOnlyEndsItsStream(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	a := w.actor("p")
	a.beats = false
	w.advance(25 * time.Second)
	w.saw(w.tb.Beat(w.now, a.session))
	w.want("orders/1", eider.Lapsed, 0)
	if len(w.last.End) != 1 || w.last.End[0] != a.session || len(w.last.Changed) != 0 {
		t.Errorf("got %+v, want the end of stream %d alone", w.last, a.session)
	}
	if fx, err := w.tb.Leave(w.now, a.session, key("orders/1"), 0); eider.KindOf(err) != eider.Stale || len(fx.End) != 1 {
		t.Errorf("its leave: %+v, %v; want Stale, and the end of its stream", fx, err)
	}
}

func TestR6OneDeleteFromAnywhere(t *testing.T) {
	a, b := fresh(t), fresh(t)
	grant := a.mustRegister("p", "orders/1", "10.0.0.1:81")
	up := grant.Record
	b.saw(b.tb.Apply(b.now, up, "a"))
	b.want("orders/1", eider.Up, 0)
	a.leave("p", "orders/1")
	a.left("p", "orders/1")
	gone := a.tb.Records("orders")[0]
	b.saw(b.tb.Apply(b.now, gone, "a"))
	for _, w := range []*world{a, b} {
		w.saw(w.tb.Apply(w.now, up, "c")) // a third node's sync, late
		w.want("orders/1", eider.Left, 0)
	}
}

func TestR14NoWallClockDecides(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour, -time.Millisecond, 3 * time.Second} {
		t.Run(step.String(), func(t *testing.T) {
			w := fresh(t)
			w.mustRegister("p", "orders/1", "10.0.0.1:81")
			w.mustRegister("q", "orders/2", "10.0.0.1:82")
			w.follow("c", "orders")
			w.advance(10 * time.Second)
			w.leave("q", "orders/2")
			w.now = w.now.Add(step) // the wall clock is set
			for _, a := range w.processes {
				a.beaten = w.now
			}
			w.saw(w.tb.Look(w.now))
			w.want("orders/1", eider.Up, 0)
			if d := w.drain("orders/2"); d.Reached {
				t.Errorf("a step of the clock reached the barrier: %+v", d)
			}
			w.advance(9 * time.Second)
			w.want("orders/1", eider.Up, 0)
			if d := w.drain("orders/2"); !d.Reached || d.Barrier != 8*time.Second {
				t.Errorf("the cap came after %s, want 8s", d.Barrier)
			}
			w.actor("p").beats = false
			w.advance(23 * time.Second)
			w.want("orders/1", eider.Lapsed, 0)
		})
	}
}

// A node that is stopped while its instances go on: nobody lapses, nobody is suspected.
func TestPausedNodeLapsesNobody(t *testing.T) {
	for _, d := range []time.Duration{1500 * time.Millisecond, 30 * time.Second, time.Hour} {
		w := fresh(t)
		w.mustRegister("p", "orders/1", "10.0.0.1:81")
		w.advance(10 * time.Second)
		w.actor("p").beats = false // its beats wait in the socket: this node is about to stop
		w.advance(4300 * time.Millisecond)
		w.now = w.now.Add(d)
		w.saw(w.tb.Look(w.now))
		w.advance(100 * time.Millisecond)
		w.actor("p").beats = true // and are heard now
		w.advance(2 * time.Second)
		w.want("orders/1", eider.Up, 0)
		if w.count(eider.EventPaused) != 1 || w.count(eider.EventSuspect) != 0 {
			t.Errorf("after %s: %v", d, w.events)
		}
	}
}

// A node that looks less than once a gap has slower clocks, but it has some.
func TestOverloadedNodeStillLapses(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	w.follow("c", "orders")
	w.mustRegister("q", "orders/2", "10.0.0.1:82")
	w.leave("q", "orders/2")
	for range 100 {
		w.now = w.now.Add(1200 * time.Millisecond)
		w.saw(w.tb.Look(w.now))
	}
	if !w.drain("orders/2").Reached {
		t.Error("its caps never come")
	}
}

func TestR17ColdNode(t *testing.T) {
	w := newWorld(t, Config{Node: "a"})
	if w.tb.Complete(w.now) || len(w.tb.Void()) != 1 {
		t.Errorf("a node that has just started is complete; void: %q", w.tb.Void())
	}
	w.advance(19 * time.Second)
	if w.tb.Complete(w.now) {
		t.Error("complete before a lease has passed")
	}
	w.advance(time.Second)
	if !w.tb.Complete(w.now) || w.tb.Void() != nil {
		t.Errorf("not complete after a lease; void: %q", w.tb.Void())
	}
	if f := fresh(t); !f.tb.Complete(f.now) || f.tb.Void() != nil {
		t.Error("a fresh node isn't complete")
	}
}
