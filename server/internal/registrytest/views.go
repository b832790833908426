package registrytest

import (
	"context"
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

var viewCases = []testCase{
	{name: "AnUnknownServiceIsAnEmptyView", run: func(w *world) {
		c := w.observer("observer").follow("unheard-of")
		v := c.views["unheard-of"]
		if len(v.Instances)+len(v.Gone) != 0 || !v.Complete {
			w.Errorf("the view is %+v, want none at all, completely", v)
		}
		if _, known := w.reg.View("unheard-of"); known {
			w.Error("watching a service makes it known")
		}
		w.serve("unheard-of", "1")
		c.read().same("unheard-of")
	}},
	{name: "ABadNameIsInvalid", run: func(w *world) {
		c := w.caller("caller")
		w.kind("a name in capitals", c.Subscribe("Orders", eider.Cursor{}, nil), eider.Invalid)
		w.kind("no name", c.Subscribe("", eider.Cursor{}, nil), eider.Invalid)
	}},
	{name: "EveryChangeArrives", run: func(w *world) {
		c, o := w.caller("caller").follow("orders"), w.observer("observer").follow("orders")
		var ps []*process
		for i := range 5 {
			ps = append(ps, w.serve("orders", fmt.Sprint(i)))
			w.pass(travel)
			c.read().same("orders")
		}
		w.must(ps[0].at.SetStatus(ps[0].rec.Key, eider.Down))
		ps[1].leave()
		ps[1].left()
		ps[2].die()
		w.pass(travel)
		c.read().same("orders")
		o.read().same("orders")
		c.sees("orders", "0", eider.Down, 0)
		c.sees("orders", "1", eider.Left, 0)
		c.sees("orders", "2", eider.Dead, 0)
		if c.snapshots != 1 || c.deltas < 6 {
			w.Errorf("%d snapshots and %d deltas, want 1 and one a change", c.snapshots, c.deltas)
		}
	}},
	{name: "ADeltaHoldsOnlyWhatChanged", run: func(w *world) {
		var last *process
		for i := range 50 {
			last = w.serve("orders", fmt.Sprint(i))
		}
		w.pass(travel)
		c := w.caller("caller").follow("orders")
		c.caught = 0
		w.must(last.at.SetStatus(last.rec.Key, eider.Down))
		w.pass(travel)
		if c.read(); c.caught != 1 {
			w.Errorf("one change of 50 instances brings %d lines, want 1", c.caught)
		}
	}},
	{name: "AChangeOfAQuietServiceGoesOutAtOnce", run: func(w *world) {
		p := w.serve("orders", "1")
		w.pass(time.Second)
		c := w.caller("caller").follow("orders")
		start := time.Now()
		w.must(p.at.SetStatus(p.rec.Key, eider.Down))
		c.read().sees("orders", "1", eider.Down, 0)
		if took := time.Since(start); took > time.Microsecond {
			w.Errorf("it took %s, want no time at all", took)
		}
	}},
	{name: "ChangesSoonAfterTravelTogether", run: func(w *world) {
		p := w.serve("orders", "1")
		w.pass(time.Second)
		c := w.caller("caller").follow("orders")
		c.counts["orders"] = 0
		for i := range 100 {
			w.must(p.at.SetStatus(p.rec.Key, []eider.Status{eider.Down, eider.Up}[i%2]))
			w.pass(travel / 1000)
		}
		w.pass(travel)
		c.read().same("orders")
		if n := c.counts["orders"]; n != 2 {
			w.Errorf("100 changes within %s came in %d frames, want 2: the first, and the rest", travel/10, n)
		}
	}},
	{name: "ALeaveFlushesTheBatchInOrder", run: func(w *world) {
		a, b := w.serve("orders", "a"), w.serve("orders", "b")
		w.pass(time.Second)
		c := w.caller("caller").follow("orders")
		start := time.Now()
		w.must(a.at.SetStatus(a.rec.Key, eider.Down))
		w.pass(moment)
		w.must(a.at.SetStatus(a.rec.Key, eider.Starting)) // waits for company
		b.leave()                                         // doesn't
		c.read().sees("orders", "b", eider.Draining, 0)
		c.sees("orders", "a", eider.Starting, 0)
		if took := time.Since(start); took > time.Microsecond {
			w.Errorf("it took %s, want no time at all", took)
		}
	}},
	{name: "R11ChurnInAnotherServiceWakesNobody", run: func(w *world) {
		a, b := w.serve("orders", "1"), w.serve("billing", "1")
		w.pass(time.Second)
		c := w.caller("caller").follow("orders")
		ended := make(chan int)
		go func() {
			wakes := 0
			for {
				if _, err := c.Next(context.Background()); err != nil {
					ended <- wakes
					return
				}
				wakes++
			}
		}()
		cursor := w.view("orders").Cursor
		for i := range 100 {
			w.must(b.at.SetStatus(b.rec.Key, []eider.Status{eider.Down, eider.Up}[i%2]))
			w.pass(travel)
		}
		if now := w.view("orders").Cursor; now != cursor {
			w.Errorf("churn in billing moved orders from %s to %s", cursor, now)
		}
		w.must(a.at.SetStatus(a.rec.Key, eider.Down))
		w.pass(travel)
		c.End(replica.Bye)
		if n := <-ended; n != 1 {
			w.Errorf("a watcher of orders woke %d times, want once, for its own", n)
		}
	}},
	{name: "ACursorResumesByDelta", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		c.End(replica.Lost)
		w.must(p.at.SetStatus(p.rec.Key, eider.Down))
		w.pass(travel)
		again := w.caller("caller")
		again.views["orders"] = c.views["orders"]
		w.must(again.Subscribe("orders", c.views["orders"].Cursor, nil))
		again.read().same("orders")
		if again.snapshots != 0 || again.deltas != 1 {
			w.Errorf("resumed with %d snapshots and %d deltas, want one delta", again.snapshots, again.deltas)
		}
	}},
	{name: "ACurrentCursorIsAnswered", run: func(w *world) {
		w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		w.must(c.Subscribe("orders", c.views["orders"].Cursor, nil))
		c.read().same("orders")
		if c.snapshots != 1 || c.deltas != 1 {
			w.Errorf("after asking again at the current cursor: %d snapshots, %d deltas; want 1 and an empty 1", c.snapshots, c.deltas)
		}
	}},
	{name: "AnOldCursorResumesBySnapshot", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		old := c.views["orders"].Cursor
		c.End(replica.Lost)
		w.flap(p, 1000)
		again := w.caller("caller")
		w.must(again.Subscribe("orders", old, nil))
		again.read().same("orders")
		if again.snapshots != 1 || again.deltas != 0 {
			w.Errorf("%d snapshots and %d deltas for a cursor 1000 changes old, want a snapshot", again.snapshots, again.deltas)
		}
	}},
	{name: "AnotherRunsCursorMeansASnapshot", run: func(w *world) {
		w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		cursor := c.views["orders"].Cursor
		for _, from := range []eider.Cursor{{Run: cursor.Run + 1, Number: cursor.Number}, {Run: cursor.Run, Number: cursor.Number + 1000}} {
			again := w.caller("another")
			w.must(again.Subscribe("orders", from, nil))
			again.read().same("orders")
			if again.snapshots != 1 || again.deltas != 0 {
				w.Errorf("%d snapshots and %d deltas from %s, want a snapshot", again.snapshots, again.deltas, from)
			}
		}
	}},
	{name: "R12ASlowReaderSkips", run: func(w *world) {
		p := w.serve("orders", "1")
		slow, quick := w.caller("slow").follow("orders"), w.caller("quick").follow("orders")
		for range 10 {
			w.flap(p, 100)
			quick.read().same("orders")
		}
		slow.read().same("orders")
		if slow.counts["orders"] > 200 || slow.snapshots != 2 {
			w.Errorf("a reader that slept through 1000 changes got %d frames, %d snapshots; want a snapshot for them", slow.counts["orders"], slow.snapshots)
		}
	}},
	{name: "R18AStuckCallerIsShownAsBehind", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		c.letGo("orders")
		behind := func() uint64 {
			callers := w.reg.Callers("orders")
			if len(callers) != 1 || callers[0].ID != "caller" || !callers[0].Stream {
				w.Fatalf("the callers are %+v", callers)
			}
			return callers[0].Behind
		}
		if n := behind(); n != 0 {
			w.Errorf("%d changes behind after an acknowledgement of the newest view", n)
		}
		never := c.views["orders"].Cursor
		never.Number += 1000
		c.Ack("orders", never, nil, nil)
		w.flap(p, 7)
		if n := behind(); n != 7 {
			w.Errorf("%d changes behind, want 7", n)
		}
		c.read().letGo("orders")
		if n := behind(); n != 0 {
			w.Errorf("%d changes behind once it has caught up", n)
		}
	}},
	{name: "R17AColdNodesViewsAreIncompleteForALease", cold: true, run: func(w *world) {
		w.serve("orders", "1")
		c, o := w.caller("caller").follow("orders"), w.observer("observer").follow("unheard-of")
		if w.reg.Node().Complete || c.views["orders"].Complete || o.views["unheard-of"].Complete {
			w.Error("a cold node says that it has heard of everybody")
		}
		w.pass(lease - time.Second)
		if c.read().same("orders"); c.views["orders"].Complete {
			w.Error("its views are complete before a lease has passed")
		}
		w.pass(1500 * time.Millisecond)
		if c.read().same("orders"); !c.views["orders"].Complete || !w.reg.Node().Complete {
			w.Error("its views aren't complete after a lease, or its callers aren't told")
		}
		if o.read(); !o.views["unheard-of"].Complete {
			w.Error("the watcher of an empty service isn't told that nobody is missing")
		}
	}},
}

// flap publishes n changes of an instance, one by one.
func (w *world) flap(p *process, n int) {
	w.Helper()
	for i := range n {
		w.must(p.at.SetStatus(p.rec.Key, []eider.Status{eider.Down, eider.Up}[i%2]))
		w.pass(2 * travel)
	}
	if n%2 == 1 {
		p.rec.Status = eider.Down
	}
}
