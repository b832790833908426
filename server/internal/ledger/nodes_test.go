package ledger

import (
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// pair is two nodes that hear of each other at once, as far as a test lets them.
func pair(t *testing.T) (a, b *world) {
	a, b = newWorld(t, Config{Node: "a", Fresh: true}), newWorld(t, Config{Node: "b", Fresh: true})
	a.saw(a.tb.Peers(a.now, []string{"a", "b"}))
	b.saw(b.tb.Peers(b.now, []string{"a", "b"}))
	return a, b
}

func gossip(from, to *world) {
	for _, rec := range from.tb.Records("orders") {
		to.saw(to.tb.Apply(to.now, rec, from.tb.cfg.Node))
	}
}

func report(from, to *world, k string) {
	from.t.Helper()
	r, ok := from.tb.Members(from.now, from.departure(k))
	if !ok {
		from.t.Fatalf("%s has no report on %s", from.tb.cfg.Node, k)
	}
	to.saw(to.tb.Report(to.now, from.tb.cfg.Node, r))
}

func TestBarrierAcrossNodes(t *testing.T) {
	a, b := pair(t)
	a.mustRegister("p", "orders/1", "10.0.0.1:81")
	gossip(a, b)
	a.follow("c1", "orders")
	b.follow("c2", "orders")
	b.follow("c3", "orders")
	a.leave("p", "orders/1")
	a.letGo("c1", "orders/1")
	a.wantReached("orders/1", false) // b hasn't said who its callers are
	if _, ok := b.tb.Members(b.now, b.departure("orders/1")); ok {
		t.Fatal("b reports before it has applied the leave")
	}
	gossip(a, b)
	report(b, a, "orders/1")
	a.wantMember("orders/1", "callers of b", "")
	a.wantMember("orders/1", "c2", eider.Waiting)
	old, _ := b.tb.Members(b.now, b.departure("orders/1"))
	b.letGo("c2", "orders/1")
	b.saw(b.tb.Goodbye(b.now, b.actor("c3").follower))
	report(b, a, "orders/1")
	a.wantReached("orders/1", true)
	a.wantMember("orders/1", "c3", eider.SaidGoodbye)
	a.saw(a.tb.Report(a.now, "b", old)) // an older report, late
	a.wantMember("orders/1", "c2", eider.LetGo)
	if b.count(eider.EventBarrier) != 0 || b.drain("orders/1").Reached {
		t.Error("b announces the barrier of an instance that isn't its own")
	}
}

// One report tells that the last one has let go, and that another one has come: that is no barrier.
func TestReportIsMergedAsAWhole(t *testing.T) {
	a, b := pair(t)
	a.mustRegister("p", "orders/1", "10.0.0.1:81")
	gossip(a, b)
	b.follow("c1", "orders")
	a.leave("p", "orders/1")
	gossip(a, b)
	report(b, a, "orders/1")
	b.letGo("c1", "orders/1")
	b.follow("c2", "orders")
	r, _ := b.tb.Members(b.now, b.departure("orders/1"))
	r.Members[0], r.Members[1] = r.Members[1], r.Members[0]
	if r.Members[0].Caller != "c1" {
		t.Fatalf("%+v: want c1 first", r.Members)
	}
	a.saw(a.tb.Report(a.now, "b", r))
	a.wantReached("orders/1", false)
	a.wantMember("orders/1", "c2", eider.Waiting)
}

// A caller that moves is one caller: remembered here, waited for there, and joined by its id.
func TestMovingCallerIsJoined(t *testing.T) {
	a, b := pair(t)
	a.mustRegister("p", "orders/1", "10.0.0.1:81")
	gossip(a, b)
	a.follow("c", "orders")
	b.follow("c", "orders")
	a.unfollow("c", Moving)
	a.leave("p", "orders/1")
	gossip(a, b)
	report(b, a, "orders/1")
	a.wantMember("orders/1", "c", eider.Waiting)
	if d := a.drain("orders/1"); d.Total != 1 || !d.Members[0].Stream {
		t.Errorf("%+v: one caller, with a stream to b", d)
	}
	b.letGo("c", "orders/1")
	report(b, a, "orders/1")
	a.wantReached("orders/1", true)
}

// It no longer follows at b, because it moved to a: that settles nothing.
func TestUnfollowedElsewhereIsNotLetGo(t *testing.T) {
	a, b := pair(t)
	a.mustRegister("p", "orders/1", "10.0.0.1:81")
	gossip(a, b)
	a.follow("c", "orders")
	b.follow("c", "orders")
	b.follow("d", "orders")
	a.leave("p", "orders/1")
	gossip(a, b)
	report(b, a, "orders/1")
	b.saw(b.tb.Unsubscribe(b.now, b.actor("c").follower, "orders"))
	b.saw(b.tb.Unsubscribe(b.now, b.actor("d").follower, "orders"))
	report(b, a, "orders/1")
	a.wantMember("orders/1", "c", eider.Waiting)
	a.wantMember("orders/1", "d", eider.Unfollowed)
	b.subscribe("d", "orders")
	report(b, a, "orders/1")
	a.wantMember("orders/1", "d", eider.Waiting)
}

func TestSilentNodeIsCappedAndNamed(t *testing.T) {
	a, b := pair(t)
	a.mustRegister("p", "orders/1", "10.0.0.1:81")
	a.advance(time.Second)
	a.saw(a.tb.Peers(a.now, []string{"a"})) // b is gone, and its callers may be on their way here
	a.leave("p", "orders/1")
	a.wantMember("orders/1", "callers of b", eider.Waiting)
	a.advance(8 * time.Second)
	a.wantMember("orders/1", "callers of b", eider.Capped)
	a.left("p", "orders/1")
	a.advance(60 * time.Second)
	a.mustRegister("q", "orders/2", "10.0.0.1:81")
	a.leave("q", "orders/2")
	a.wantReached("orders/2", true) // by now they are here, or have ended
	_ = b
}

// The instance moves in mid-drain: the new node owns the drain, and waits for the old one's callers.
func TestDrainMovesWithItsInstance(t *testing.T) {
	a, b := pair(t)
	a.mustRegister("p", "orders/1", "10.0.0.1:81")
	a.follow("c", "orders")
	a.leave("p", "orders/1")
	gossip(a, b)
	rec := a.actor("p").instances[key("orders/1")]
	b.actor("p").instances[key("orders/1")] = rec
	b.mustRegister("p", "orders/1", "10.0.0.1:81", func(r *eider.Record) { r.Status = eider.Draining })
	b.wantMember("orders/1", "callers of a", eider.Waiting)
	gossip(b, a)
	report(a, b, "orders/1")
	b.wantMember("orders/1", "c", eider.Waiting)
	a.letGo("c", "orders/1")
	if a.count(eider.EventBarrier) != 0 {
		t.Error("a announces a barrier that is b's by now")
	}
	report(a, b, "orders/1")
	b.wantReached("orders/1", true)
	// What the old stream still says is late.
	if _, err := a.tb.Left(a.now, a.actor("p").session, key("orders/1")); eider.KindOf(err) != eider.Stale {
		t.Errorf("LEFT on the old stream: %v, want Stale", err)
	}
	b.left("p", "orders/1")
	gossip(b, a)
	a.want("orders/1", eider.Left, 0)
	if a.tb.Counts().Draining != 0 {
		t.Error("the drain still runs on a")
	}
}

// Two processes took one id on two nodes in a partition: one of them is it, on both, and the other hears.
func TestConcurrentHoldersAcrossNodes(t *testing.T) {
	a, b := pair(t)
	first := a.mustRegister("p", "orders/1", "10.0.0.1:81").Record
	b.nonces = 50
	second := b.mustRegister("q", "orders/1", "10.0.0.2:81").Record
	gossip(a, b)
	gossip(b, a)
	for _, w := range []*world{a, b} {
		in, _ := w.tb.Instance(key("orders/1"))
		if !in.Record.Equal(&second) {
			t.Errorf("on %s it is %s", w.tb.cfg.Node, in.Incarnation)
		}
	}
	a.saw(a.tb.Beat(a.now, a.actor("p").session))
	if len(a.last.End) != 1 {
		t.Error("the process that lost isn't told")
	}
	if _, err := a.register("p", "orders/1", "10.0.0.1:81"); eider.KindOf(err) != eider.Stale {
		t.Errorf("it attaches as %s again: %v, want Stale", first.Incarnation, err)
	}
	a.actor("p").instances = map[eider.Key]*eider.Record{}
	if _, err := a.register("p", "orders/1", "10.0.0.1:81"); eider.KindOf(err) != eider.Conflict {
		t.Errorf("as a new run: %v, want Conflict", err)
	}
	gossip(b, a)
	if in, _ := a.tb.Instance(key("orders/1")); !in.Record.Equal(&second) {
		t.Error("it overwrote the other")
	}
}

func TestApplyRefusesNonsense(t *testing.T) {
	w := fresh(t)
	for _, rec := range []eider.Record{{}, {Key: key("orders/1"), Status: eider.Up}, {Key: key("orders/1"), Incarnation: eider.Incarnation{Nonce: 1}}, {Incarnation: eider.Incarnation{Nonce: 1}, Status: eider.Up}} {
		w.saw(w.tb.Apply(w.now, rec, "b"))
	}
	if c := w.tb.Counts(); c != (Counts{}) {
		t.Errorf("something was kept: %+v", c)
	}
}

// Only the node where an instance is attached keeps its lease.
func TestOnlyTheOwnerKeepsLeases(t *testing.T) {
	a, b := pair(t)
	a.mustRegister("p", "orders/1", "10.0.0.1:81")
	gossip(a, b)
	b.advance(10 * time.Minute)
	b.want("orders/1", eider.Up, 0)
	if b.tb.node.expected != 0 {
		t.Error("b expects beats of what is attached to a")
	}
}

// Found by the simulation (seed 3607): a first attach that came late gets a higher number on another node
// than the second one, and takes the listing away from where the process is. It must hear of that.
func TestLateFirstAttachElsewhere(t *testing.T) {
	a, b := pair(t)
	b.saw(b.tb.Apply(b.now, eider.Record{Key: key("orders/1"), Incarnation: eider.Incarnation{Number: 7, Nonce: 1}, Attachment: 1, Version: 3, Status: eider.Left}, "c"))
	late := *a.actor("p").record("orders/1", "10.0.0.1:81")
	late.Attachment = 1
	a.actor("p").instances[late.Key].Attachment = 1
	a.mustRegister("p", "orders/1", "10.0.0.1:81") // the second, at a
	w := b.attach("p")
	_, fx, err := b.tb.Register(b.now, w.session, late, 0, Proof{})
	b.saw(fx)
	if err != nil {
		t.Fatal(err)
	}
	gossip(b, a)
	a.saw(a.tb.Beat(a.now, a.actor("p").session))
	if len(a.last.End) != 1 {
		t.Fatal("the process beats where it is no longer listed, and isn't told")
	}
	a.detach("p", Lost)
	a.attach("p")
	got := a.mustRegister("p", "orders/1", "10.0.0.1:81").Record
	if got.Incarnation.Number != 8 || got.Attachment != 3 {
		t.Errorf("it is back as %s, attachment %d; want number 8, attachment 3", got.Incarnation, got.Attachment)
	}
	gossip(a, b)
	if in, _ := b.tb.Instance(key("orders/1")); !in.Record.Equal(&got) {
		t.Errorf("b has %+v", in.Record)
	}
}

// One that moved away and still beats here has come back without a word.
func TestBeatsAfterAMove(t *testing.T) {
	a, b := pair(t)
	a.mustRegister("p", "orders/1", "10.0.0.1:81")
	gossip(a, b)
	rec := a.actor("p").instances[key("orders/1")]
	b.actor("p").instances[key("orders/1")] = rec
	b.mustRegister("p", "orders/1", "10.0.0.1:81")
	gossip(b, a)
	a.saw(a.tb.Beat(a.now, a.actor("p").session))
	if len(a.last.End) != 0 {
		t.Error("new before old: the old one may still beat for a moment")
	}
	a.advance(5 * time.Second)
	a.saw(a.tb.Beat(a.now, a.actor("p").session))
	if len(a.last.End) != 1 {
		t.Error("it still beats here, and isn't told")
	}
}

// A process said LEFT on one node while its attach to another was under way: it has left, on both, in
// whatever order they hear of it.
func TestLeftIsFinalAcrossNodes(t *testing.T) {
	left := eider.Record{Key: key("orders/1"), Incarnation: eider.Incarnation{Number: 1, Nonce: 1}, Attachment: 1, Version: 3, Status: eider.Left}
	later := eider.Record{Key: key("orders/1"), Incarnation: left.Incarnation, Attachment: 2, Version: 1, Status: eider.Draining, Address: "10.0.0.1:81"}
	for _, order := range [][]eider.Record{{left, later}, {later, left}} {
		w := fresh(t)
		for _, rec := range order {
			w.saw(w.tb.Apply(w.now, rec, "b"))
		}
		w.want("orders/1", eider.Left, 0)
	}
}
