package registrytest

import (
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

var holdCases = []testCase{
	{name: "R7AHoldOutlivesReregistrationAndANewIncarnation", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		c := w.caller("a").follow("orders")
		h := w.hold("orders", "1")
		c.read().sees("orders", "1", eider.Up, 0)
		c.holds("orders", "1", h.Count)
		p.end(replica.Moving)
		p.again()
		w.pass(travel)
		c.read().holds("orders", "1", h.Count)
		p.leave()
		p.left()
		w.pass(travel)
		next := w.process("the next one")
		next.rec = record("orders", "1", 99)
		w.port(next.rec.Address, true)
		next.register()
		w.pass(travel)
		c.read().sees("orders", "1", eider.Up, 0)
		c.holds("orders", "1", h.Count)
		w.release("orders", "1")
		c.read().holds("orders", "1", 0)
	}},
	{name: "AHoldIsADrainOfItsOwnThatTheInstanceIsntToldOf", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		c := w.caller("a").follow("orders")
		p.notices()
		h := w.hold("orders", "1")
		if d := w.drain("orders"); d.Kind != eider.HoldDrain || d.Hold != h.Count || d.Status != eider.Up || d.Open != 1 || d.Reached || d.Over {
			w.Fatalf("held, the drain is %+v", d)
		}
		c.read().letGo("orders", p) // for a leave that nobody has begun
		w.pass(moment)
		if d := w.drain("orders"); d.Reached {
			w.Fatalf("letting go for a leave has settled a hold: %+v", d)
		}
		c.letGoOfHold("orders", p, h.Count)
		w.pass(moment)
		if d := w.drain("orders"); !d.Reached || d.Over {
			w.Fatalf("let go of, the drain is %+v", d)
		}
		if ns := p.notices(); len(ns) != 0 {
			w.Errorf("the instance was told %+v", ns)
		}
		w.release("orders", "1")
		if d := w.drain("orders"); !d.Over || d.Status != eider.Up {
			w.Errorf("released, the drain is %+v", d)
		}
	}},
	{name: "ALeaveOfAHeldInstanceAsksAgain", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		c := w.caller("a").follow("orders")
		h := w.hold("orders", "1")
		c.read().letGoOfHold("orders", p, h.Count)
		w.pass(moment)
		p.leave()
		ds := w.reg.Drains("orders") // the newest first
		if len(ds) != 2 || ds[0].Kind != eider.LeaveDrain || ds[0].Reached || ds[0].Open != 1 || !ds[1].Over {
			w.Fatalf("the drains are %+v, want one of the leave that waits, and that of the hold, over", ds)
		}
		c.read().letGo("orders", p)
		p.drained(longest)
	}},
	{name: "AHoldEndsByItself", run: func(w *world) {
		w.serve("orders", "1")
		c := w.caller("a").follow("orders")
		h, err := w.holder().Hold(eider.Key{Service: "orders", ID: "1"}, eider.Hold{Reason: "a look", Until: time.Now().Add(time.Hour)})
		if err != nil || h.Reason != "a look" {
			w.Fatalf("held: %+v, %v", h, err)
		}
		w.pass(time.Hour - time.Second)
		c.read().holds("orders", "1", h.Count)
		w.pass(time.Second + travel)
		c.read().holds("orders", "1", 0)
		if n, _ := w.happened(eider.EventHoldEnded, "1"); n != 1 {
			w.Errorf("%d events say that the hold has ended, want 1", n)
		}
	}},
	{name: "HoldsOfNobodyAreRefused", run: func(w *world) {
		w.serve("orders", "1")
		if _, err := w.holder().Hold(eider.Key{Service: "orders", ID: "l"}, eider.Hold{}); eider.KindOf(err) != eider.NotFound {
			w.Errorf("to hold who was never there: %v", err)
		}
		if err := w.holder().Release(eider.Key{Service: "orders", ID: "1"}, ""); eider.KindOf(err) != eider.NotFound {
			w.Errorf("to release who isn't held: %v", err)
		}
		if _, err := w.holder().Hold(eider.Key{Service: "orders", ID: "1"}, eider.Hold{Until: time.Now().Add(-time.Second)}); eider.KindOf(err) != eider.Invalid {
			w.Errorf("to hold until a time that has passed: %v", err)
		}
		if hs := w.holder().Holds(); len(hs) != 0 {
			w.Errorf("held are %+v", hs)
		}
	}},
}

// holder is the registry as operators use it.
func (w *world) holder() replica.Holder {
	w.Helper()
	h, ok := w.reg.(replica.Holder)
	if !ok {
		w.Fatal("this registry can't hold instances")
	}
	return h
}

func (w *world) hold(service, id string) eider.Hold {
	w.Helper()
	h, err := w.holder().Hold(eider.Key{Service: service, ID: id}, eider.Hold{Reason: "disk swap", By: "ops"})
	if err != nil {
		w.Fatal(err)
	}
	w.pass(travel)
	return h
}

func (w *world) release(service, id string) {
	w.Helper()
	if err := w.holder().Release(eider.Key{Service: service, ID: id}, "ops"); err != nil {
		w.Fatal(err)
	}
	w.pass(travel)
}

// holds holds the client's view of an instance to a hold by its count, 0 for none.
func (c *client) holds(service, id string, count uint64) {
	c.w.Helper()
	in, ok := c.views[service].Find(id)
	switch {
	case !ok:
		c.w.Errorf("%s doesn't see %s/%s", c.name, service, id)
	case count == 0 && in.Hold != nil || count > 0 && (in.Hold == nil || in.Hold.Count != count || in.Hold.Reason == ""):
		c.w.Errorf("%s sees %s/%s held by %+v, want hold %d", c.name, service, id, in.Hold, count)
	}
}

// letGoOfHold acknowledges the view that the client holds, and that it has let go of a process for a hold.
func (c *client) letGoOfHold(service string, of *process, hold uint64) {
	deps := departures([]*process{of})
	deps[0].Hold = hold
	c.Ack(service, c.views[service].Cursor, deps, nil)
}
