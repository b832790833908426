package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

func TestR15SecondHolderIsRefused(t *testing.T) {
	w := fresh(t)
	first := w.mustRegister("p", "orders/1", "10.0.0.1:81")
	_, err := w.register("q", "orders/1", "10.0.0.2:81")
	if eider.KindOf(err) != eider.Conflict || !strings.Contains(err.Error(), "10.0.0.1:81") {
		t.Fatalf("a second live process with the id: %v", err)
	}
	if in, _ := w.tb.Instance(key("orders/1")); !in.Record.Equal(&first.Record) {
		t.Errorf("it overwrote the first: %+v", in)
	}
	if w.count(eider.EventRefused) != 1 {
		t.Error("no event tells of the refusal")
	}
	// The first is stopped for two beats: now it is suspect, and the second is let in.
	w.actor("p").beats = false
	w.advance(5 * time.Second)
	grant := w.mustRegister("q", "orders/1", "10.0.0.2:81")
	if grant.Record.Incarnation.Number != 2 {
		t.Errorf("the second is incarnation %s, want number 2", grant.Record.Incarnation)
	}
	// And the first, resumed, is told to attach anew, which is too late.
	w.saw(w.tb.Beat(w.now, w.actor("p").session))
	if len(w.last.End) != 1 {
		t.Errorf("the superseded process isn't told: %+v", w.last)
	}
	if _, err := w.register("p", "orders/1", "10.0.0.1:81"); eider.KindOf(err) != eider.Stale {
		t.Errorf("the superseded process is back: %v", err)
	}
}

func TestD17TheOldOnesDeleteDoesntRemoveTheNew(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	old := w.actor("p").session
	w.actor("p").beats = false
	w.advance(5 * time.Second)
	w.mustRegister("q", "orders/1", "10.0.0.2:81")
	for name, call := range map[string]func() (Effects, error){
		"leave":  func() (Effects, error) { return w.tb.Leave(w.now, old, key("orders/1"), 0) },
		"left":   func() (Effects, error) { return w.tb.Left(w.now, old, key("orders/1")) },
		"status": func() (Effects, error) { return w.tb.SetStatus(w.now, old, key("orders/1"), eider.Down) },
	} {
		fx, err := call()
		if eider.KindOf(err) != eider.Stale || len(fx.Changed) != 0 {
			t.Errorf("%s of the old one: %+v, %v; want Stale", name, fx, err)
		}
	}
	w.detach("p", Lost)
	w.want("orders/1", eider.Up, 0)
	if _, err := w.tb.Leave(w.now, w.actor("q").session, key("orders/9"), 0); eider.KindOf(err) != eider.NotFound {
		t.Errorf("leave of an unknown key: %v", err)
	}
}

func TestD16LateWordsOfAnOlderIncarnation(t *testing.T) {
	w := fresh(t)
	first := w.mustRegister("p", "orders/1", "10.0.0.1:81").Record
	w.advance(time.Second)
	w.kill("p")
	w.advance(time.Second)
	w.want("orders/1", eider.Dead, 0)
	w.ports["10.0.0.1:81"] = Accepted
	second := w.mustRegister("q", "orders/1", "10.0.0.1:81").Record
	if second.Incarnation.Number != first.Incarnation.Number+1 {
		t.Fatalf("numbers %s and %s: the tombstone's doesn't count", first.Incarnation, second.Incarnation)
	}
	a := w.attach("ghost")
	for _, in := range []eider.Incarnation{first.Incarnation, {Nonce: first.Incarnation.Nonce}} {
		late := first
		late.Incarnation, late.Attachment = in, 9
		_, fx, err := w.tb.Register(w.now, a.session, late, 0, Proof{})
		if eider.KindOf(err) != eider.Stale || len(fx.Changed) != 0 {
			t.Errorf("a late register as %s: %+v, %v; want Stale", in, fx, err)
		}
	}
	w.saw(w.tb.Apply(w.now, first, "b")) // a late write on another node
	if in, _ := w.tb.Instance(key("orders/1")); !in.Record.Equal(&second) {
		t.Errorf("a late word changed the record: %+v", in)
	}
}

func TestD16AttachmentsRise(t *testing.T) {
	w := fresh(t)
	grant := w.mustRegister("p", "orders/1", "10.0.0.1:81")
	if grant.Record.Attachment != 1 || grant.Record.Version != 1 {
		t.Fatalf("first attach: %d.%d", grant.Record.Attachment, grant.Record.Version)
	}
	a := w.actor("p")
	a.instances[key("orders/1")].Attachment = 4
	if got := w.mustRegister("p", "orders/1", "10.0.0.1:81").Record; got.Attachment != 5 || got.Version != 1 {
		t.Errorf("a later attach: %d.%d, want 5.1", got.Attachment, got.Version)
	}
	for _, late := range []uint64{3, 4} {
		a.instances[key("orders/1")].Attachment = late
		if _, err := w.register("p", "orders/1", "10.0.0.1:81"); eider.KindOf(err) != eider.Stale {
			t.Errorf("attachment %d after 5: %v, want Stale", late+1, err)
		}
	}
	if in, _ := w.tb.Instance(key("orders/1")); in.Attachment != 5 {
		t.Errorf("a late attach counted: %d", in.Attachment)
	}
}

func TestLeftIsFinalForItsIncarnation(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	w.leave("p", "orders/1")
	if fx, err := w.tb.SetStatus(w.now, w.actor("p").session, key("orders/1"), eider.Up); err != nil || len(fx.Changed) != 0 {
		t.Errorf("a status after the leave: %+v, %v; want nothing", fx, err)
	}
	w.detach("p", Lost)
	w.attach("p")
	if got := w.mustRegister("p", "orders/1", "10.0.0.1:81").Record.Status; got != eider.Draining {
		t.Errorf("attached again as UP after the leave it is %s", got)
	}
	w.left("p", "orders/1")
	if _, err := w.register("p", "orders/1", "10.0.0.1:81"); eider.KindOf(err) != eider.Stale {
		t.Errorf("registered after LEFT: %v, want Stale", err)
	}
	if d := w.drain("orders/1"); d.Status != eider.Left || w.count(eider.EventLeaving) != 1 {
		t.Errorf("the drain: %s, begun %d times", d.Status, w.count(eider.EventLeaving))
	}
}

func TestR16NewRegistrationEndsWhoHeldTheAddress(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	w.mustRegister("p", "audit/1", "10.0.0.1:81") // one process, two services, one port
	w.mustRegister("r", "orders/2", "10.0.0.1:82")
	w.ports["10.0.0.1:81"] = NoAnswer
	w.mustRegister("q", "billing/1", "10.0.0.1:81")
	w.want("orders/1", eider.Up, 0) // its stream is up: not for us to judge
	w.detach("p", Lost)
	w.attach("p")
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	w.want("audit/1", eider.Up, 0) // the same process, only late to attach again
	w.detach("p", Lost)
	w.detach("q", Lost)
	w.mustRegister("z", "new/1", "10.0.0.1:81")
	for _, k := range []string{"orders/1", "audit/1", "billing/1"} {
		w.want(k, eider.Dead, 0)
	}
	if !w.last.Flush {
		t.Error("and that isn't published at once")
	}
	w.want("orders/2", eider.Up, 0)
}

func TestSwappedPorts(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "a/1", "10.0.0.1:81")
	w.mustRegister("q", "b/1", "10.0.0.1:82")
	w.detach("p", Lost)
	w.detach("q", Lost)
	w.mustRegister("p2", "a/1", "10.0.0.1:82")
	w.mustRegister("q2", "b/1", "10.0.0.1:81")
	for k, address := range map[string]string{"a/1": "10.0.0.1:82", "b/1": "10.0.0.1:81"} {
		in, ok := w.tb.Instance(key(k))
		if !ok || in.Address != address || in.Incarnation.Number != 2 {
			t.Errorf("%s: %+v, want it at %s as number 2", k, in.Record, address)
		}
	}
	w.advance(5 * time.Second)
	if n := len(w.tb.addresses); n != 2 {
		t.Errorf("%d addresses are held, want 2", n)
	}
}

func TestInvalidRegistrations(t *testing.T) {
	w := fresh(t)
	good := eider.Record{Key: key("orders/1"), Incarnation: eider.Incarnation{Nonce: 1}, Attachment: 1, Status: eider.Up, Address: "10.0.0.1:81"}
	for name, change := range map[string]func(*eider.Record){
		"service":    func(r *eider.Record) { r.Service = "Orders!" },
		"id":         func(r *eider.Record) { r.ID = "" },
		"address":    func(r *eider.Record) { r.Address = "10.0.0.1" },
		"nonce":      func(r *eider.Record) { r.Incarnation.Nonce = 0 },
		"attachment": func(r *eider.Record) { r.Attachment = 0 },
		"status":     func(r *eider.Record) { r.Status = eider.Left },
	} {
		rec := good
		change(&rec)
		_, fx, err := w.tb.Register(w.now, w.attach(name).session, rec, 0, Proof{})
		if eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if len(fx.Events) != 1 || fx.Events[0].Kind != eider.EventRefused {
			t.Errorf("%s: %+v", name, fx)
		}
	}
	if _, _, err := w.tb.Register(w.now, 999, good, 0, Proof{}); eider.KindOf(err) != eider.Stale {
		t.Errorf("on a stream that has ended: %v", err)
	}
	if c := w.tb.Counts(); c.Instances+c.Services != 0 {
		t.Errorf("something was kept of them: %+v", c)
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, Config{Fresh: true, MaxInstances: 3, MaxServices: 2, MaxCallers: 2, MaxTombstones: 2})
	limited := func(err error) {
		t.Helper()
		var e *eider.Error
		if eider.KindOf(err) != eider.Limited {
			t.Errorf("got %v, want Limited", err)
		} else if e, _ = err.(*eider.Error); e.RetryAfter == 0 {
			t.Errorf("%v doesn't say when to come back", err)
		}
	}
	w.mustRegister("p1", "orders/1", "10.0.0.1:81")
	w.mustRegister("p2", "billing/1", "10.0.0.1:82")
	_, err := w.register("p3", "third/1", "10.0.0.1:83")
	limited(err)
	w.mustRegister("p4", "orders/2", "10.0.0.1:84")
	_, err = w.register("p5", "orders/3", "10.0.0.1:85")
	limited(err)
	w.detach("p4", Lost)
	w.mustRegister("p4", "orders/2", "10.0.0.1:84") // a known one is always let back in
	w.follow("c1", "orders")
	w.follow("c2", "orders")
	w.follow("c3")
	_, err = w.tb.Subscribe(w.now, w.actor("c3").follower, "orders", nil)
	limited(err)
	_, err = w.tb.Subscribe(w.now, w.actor("c1").follower, "third", nil)
	limited(err)
	for i := range 5 { // tombstones: the oldest make room
		k := fmt.Sprint("orders/", 10+i)
		w.left("p4", "orders/2")
		delete(w.actor("p4").instances, key("orders/2"))
		w.mustRegister("p6", k, "10.0.0.1:86")
		w.left("p6", k)
		w.mustRegister("p4", "orders/2", "10.0.0.1:84")
	}
	w.left("p4", "orders/2")
	if got := w.tb.Counts().Tombstones; got != 2 {
		t.Errorf("%d tombstones, want 2", got)
	}
}

func TestTombstonesAreForgottenAfterTheirRetention(t *testing.T) {
	w := newWorld(t, Config{Fresh: true, Retention: time.Minute})
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	w.left("p", "orders/1")
	w.advance(59 * time.Second)
	if w.status("orders/1") != eider.Left || !w.tb.Knows("orders") {
		t.Error("forgotten too early")
	}
	w.advance(2 * time.Second)
	if w.status("orders/1") != eider.StatusUnknown || w.tb.Knows("orders") || w.tb.Counts().Tombstones != 0 {
		t.Errorf("not forgotten: %+v", w.tb.Counts())
	}
}

// A number at the end of all numbers would leave none for the next process of that id: callers would take it for
// an older one, and keep the dead. No node gave it, and it counts for nothing.
func TestNumbersDontRunOut(t *testing.T) {
	w := fresh(t)
	for i, number := range []uint64{1<<64 - 1, maxNumber + 1, maxNumber} {
		name, before := fmt.Sprint("p", i), w.tb.find(key("orders/1"))
		var last uint64
		if before != nil {
			last = before.rec.Incarnation.Number
		}
		grant := w.mustRegister(name, "orders/1", "10.0.0.1:81", func(r *eider.Record) { r.Incarnation.Number = number })
		if got := grant.Record.Incarnation.Number; got <= last || number > maxNumber && got != last+1 {
			t.Errorf("%d is registered as %s, after %d", number, grant.Record.Incarnation, last)
		}
		w.left(name, "orders/1")
	}
	grant := w.mustRegister("p9", "orders/1", "10.0.0.1:81")
	w.detach("p9", Lost)
	again := w.mustRegister("p9", "orders/1", "10.0.0.1:81")
	if again.Record.Incarnation != grant.Record.Incarnation || grant.Record.Incarnation.Number != maxNumber+1 {
		t.Errorf("%s has attached again as %s", grant.Record.Incarnation, again.Record.Incarnation)
	}
}
