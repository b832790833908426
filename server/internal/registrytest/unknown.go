package registrytest

import (
	"time"

	"github.com/eiderhq/eider"
)

const unknownPause = 3 * time.Second

var unknownCases = []testCase{
	{name: "UnknownCallersAreAMemberThatOnlyItsPauseSettles", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		a := w.caller("a").follow("orders")
		p.unknown = unknownPause
		p.leave()
		w.pass(moment)
		a.read().letGo("orders", p)
		took, d := p.drained(longest)
		if took < unknownPause-time.Millisecond || took > unknownPause+time.Millisecond {
			w.Errorf("the barrier came after %s, want the pause of %s that the instance asked for", took, unknownPause)
		}
		if d.Total != 2 || len(d.Members) != 2 {
			w.Fatalf("the drain counts %+v, want a and the unknown", d)
		}
		m := d.Members[0]
		if m.Kind != eider.UnknownCallers || m.State != eider.Capped || m.Caller != "unknown" || m.Cap != unknownPause {
			w.Errorf("the unknown are %+v, want a member of that kind, capped", m)
		}
	}},
	{name: "WithoutUnknownCallersNobodyWaitsForThem", run: func(w *world) {
		p := w.serve("orders", "1")
		p.leave()
		if took, d := p.drained(longest); took > time.Microsecond || d.Total != 0 {
			w.Errorf("after %s: %+v", took, d)
		}
	}},
	{name: "UnknownCallersThatComeAfterTheLeaveCountFromTheLeave", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.caller("deaf").follow("orders")
		p.leave()
		w.pass(time.Second)
		p.unknown = longest + time.Second
		p.leave()
		_, d := p.drained(2 * longest)
		if d.Barrier < p.unknown-time.Millisecond || d.Barrier > p.unknown+time.Millisecond || d.Bound != p.unknown {
			w.Errorf("the barrier came %s after the leave, with a bound of %s; want %s", d.Barrier, d.Bound, p.unknown)
		}
	}},
	{name: "AServiceListsItsUnknownCallersWhileTheyCall", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		p.works(func(done *eider.Work) { done.Arrived, done.Completed, done.Ended, done.Unknown = 1, 1, 1, true })
		w.pass(beat)
		cs := w.reg.Callers("orders")
		if len(cs) != 1 || cs[0].Kind != eider.UnknownCallers || cs[0].ID != "unknown" || cs[0].Cap != longest || cs[0].Behind != 0 {
			w.Fatalf("the callers are %+v, want the unknown ones", cs)
		}
		if s := w.reg.Services()[0]; s.Callers != 1 || s.Behind != 0 {
			w.Errorf("the service is %+v, want 1 caller, not behind", s)
		}
		p.works(func(done *eider.Work) { done.Unknown = false })
		w.pass(beat)
		if cs = w.reg.Callers("orders"); len(cs) != 0 {
			w.Errorf("five minutes later the callers are %+v", cs)
		}
		p.works(func(done *eider.Work) { done.Unknown = true })
		w.pass(beat)
		p.leave()
		p.left()
		if cs = w.reg.Callers("orders"); len(cs) != 0 {
			w.Errorf("once the instance has left the callers are %+v", cs)
		}
	}},
}
