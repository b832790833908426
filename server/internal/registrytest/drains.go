package registrytest

import (
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

var drainCases = []testCase{
	{name: "ADrainEndsWhenTheLastCallerHasLetGo", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		a, b := w.caller("a").follow("orders"), w.caller("b").follow("orders")
		p.notices()
		p.leave()
		ns := p.notices()
		if len(ns) != 1 || ns[0].Drain.Total != 2 || ns[0].Drain.Open != 2 || ns[0].Drain.Reached || ns[0].Drain.Bound != longest {
			w.Fatalf("at once after the leave come %+v, want a drain that waits for 2 of 2, at most %s", ns, longest)
		}
		a.read().sees("orders", "1", eider.Draining, 0)
		b.read().sees("orders", "1", eider.Draining, 0)
		w.pass(200 * time.Millisecond)
		a.letGo("orders", p)
		if ns = p.notices(); len(ns) != 1 || ns[0].Drain.Open != 1 {
			w.Fatalf("after one has let go: %+v", ns)
		}
		w.pass(time.Millisecond)
		b.letGo("orders", p)
		took, d := p.drained(longest)
		if took > time.Microsecond || d.Open != 0 || d.Total != 2 {
			w.Errorf("told of the barrier after %s: %+v", took, d)
		}
		if d.Barrier < 201*time.Millisecond || d.Barrier > 202*time.Millisecond {
			w.Errorf("the barrier was reached %s after the leave, want 201ms", d.Barrier)
		}
		p.left()
		a.read().sees("orders", "1", eider.Left, 0)
		if d := w.drain("orders"); d.Status != eider.Left || !d.Reached {
			w.Errorf("the drain's end is %+v", d)
		}
	}},
	{name: "WithoutCallersTheBarrierIsReachedAtOnce", run: func(w *world) {
		p := w.serve("orders", "1")
		p.leave()
		if took, d := p.drained(longest); took > time.Microsecond || d.Total != 0 {
			w.Errorf("after %s: %+v", took, d)
		}
	}},
	{name: "LeaveIsIdempotentAndAnswersEachTime", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.caller("a").follow("orders")
		p.leave()
		p.notices()
		w.pass(10 * time.Millisecond)
		p.leave()
		if ns := p.notices(); len(ns) != 1 || ns[0].Drain.ID != "1" {
			w.Errorf("a second leave is answered by %+v, want where the drain stands", ns)
		}
		if n, _ := w.happened(eider.EventLeaving, "1"); n != 1 {
			w.Errorf("%d leaves", n)
		}
	}},
	{name: "D18SilenceOfConnectionsIsNoLetGo", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		c := w.caller("slow").follow("orders")
		p.leave()
		w.pass(7 * time.Second) // nothing is sent, nothing is called: it still holds the address
		if d := w.drain("orders"); d.Reached {
			w.Fatalf("the barrier was reached though nobody has let go: %+v", d)
		}
		c.read().letGo("orders", p)
		if took, _ := p.drained(longest); took > time.Microsecond {
			w.Errorf("told %s after the last let-go", took)
		}
	}},
	{name: "D15TheBoundHoldsWhenNobodyAcknowledges", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.caller("deaf").follow("orders")
		p.leave()
		took, d := p.drained(longest + time.Second)
		if took < longest-time.Millisecond || took > longest+time.Millisecond {
			w.Errorf("the barrier came after %s, want the cap of %s", took, longest)
		}
		if len(d.Members) != 1 || d.Members[0].Caller != "deaf" || d.Members[0].State != eider.Capped {
			w.Errorf("the members are %+v, want deaf, capped", d.Members)
		}
		if n, _ := w.happened(eider.EventCapped, ""); n != 1 {
			w.Errorf("%d events name who was capped, want 1", n)
		}
	}},
	{name: "WhoSubscribesAfterTheLeaveOwesALetGo", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		a := w.caller("a").follow("orders")
		p.leave()
		w.pass(moment)
		late := w.caller("late").follow("orders")
		late.sees("orders", "1", eider.Draining, 0)
		a.read().letGo("orders", p)
		w.pass(moment)
		if d := w.drain("orders"); d.Reached || d.Open != 1 || d.Total != 2 {
			w.Fatalf("with one that came late: %+v", d)
		}
		late.letGo("orders", p)
		p.drained(moment)
	}},
	{name: "WhatWasLetGoElsewhereIsNamedOnSubscribing", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.caller("a").follow("orders")
		p.leave()
		moved := w.caller("moved")
		w.must(moved.Subscribe("orders", eider.Cursor{}, departures([]*process{p})))
		if d := w.drain("orders"); d.Open != 1 {
			w.Errorf("%d are waited for, want a alone: %+v", d.Open, d)
		}
	}},
	{name: "AGoodbyeIsNotWaitedFor", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		a, b, c := w.caller("a").follow("orders"), w.caller("b").follow("orders"), w.caller("c").follow("orders")
		a.End(replica.Bye)
		p.leave()
		if d := w.drain("orders"); d.Total != 2 {
			w.Errorf("%d members, want the 2 that haven't said goodbye: %+v", d.Total, d)
		}
		b.End(replica.Bye)
		c.Unsubscribe("orders")
		if took, _ := p.drained(longest); took > time.Microsecond {
			w.Errorf("told %s after the last goodbye", took)
		}
	}},
	{name: "ALostCallerIsWaitedForUnderItsCap", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.caller("a").follow("orders").End(replica.Lost)
		w.pass(30 * time.Second)
		p.leave()
		d := w.drain("orders")
		if d.Total != 1 || d.Open != 1 || d.Members[0].Stream {
			w.Fatalf("30 s after its stream ended without a goodbye: %+v", d)
		}
		back := w.caller("a").follow("orders")
		back.letGo("orders", p)
		p.drained(moment)
	}},
	{name: "ObserversNeverDelay", run: func(w *world) {
		p := w.serve("orders", "1")
		o := w.observer("page").follow("orders")
		p.leave()
		if took, d := p.drained(longest); took > time.Microsecond || d.Total != 0 {
			w.Errorf("an observer delays a drain: %s, %+v", took, d)
		}
		o.keeps("orders", p) // and what it says doesn't count
		if len(w.reg.Callers("")) != 0 {
			w.Errorf("an observer is a caller: %+v", w.reg.Callers(""))
		}
	}},
	{name: "NoAlternativeIsWaitedForAndShown", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("c").follow("orders")
		p.leave()
		c.read().keeps("orders", p)
		w.pass(time.Second)
		if d := w.drain("orders"); d.Open != 1 || d.Members[0].State != eider.NoAlternative {
			w.Fatalf("the drain of the last instance is %+v, want one without an alternative", d)
		}
		w.serve("orders", "2")
		c.read().letGo("orders", p)
		p.drained(moment)
	}},
	{name: "ACallersEndIsItsGoodbye", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		other := w.process("checkout")
		other.rec = record("checkout", "9", 99)
		w.port(other.rec.Address, true)
		other.register()
		w.pass(moment)
		c := w.caller("checkout").follow("orders")
		p.leave()
		w.pass(100 * time.Millisecond)
		c.End(replica.Lost)
		other.die()
		w.pass(moment)
		if d := w.drain("orders"); !d.Reached || d.Members[0].State != eider.Ended {
			w.Errorf("its own instance is DEAD, and it is still waited for: %+v", d)
		}
	}},
	{name: "ProgressIsThrottledButTheBarrierIsNot", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		var cs []*client
		for i := range 40 {
			cs = append(cs, w.caller(fmt.Sprint("c", i)).follow("orders"))
		}
		p.leave()
		told, start := 0, time.Now()
		for _, c := range cs {
			w.pass(10 * time.Millisecond)
			c.read().letGo("orders", p)
			told += len(p.notices())
		}
		if took := time.Since(start); told < 4 || told > 6 {
			w.Errorf("told %d times within %s of 40 let-gos, want about once in %s, and the barrier", told, took, progress)
		}
		if !w.drain("orders").Reached {
			w.Error("the barrier wasn't reached")
		}
	}},
	{name: "TheNewestNoticeWins", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		a, b := w.caller("a").follow("orders"), w.caller("b").follow("orders")
		p.leave()
		w.pass(time.Second)
		a.read().letGo("orders", p)
		w.pass(time.Second)
		b.read().letGo("orders", p)
		w.pass(time.Second)
		drains := 0
		for _, n := range p.notices() {
			if n.Drain.ID != "" {
				if drains++; !n.Drain.Reached || n.Drain.Open != 0 {
					w.Errorf("an old notice came late: %+v", n.Drain)
				}
			}
		}
		if drains != 1 {
			w.Errorf("%d notices for a process that didn't listen, want the newest", drains)
		}
	}},
	{name: "ANewStreamInMidDrainHearsOfIt", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		c := w.caller("c").follow("orders")
		p.leave()
		w.pass(100 * time.Millisecond)
		p.end(replica.Lost)
		w.pass(200 * time.Millisecond)
		p.rec.Status = eider.Draining
		p.again()
		p.leave()
		c.read().sees("orders", "1", eider.Draining, 0)
		if ns := p.notices(); len(ns) == 0 || ns[0].Drain.Open != 1 {
			w.Fatalf("the new stream is told %+v, want where the drain stands", ns)
		}
		c.letGo("orders", p)
		if took, d := p.drained(longest); took > time.Microsecond || d.Barrier < 300*time.Millisecond {
			w.Errorf("the barrier is told after %s, of %+v; want at once, and counted from the first leave", took, d)
		}
	}},
	{name: "DeathInMidDrainEndsIt", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		c := w.caller("c").follow("orders")
		p.leave()
		w.pass(100 * time.Millisecond)
		p.die()
		w.pass(moment)
		c.read().sees("orders", "1", eider.Dead, 0)
		if d := w.drain("orders"); d.Status != eider.Dead {
			w.Errorf("the drain is %+v, want it ended by DEAD", d)
		}
	}},
	{name: "AColdNodesBarrierIsNeverVacuous", cold: true, run: func(w *world) {
		w.pass(time.Second)
		p := w.serve("orders", "1")
		p.leave()
		took, d := p.drained(longest)
		if took < longest-time.Second-10*time.Millisecond || took > longest-time.Second+10*time.Millisecond {
			w.Errorf("the barrier came after %s; callers from before may be there until %s after the start", took, longest)
		}
		if len(d.Members) != 1 || d.Members[0].Kind != eider.FromBefore {
			w.Errorf("the members are %+v, want the callers from before", d.Members)
		}
	}},
	{name: "AChangedBoundIsPushed", run: func(w *world) {
		p := w.serve("orders", "1")
		w.caller("a").follow("orders")
		post, ok := w.reg.(replica.Postponer)
		if !ok {
			w.Fatal("it doesn't hear of retry-afters")
		}
		post.PostponeCaller(replica.Peer{Caller: "a"}, 20*time.Second) // told to come back then: until then it can't let go
		if b := w.reg.Node().Bound; b < longest+19*time.Second {
			w.Errorf("the bound is %s for a caller told to come back in 20s", b)
		}
		w.pass(2 * time.Second)
		ns := p.notices()
		if len(ns) != 1 || ns[0].Key != p.rec.Key || ns[0].Bound < w.reg.Node().Bound {
			w.Fatalf("the bound grew to %s, and its process is told %+v", w.reg.Node().Bound, ns)
		}
		w.pass(time.Minute)
		if ns = p.notices(); len(ns) != 1 || ns[0].Key != p.rec.Key || ns[0].Bound != longest {
			w.Errorf("the bound is %s again, and its process is told %+v", w.reg.Node().Bound, ns)
		}
	}},
}
