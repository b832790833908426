package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

func TestDialsAfterTheEndOfAStream(t *testing.T) {
	w := two(t)
	w.ports["10.0.0.1:81"] = NoAnswer
	w.detach("p1", Lost)
	if len(w.last.Dials) != 4 {
		t.Fatalf("%d dials, want 4", len(w.last.Dials))
	}
	for i, after := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
		if d := w.last.Dials[i]; d.After != after || d.Try != i+1 || d.Address != "10.0.0.1:81" {
			t.Errorf("dial %d: %+v", i, d)
		}
	}
	w.advance(time.Second - time.Millisecond)
	w.want("orders/1", eider.Up, 0) // no answer proves nothing
	w.advance(time.Millisecond)
	w.want("orders/1", eider.Up, eider.StreamEnded)
	w.attach("p1")
	w.mustRegister("p1", "orders/1", "10.0.0.1:81")
	w.want("orders/1", eider.Up, 0)
}

func TestRefusedIsTheEnd(t *testing.T) {
	w := two(t)
	w.kill("p1")
	w.advance(0)
	w.want("orders/1", eider.Dead, 0)
	if w.count(eider.EventDead) != 1 {
		t.Error("and no event says so")
	}
}

// The answer of a dial that was asked for before the process attached again says nothing.
func TestLateRefusalIsFencedByTheAttachment(t *testing.T) {
	w := two(t)
	w.detach("p1", Lost)
	late := w.last.Dials[3]
	w.attach("p1")
	w.mustRegister("p1", "orders/1", "10.0.0.1:81")
	w.saw(w.tb.Dialed(w.now, late, Refused))
	w.want("orders/1", eider.Up, 0)
	w.detach("p1", Lost) // also when the new stream has ended too
	w.saw(w.tb.Dialed(w.now, late, Refused))
	w.want("orders/1", eider.Up, 0)
	w.saw(w.tb.Dialed(w.now, w.tb.dialOf("orders/1"), Refused))
	w.want("orders/1", eider.Dead, 0)
}

func (t *Table) dialOf(k string) Dial {
	e := t.find(key(k))
	return Dial{Departure: e.rec.Departure(), Attachment: e.rec.Attachment, Address: e.rec.Address, Try: 1}
}

func TestRefusalsWhileTheStreamIsUpProveNothing(t *testing.T) {
	w := two(t)
	w.saw(w.tb.Dialed(w.now, w.tb.dialOf("orders/1"), Refused))
	w.want("orders/1", eider.Up, 0)
}

func TestWhoMayBeDialled(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}
	for address, want := range map[string]bool{
		"10.0.0.1:80": true, "[::ffff:10.0.0.1]:80": true, "10.0.0.2:80": false, "192.168.7.7:80": true,
		"127.0.0.1:80": false, "169.254.169.254:80": false, "localhost:80": false, "[fd00::1]:80": false,
	} {
		w := newWorld(t, Config{Fresh: true, Networks: networks})
		w.mustRegister("p", "orders/1", address)
		if got := len(w.last.Dials) == 1; got != want {
			t.Errorf("%s is dialled: %t, want %t", address, got, want)
		}
		w.advance(time.Second)
		w.detach("p", Lost)
		if got := len(w.last.Dials) == 4; got != want {
			t.Errorf("%s is dialled after its stream ended: %t, want %t", address, got, want)
		}
	}
}

func TestUnreachableAddressesAreNoEvidence(t *testing.T) {
	w := fresh(t)
	w.ports["10.0.0.1:81"] = Refused // a firewall
	w.mustRegister("p", "orders/1", "10.0.0.1:81", func(r *eider.Record) { r.Status = eider.Starting })
	if len(w.last.Dials) != 0 {
		t.Error("dialled before it is UP")
	}
	fx, _ := w.tb.SetStatus(w.now, w.actor("p").session, key("orders/1"), eider.Up)
	w.saw(fx)
	if len(fx.Dials) != 1 || fx.Dials[0].Try != 0 {
		t.Errorf("%+v: want one dial as it becomes UP", fx.Dials)
	}
	w.advance(time.Second)
	w.want("orders/1", eider.Up, 0)
	w.detach("p", Lost)
	if len(w.last.Dials) != 0 {
		t.Error("dialled although it never could be reached")
	}
}

func TestMovingAndStoppingSuspectNobody(t *testing.T) {
	for _, how := range []Ending{Moving, Stopping} {
		w := two(t)
		w.detach("p1", how)
		if len(w.last.Dials)+len(w.last.Events) != 0 {
			t.Errorf("ending %d: %+v", how, w.last)
		}
		w.advance(3400 * time.Millisecond)
		w.want("orders/1", eider.Up, 0)
		w.advance(2 * time.Second) // until it is silent
		w.want("orders/1", eider.Up, eider.BeatsMissed)
	}
}

func TestMassRefusalsOnlySuspect(t *testing.T) {
	w := fresh(t)
	const n = 20
	w.fleet(n)
	w.follow("c", "orders")
	for range 100 { // streams of others, so that this is no storm
		w.follow(fmt.Sprint("c", w.streams))
	}
	w.advance(2 * time.Second)
	for i := range 10 {
		w.kill(fmt.Sprint("p", i))
	}
	w.advance(time.Second)
	if dead, suspect := w.count(eider.EventDead), w.tb.Counts().Suspects; dead != 3 || suspect != 7 {
		t.Fatalf("%d dead and %d suspect, want 3 (15 percent) and 7", dead, suspect)
	}
	if w.count(eider.EventMassRefusal) != 1 || len(w.tb.Void()) == 0 {
		t.Errorf("%d events, void %q", w.count(eider.EventMassRefusal), w.tb.Void())
	}
	if now, _ := w.tb.Timing("orders"); !slices.Equal(now.Refused, w.tb.Void()) || len(now.Void) != 0 {
		t.Errorf("a refusal ends nobody for %q, a lease for %q; want what the node says, and nothing", now.Refused, now.Void)
	}
	w.saw(w.tb.Doubt(w.now, w.actor("c").follower, w.departure("orders/5")))
	w.want("orders/5", eider.Dead, 0)
	w.want("orders/6", eider.Up, eider.StreamEnded)
	w.saw(w.tb.Doubt(w.now, 9999, w.departure("orders/6"))) // by nobody
	w.want("orders/6", eider.Up, eider.StreamEnded)
	w.advance(3 * time.Second)
	w.detach("p11", Moving)
	w.attach("p11")
	w.leave("p12", "orders/12") // what was leaving is no mass
	w.kill("p12")
	w.advance(10 * time.Millisecond)
	w.want("orders/12", eider.Dead, 0)
	w.advance(10 * time.Second)
	w.kill("p13") // and what comes later is judged by itself
	w.advance(10 * time.Millisecond)
	w.want("orders/13", eider.Dead, 0)
}

// The caller was faster than the node's own dial.
// The window of who is killed now isn't that of the one before: it is said as soon as the next refusal ends nobody, and no
// longer than that is so.
func TestWhoWouldOnlyBeSuspectIsSaidBefore(t *testing.T) {
	w := fresh(t)
	w.fleet(4)
	for range 100 {
		w.follow(fmt.Sprint("c", w.streams))
	}
	w.advance(2 * time.Second)
	for killed, said := range []int{0, 0, 1} {
		if now, _ := w.tb.Timing("orders"); len(now.Refused) != said {
			t.Errorf("%d are killed, and of the next is said: %q", killed, now.Refused)
		}
		w.kill(fmt.Sprint("p", killed))
		w.advance(time.Second)
	}
	w.want("orders/1", eider.Dead, 0)
	w.want("orders/2", eider.Up, eider.StreamEnded)
	w.advance(10 * time.Second)
	if now, _ := w.tb.Timing("orders"); len(now.Refused) != 0 {
		t.Errorf("ten seconds later: %q", now.Refused)
	}
	w.kill("p3")
	w.advance(time.Second)
	w.want("orders/3", eider.Dead, 0)
}

func TestDoubtBeforeTheRefusal(t *testing.T) {
	w := fresh(t)
	w.fleet(5)
	w.follow("c", "orders")
	w.advance(2 * time.Second)
	for i := range 4 {
		w.kill(fmt.Sprint("p", i))
	}
	w.saw(w.tb.Doubt(w.now, w.actor("c").follower, w.departure("orders/3")))
	w.advance(10 * time.Millisecond)
	w.want("orders/2", eider.Up, eider.StreamEnded)
	w.want("orders/3", eider.Dead, 0)
}

func TestDoubtMakesTheNodeLookForItself(t *testing.T) {
	w := two(t, "c")
	doubt := func() int {
		w.saw(w.tb.Doubt(w.now, w.actor("c").follower, w.departure("orders/1")))
		return len(w.last.Dials)
	}
	if doubt() != 0 {
		t.Error("dialled while its stream is up")
	}
	w.ports["10.0.0.1:81"] = NoAnswer
	w.detach("p1", Lost)
	w.advance(2 * time.Second)
	w.ports["10.0.0.1:81"] = Refused
	if doubt() != 1 || doubt() != 0 {
		t.Error("want one dial a second, however many callers doubt")
	}
	w.want("orders/1", eider.Up, eider.StreamEnded) // a caller's word alone is no evidence
	w.advance(10 * time.Millisecond)
	w.want("orders/1", eider.Dead, 0)
}

func TestNodeDegradedReplacesTheStorm(t *testing.T) {
	w := fresh(t)
	w.fleet(20)
	w.advance(2 * time.Second)
	for i := range 10 {
		w.ports[fmt.Sprint("10.0.0.1:", 100+i)] = NoAnswer
		w.detach(fmt.Sprint("p", i), Lost)
		w.advance(50 * time.Millisecond)
	}
	w.advance(1500 * time.Millisecond)
	if w.count(eider.EventDegraded) != 1 || w.tb.Counts().Suspects != 0 {
		t.Errorf("%d events, %d suspects", w.count(eider.EventDegraded), w.tb.Counts().Suspects)
	}
	w.advance(5 * time.Second)
	if got := w.tb.Counts().Suspects; got != 10 {
		t.Errorf("%d are suspect by silence, want 10", got)
	}
	w.detach("p15", Lost) // alone, later: suspect as ever
	w.ports["10.0.0.1:115"] = NoAnswer
	w.advance(time.Second)
	w.want("orders/15", eider.Up, eider.StreamEnded)
}

// Processes that have left end their streams, and many do at once when a fleet shrinks: that is no storm.
func TestPlannedEndsAreNoStorm(t *testing.T) {
	w := fresh(t)
	w.fleet(10)
	for i := range 8 {
		w.follow(fmt.Sprint("p", i), "stock")
		w.leave(fmt.Sprint("p", i), fmt.Sprint("orders/", i))
		w.left(fmt.Sprint("p", i), fmt.Sprint("orders/", i))
		w.detach(fmt.Sprint("p", i), Lost)
		w.unfollow(fmt.Sprint("p", i), Lost) // it didn't say goodbye
	}
	w.ports["10.0.0.1:108"] = NoAnswer
	w.detach("p8", Lost)
	w.advance(time.Second)
	if w.count(eider.EventDegraded) != 0 {
		t.Error("eight planned ends are taken for a fault of this node's network")
	}
	w.want("orders/8", eider.Up, eider.StreamEnded)
}
