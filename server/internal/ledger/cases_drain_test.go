package ledger

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// two is a world with two instances of orders, and callers that follow it.
func two(t *testing.T, callers ...string) *world {
	w := fresh(t)
	w.mustRegister("p1", "orders/1", "10.0.0.1:81")
	w.mustRegister("p2", "orders/2", "10.0.0.1:82")
	for _, c := range callers {
		w.follow(c, "orders")
	}
	w.advance(time.Second)
	return w
}

func (w *world) wantMember(k, caller string, state eider.MemberState) {
	w.t.Helper()
	if got := w.member(k, caller); got != state {
		w.t.Errorf("%s in the drain of %s: %q, want %q", caller, k, got, state)
	}
}

func (w *world) wantReached(k string, want bool) {
	w.t.Helper()
	if d := w.drain(k); d.Reached != want {
		w.t.Errorf("barrier of %s reached: %t, want %t (%d of %d open)", k, d.Reached, want, d.Open, d.Total)
	}
}

// A caller that never acknowledges is covered by its cap, and named; the bound was told before.
func TestD15CapReplacesAMissingAcknowledgement(t *testing.T) {
	w := two(t, "c1", "c2")
	if got := w.tb.Bound("orders"); got != 8*time.Second {
		t.Fatalf("bound %s, want 8s", got)
	}
	w.leave("p1", "orders/1")
	w.letGo("c1", "orders/1")
	w.advance(8*time.Second - time.Millisecond)
	w.wantReached("orders/1", false)
	w.advance(time.Millisecond)
	w.wantReached("orders/1", true)
	w.wantMember("orders/1", "c2", eider.Capped)
	d := w.drain("orders/1")
	if d.Barrier != 8*time.Second || d.Bound != 8*time.Second || d.Members[0].Caller != "c2" {
		t.Errorf("%+v: want the capped one first, after 8s", d)
	}
	if w.count(eider.EventCapped) != 1 || w.count(eider.EventBarrier) != 1 {
		t.Errorf("%d caps and %d barriers told", w.count(eider.EventCapped), w.count(eider.EventBarrier))
	}
	w.letGo("c2", "orders/1")
	w.wantMember("orders/1", "c2", eider.LetGo)
	if w.count(eider.EventBarrier) != 1 {
		t.Error("the barrier was reached twice")
	}
}

// The pause ends on what callers say, not on how quiet they are.
func TestD18BarrierIsTheLastAcknowledgement(t *testing.T) {
	w := two(t, "c1", "c2", "c3")
	w.leave("p1", "orders/1")
	if !w.last.Flush {
		t.Error("a leave isn't published at once")
	}
	for i, c := range []string{"c1", "c2", "c3"} {
		w.wantReached("orders/1", false)
		w.advance(10 * time.Millisecond)
		w.letGo(c, "orders/1")
		if d := w.drain("orders/1"); d.Open != 2-i || d.Total != 3 {
			t.Errorf("after %s %d of %d are open", c, d.Open, d.Total)
		}
		if len(w.last.Drains) != 1 {
			t.Errorf("progress isn't told: %+v", w.last)
		}
	}
	w.wantReached("orders/1", true)
	if d := w.drain("orders/1"); d.Barrier != 30*time.Millisecond {
		t.Errorf("barrier after %s, want 30ms", d.Barrier)
	}
	w.wantReached("orders/1", true)
}

func TestLetGoOfAnotherNonceDoesntCount(t *testing.T) {
	w := two(t, "c1")
	dep := w.departure("orders/1")
	w.leave("p1", "orders/1")
	dep.Incarnation.Nonce++
	w.saw(w.tb.Ack(w.now, w.actor("c1").follower, "orders", 9, []eider.Departure{dep}, nil))
	w.wantMember("orders/1", "c1", eider.Waiting)
	dep.Incarnation.Nonce--
	w.saw(w.tb.Ack(w.now, w.actor("c1").follower, "billing", 9, []eider.Departure{dep}, nil))
	w.wantMember("orders/1", "c1", eider.Waiting)
	w.saw(w.tb.Ack(w.now, w.actor("c1").follower+100, "orders", 9, []eider.Departure{dep}, nil))
	w.wantMember("orders/1", "c1", eider.Waiting)
}

func TestNobodyFollows(t *testing.T) {
	w := two(t)
	w.leave("p1", "orders/1")
	w.wantReached("orders/1", true)
}

// Named before the leave was known here: on another node, or in band.
func TestLetGoBeforeTheLeave(t *testing.T) {
	w := two(t, "c1")
	dep := w.departure("orders/1")
	w.saw(w.tb.Ack(w.now, w.actor("c1").follower, "orders", 1, []eider.Departure{dep}, nil))
	w.follow("c2")
	w.subscribe("c2", "orders", dep)
	w.leave("p1", "orders/1")
	w.wantMember("orders/1", "c1", eider.LetGo)
	w.wantMember("orders/1", "c2", eider.LetGo)
	w.wantReached("orders/1", true)
	w.leave("p2", "orders/2") // which it did not name
	w.wantReached("orders/2", false)
}

// A stream that ended without a word, within the time that callers are remembered.
func TestLostCallersAreMembers(t *testing.T) {
	w := two(t, "c1", "c2")
	w.unfollow("c1", Lost)
	w.advance(59 * time.Second)
	w.unfollow("c2", Moving) // a move isn't a goodbye
	w.leave("p1", "orders/1")
	w.wantMember("orders/1", "c1", eider.Waiting)
	w.wantMember("orders/1", "c2", eider.Waiting)
	w.follow("c1") // it is back, and says so
	w.subscribe("c1", "orders", w.departure("orders/1"))
	w.wantMember("orders/1", "c1", eider.LetGo)
	w.advance(8 * time.Second)
	w.wantMember("orders/1", "c2", eider.Capped)
	w.advance(53 * time.Second)
	w.leave("p2", "orders/2")
	w.wantMember("orders/2", "c2", "")
	if got := len(w.tb.Callers("orders")); got != 1 {
		t.Errorf("%d callers are kept, want c1 alone", got)
	}
}

func TestGoodbyeAndUnsubscribe(t *testing.T) {
	w := two(t, "c1", "c2", "c3")
	w.leave("p1", "orders/1")
	w.saw(w.tb.Goodbye(w.now, w.actor("c1").follower))
	w.saw(w.tb.Unsubscribe(w.now, w.actor("c2").follower, "orders"))
	w.wantMember("orders/1", "c1", eider.SaidGoodbye)
	w.wantMember("orders/1", "c2", eider.Unfollowed)
	w.wantReached("orders/1", false)
	w.subscribe("c2", "orders") // it follows again: it owes again
	w.wantMember("orders/1", "c2", eider.Waiting)
	w.letGo("c2", "orders/1")
	w.letGo("c3", "orders/1")
	w.wantReached("orders/1", true)
	w.leave("p2", "orders/2")
	w.wantMember("orders/2", "c1", "")
}

// A caller that reconnects has two streams for a while: only the end of the last one counts.
func TestTwoStreamsOfOneCaller(t *testing.T) {
	w := two(t, "c1")
	old := w.actor("c1").follower
	w.follow("c1", "orders")
	w.leave("p1", "orders/1")
	if d := w.drain("orders/1"); d.Total != 1 {
		t.Fatalf("one caller counts %d times", d.Total)
	}
	w.saw(w.tb.Unsubscribe(w.now, old, "orders"))
	w.wantMember("orders/1", "c1", eider.Waiting)
	w.saw(w.tb.Unfollow(w.now, old, Lost))
	if m := w.drain("orders/1").Members[0]; !m.Stream || m.State != eider.Waiting {
		t.Errorf("%+v: its new stream is up", m)
	}
	w.unfollow("c1", Lost)
	if m := w.drain("orders/1").Members[0]; m.Stream || m.State != eider.Waiting {
		t.Errorf("%+v: its last stream has ended", m)
	}
}

// The end of a caller's own instance ends its part; silence and an open stream don't.
func TestEndOfTheCallersOwnInstance(t *testing.T) {
	for _, how := range []string{"killed", "left", "lapsed", "streams on", "two instances"} {
		t.Run(how, func(t *testing.T) {
			w := two(t, "c1")
			w.mustRegister("c1", "checkout/1", "10.0.0.1:90")
			if how == "two instances" {
				w.mustRegister("c1", "checkout/2", "10.0.0.1:91")
			}
			w.advance(time.Second)
			want := eider.Ended
			switch how {
			case "killed":
				w.leave("p1", "orders/1")
				w.kill("c1")
			case "left":
				w.left("c1", "checkout/1")
				w.unfollow("c1", Lost)
				w.leave("p1", "orders/1")
				w.wantMember("orders/1", "c1", eider.Waiting) // its attach stream says that it still runs
				w.detach("c1", Lost)
			case "lapsed":
				w.ports["10.0.0.1:90"] = NoAnswer // its host is lost
				w.detach("c1", Lost)
				w.unfollow("c1", Lost)
				w.advance(20 * time.Second)
				w.want("checkout/1", eider.Lapsed, 0)
				w.leave("p1", "orders/1")
				want = eider.Waiting
			case "streams on":
				w.left("c1", "checkout/1")
				w.leave("p1", "orders/1")
				want = eider.Waiting
			case "two instances":
				w.left("c1", "checkout/1")
				w.unfollow("c1", Lost)
				w.leave("p1", "orders/1")
				want = eider.Waiting
			}
			w.advance(10 * time.Millisecond)
			w.wantMember("orders/1", "c1", want)
		})
	}
}

func TestWhoSubscribesAfterTheLeaveOwesToo(t *testing.T) {
	w := two(t, "c1")
	w.leave("p1", "orders/1")
	w.advance(2 * time.Second)
	w.follow("c2", "orders")
	w.letGo("c1", "orders/1")
	w.wantReached("orders/1", false)
	w.advance(6 * time.Second) // its cap counts from the leave all the same
	w.wantMember("orders/1", "c2", eider.Capped)
	w.follow("c3", "orders") // after the barrier it changes nothing
	w.wantMember("orders/1", "c3", "")
	w.wantReached("orders/1", true)
}

func TestNoAlternativeIsShown(t *testing.T) {
	w := two(t, "c1")
	w.leave("p1", "orders/1")
	dep := []eider.Departure{w.departure("orders/1")}
	w.saw(w.tb.Ack(w.now, w.actor("c1").follower, "orders", 2, nil, dep))
	w.wantMember("orders/1", "c1", eider.NoAlternative)
	w.saw(w.tb.Ack(w.now, w.actor("c1").follower, "orders", 3, nil, nil))
	w.wantMember("orders/1", "c1", eider.Waiting) // it has one now
	w.saw(w.tb.Ack(w.now, w.actor("c1").follower, "orders", 4, dep, nil))
	w.wantReached("orders/1", true)
}

func TestAllLeavingAtOnceWaitTheirCaps(t *testing.T) {
	w := two(t, "c1")
	w.leave("p1", "orders/1")
	w.advance(time.Second)
	w.leave("p2", "orders/2")
	w.saw(w.tb.Ack(w.now, w.actor("c1").follower, "orders", 2, nil, []eider.Departure{w.departure("orders/1"), w.departure("orders/2")}))
	w.advance(7 * time.Second)
	w.wantReached("orders/1", true)
	w.wantReached("orders/2", false)
	w.advance(time.Second)
	w.wantReached("orders/2", true)
}

// A leave within the first seconds of a node: who called before isn't known, so the barrier waits for
// whoever it may be, and no caller that is here makes it shorter.
func TestBarrierIsNeverVacuous(t *testing.T) {
	w := newWorld(t, Config{Node: "a"})
	w.mustRegister("p1", "orders/1", "10.0.0.1:81")
	w.follow("c1", "orders")
	w.advance(500 * time.Millisecond)
	w.leave("p1", "orders/1")
	w.letGo("c1", "orders/1")
	w.wantReached("orders/1", false)
	w.wantMember("orders/1", string(eider.FromBefore), eider.Waiting)
	w.advance(7500*time.Millisecond - time.Millisecond)
	w.wantReached("orders/1", false)
	w.advance(time.Millisecond)
	w.wantReached("orders/1", true)
}

func TestRetryAfterExtendsLeaseAndCap(t *testing.T) {
	w := two(t, "c1", "c2")
	w.leave("p1", "orders/1")
	w.unfollow("c1", Lost)
	w.saw(w.tb.ExtendCaller(w.now, Peer{Caller: "c1"}, 5*time.Second))
	w.advance(8 * time.Second)
	w.wantMember("orders/1", "c2", eider.Capped)
	w.wantMember("orders/1", "c1", eider.Waiting)
	if d := w.drain("orders/1"); d.Bound != 13*time.Second {
		t.Errorf("bound %s, want 13s", d.Bound)
	}
	w.advance(5 * time.Second)
	w.wantMember("orders/1", "c1", eider.Capped)

	w.ports["10.0.0.1:82"] = NoAnswer
	w.detach("p2", Lost)
	before, _ := w.tb.Timing("orders")
	w.saw(w.tb.Extend(w.now, key("orders/2"), Secret{}, 5*time.Second))
	if now, _ := w.tb.Timing("orders"); now.Lease != before.Lease+5*time.Second || now.SuspectAfter != before.SuspectAfter+5*time.Second || now.Reattach != before.Reattach+5*time.Second {
		t.Errorf("told to come back in 5s, and the window was derived from %+v and is from %+v", before, now)
	}
	w.advance(5500 * time.Millisecond)
	w.want("orders/2", eider.Up, 0) // it waits as told
	w.advance(time.Second)
	w.want("orders/2", eider.Up, eider.StreamEnded)
	w.advance(30 * time.Second)
	w.want("orders/2", eider.Lapsed, 0)
}

// Names are their processes' to choose, but nobody is called like the callers from before.
func TestNoCallerStandsForOthers(t *testing.T) {
	w := newWorld(t, Config{Node: "a"})
	w.mustRegister("p1", "orders/1", "10.0.0.1:81")
	w.follow(string(eider.FromBefore), "orders")
	w.leave("p1", "orders/1")
	w.letGo(string(eider.FromBefore), "orders/1")
	w.wantReached("orders/1", false)
	w.wantMember("orders/1", string(eider.FromBefore), eider.Waiting)
	w.advance(8 * time.Second) // two members of one name would be looked at for ever
	w.wantReached("orders/1", true)
}

// Somebody from before who was told to come back later is waited for, in drains that run already too, and
// however often that happens; the bound says so.
func TestRetryAfterExtendsTheWaitForCallersFromBefore(t *testing.T) {
	w := newWorld(t, Config{Node: "a"})
	w.mustRegister("p1", "orders/1", "10.0.0.1:81")
	w.leave("p1", "orders/1")
	w.advance(7 * time.Second)
	w.saw(w.tb.ExtendCaller(w.now, Peer{Caller: "c1"}, 6*time.Second)) // who comes back at 13s, or at 14.5s with its jitter
	if d := w.drain("orders/1"); d.Bound < 14500*time.Millisecond {
		t.Errorf("bound %s of the drain, want 14.5s at least", d.Bound)
	}
	w.advance(7 * time.Second)
	w.wantReached("orders/1", false)
	w.saw(w.tb.ExtendCaller(w.now, Peer{Caller: "c1"}, 6*time.Second)) // and is told so again, at 14s
	if got := w.tb.Bound("orders"); got < 7500*time.Millisecond {
		t.Errorf("bound %s of the next drain, want 7.5s at least", got)
	}
	w.advance(7500 * time.Millisecond)
	w.follow("c1", "orders")
	w.advance(100 * time.Millisecond)
	w.wantMember("orders/1", "c1", eider.Waiting) // not capped as it comes: it came as told
	w.letGo("c1", "orders/1")
	w.advance(time.Second)
	w.wantReached("orders/1", true)
}

// What is over is kept as it was shown last: whoever lists two hundred departures doesn't copy who was waited for.
func TestDrainsThatAreOverAreNotCopied(t *testing.T) {
	w := fresh(t)
	for i := range 40 {
		w.follow(fmt.Sprint("c", i), "orders")
	}
	for i := range 100 {
		k := fmt.Sprint("orders/", i)
		w.mustRegister("p", k, fmt.Sprint("10.0.0.1:", 1000+i))
		w.leave("p", k)
		w.left("p", k)
	}
	all := w.tb.Drains("orders")
	if len(all) != 100 || len(all[0].Members) != eider.MaxMembers || all[0].Total != 40 || !all[0].Over || all[0].Status != eider.Left || !all[0].Members[0].Stream {
		t.Fatalf("%d drains, the last %+v", len(all), all[0])
	}
	w.tb.Goodbye(w.now, w.actor("c0").follower)
	if again := w.tb.Drains("orders"); !reflect.DeepEqual(again, all) {
		t.Errorf("what is over has changed: %+v, was %+v", again[0], all[0])
	}
	if n := testing.AllocsPerRun(10, func() { w.tb.Drains("orders") }); n > 50 {
		t.Errorf("a list of 100 drains that are over allocates %v times", n)
	}
}
