package registrytest

import (
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

var evidenceCases = []testCase{
	{name: "RefusedAfterItsStreamEndedIsDead", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		start := time.Now()
		p.die()
		w.pass(moment)
		w.stands("orders", "1", eider.Dead, 0)
		c.read().sees("orders", "1", eider.Dead, 0)
		if took := time.Since(start); took > time.Microsecond {
			w.Errorf("it took %s until it was published, want no time at all", took)
		}
	}},
	{name: "APortThatAcceptsForAWhileIsAskedAgain", run: func(w *world) {
		p := w.serve("orders", "1")
		p.silence()
		p.end(replica.Lost)
		w.pass(60 * time.Millisecond)
		w.stands("orders", "1", eider.Up, 0)
		w.port(p.rec.Address, false)
		w.pass(41 * time.Millisecond) // the dial at 100 ms
		w.stands("orders", "1", eider.Dead, 0)
	}},
	{name: "AcceptedProvesNothing", run: func(w *world) {
		p := w.serve("orders", "1")
		p.silence()
		before := w.dials()
		p.end(replica.Lost)
		w.pass(999 * time.Millisecond)
		w.stands("orders", "1", eider.Up, 0)
		if n := w.dials() - before; n != 4 {
			w.Errorf("%d dials, want 4: at 0, 20, 100 and 300 ms", n)
		}
		w.pass(2 * time.Millisecond)
		if _, s := w.status("orders", "1"); !s.Has(eider.StreamEnded) {
			w.Errorf("suspected of %q 1 s after its stream ended, want %q", s, eider.StreamEnded)
		}
		w.pass(lease)
		w.stands("orders", "1", eider.Lapsed, 0)
	}},
	{name: "NoAnswerProvesNothing", run: func(w *world) {
		p := w.serve("orders", "1")
		w.mu.Lock()
		w.answers[p.rec.Address] = errSilent
		w.mu.Unlock()
		p.silence()
		p.end(replica.Lost)
		w.pass(2 * time.Second)
		if s, d := w.status("orders", "1"); s != eider.Up || !d.Has(eider.StreamEnded) {
			w.Errorf("%s (%s), want UP (%s)", s, d, eider.StreamEnded)
		}
	}},
	{name: "AReattachInTimeIsNoNews", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		seen := c.views["orders"].Cursor.Number
		p.end(replica.Lost)
		w.pass(500 * time.Millisecond)
		p.again()
		w.port(p.rec.Address, false) // and a dial from before says nothing any more
		w.pass(lease)
		w.stands("orders", "1", eider.Up, 0)
		if moved := c.read().views["orders"].Cursor.Number - seen; moved > 1 {
			w.Errorf("its callers were told %d times, want once, of the attachment", moved)
		}
		if n, _ := w.happened(eider.EventSuspect, "1"); n != 0 {
			w.Error("it was suspected")
		}
	}},
	{name: "TheDeadAreRevivedByAnAttach", run: func(w *world) {
		p := w.serve("orders", "1")
		p.die()
		w.pass(moment)
		w.stands("orders", "1", eider.Dead, 0)
		w.port(p.rec.Address, true)
		p.again()
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "MovingSuspectsNobody", run: func(w *world) {
		p := w.serve("orders", "1")
		p.silence()
		before := w.dials()
		p.end(replica.Moving)
		w.pass(1500 * time.Millisecond)
		w.stands("orders", "1", eider.Up, 0)
		if w.dials() != before {
			w.Error("it was dialled")
		}
	}},
	{name: "AnAddressNeverReachableIsNoEvidence", run: func(w *world) {
		p := w.process("p")
		p.rec = record("orders", "1", 5) // its port refuses from the start
		p.register()
		w.pass(time.Second)
		p.silence()
		p.end(replica.Lost)
		w.pass(500 * time.Millisecond)
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "R16AReusedAddressEndsWhoHeldItWithoutAStream", run: func(w *world) {
		p := w.serve("orders", "1")
		p.silence()
		p.end(replica.Moving)
		next := w.process("next")
		rec := record("billing", "9", 99)
		rec.Address = p.rec.Address
		_, err := next.tryRegister(rec)
		w.must(err)
		w.pass(moment)
		w.stands("billing", "9", eider.Up, 0)
		w.stands("orders", "1", eider.Dead, 0)
	}},
	{name: "MassRefusalEndsNobody", run: func(w *world) {
		var ps []*process
		for i := range 40 {
			ps = append(ps, w.serve("orders", fmt.Sprint(i)))
		}
		w.pass(time.Minute)
		for _, p := range ps[:20] {
			p.die()
			w.pass(200 * time.Millisecond) // slower than a storm of streams
		}
		c := w.caller("c").follow("orders")
		dead := 0
		for _, g := range w.view("orders").Gone {
			if g.Status == eider.Dead {
				dead++
			}
		}
		if dead == 0 || dead > 7 {
			w.Errorf("%d of 40 are DEAD by the node's dials alone, want at most 15 %%", dead)
		}
		if n, _ := w.happened(eider.EventMassRefusal, ""); n != 1 {
			w.Errorf("%d events of a mass refusal, want 1", n)
		}
		last := ps[19]
		if s, d := w.status("orders", "19"); s != eider.Up || d == 0 {
			w.Errorf("the last one refused is %s (%s), want UP and suspect", s, d)
		}
		c.Doubt(departures([]*process{last})[0]) // somebody else sees the same
		c.read().sees("orders", "19", eider.Dead, 0)
	}},
}
