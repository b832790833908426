package registrytest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

var readerCases = []testCase{
	{name: "TheNodeDescribesItself", run: func(w *world) {
		w.serve("orders", "1")
		w.caller("c").follow("orders")
		n := w.reg.Node()
		if n.Run == 0 || !n.Ready || !n.Complete || n.Name == "" || n.Stance == "" || n.Since.IsZero() ||
			n.Services != 1 || n.Instances != 1 || n.Callers != 1 || n.Bound != longest || len(n.Void) != 0 {
			w.Errorf("the node is %+v", n)
		}
		if run := w.view("orders").Cursor.Run; run != n.Run {
			w.Errorf("cursors are of run %x, the node is %x", run, n.Run)
		}
	}},
	{name: "TimingSaysWhatAWindowIsMadeOf", run: func(w *world) {
		if got, known := w.reg.Timing("orders"); known {
			w.Errorf("nobody has ever registered, and its timing is %+v", got)
		}
		w.serve("orders", "1")
		patient := record("orders", "2", 2)
		_, err := w.process("patient").at.Register(patient, 45*time.Second, [16]byte{})
		w.must(err)
		got, known := w.reg.Timing("orders")
		if !known || got.Service != "orders" || got.Lease != 45*time.Second || got.Bound != longest || got.Cap <= 0 || got.Cap > got.Bound ||
			got.Beat <= 0 || got.SuspectAfter < got.Beat || got.SuspectAfter > got.Lease || got.Evidence <= 0 || got.Reattach <= 0 || got.Batch <= 0 || got.Unknown != 0 {
			w.Errorf("the timing is %+v", got)
		}
	}},
	{name: "AGlanceIsWhatTheListsSay", run: func(w *world) {
		if _, known := w.reg.Summary("orders"); known {
			w.Error("nobody has ever registered, and there is a summary")
		}
		a := w.serve("orders", "1")
		w.serve("orders", "2")
		w.serve("billing", "1")
		b := w.caller("c").follow("orders")
		w.caller("gone").follow("orders").End(replica.Lost)
		a.leave()
		if now, _ := w.reg.Summary("orders"); now.Draining != 1 {
			w.Errorf("who began to leave before the question is missing in %+v", now)
		}
		w.pass(moment) // its number comes when it is published, which may be between two reads
		glances := slices.Collect(w.reg.Glances())
		all := w.reg.Services()
		if len(glances) != 2 || len(all) != 2 {
			w.Fatalf("%d services at a glance, %d in the list; want 2", len(glances), len(all))
		}
		for i, g := range glances {
			timing, _ := w.reg.Timing(g.Service)
			if one, known := w.reg.Summary(g.Service); !known || one != all[i] || g.Summary != all[i] {
				w.Errorf("%+v at a glance, %+v alone, %+v in the list", g.Summary, one, all[i])
			}
			if !reflect.DeepEqual(g.Timing, timing) {
				w.Errorf("the timing at a glance is %+v, alone %+v", g.Timing, timing)
			}
		}
		if glances[0].Away != 0 || glances[1].Away != 1 || glances[1].Callers != 2 || glances[1].Draining != 1 {
			w.Errorf("at a glance: %+v", glances)
		}
		if got := w.reg.Running(); got != (replica.Running{Waiting: 1, Open: 2}) {
			w.Errorf("one drain waits for two callers, and those that run are %+v", got)
		}
		b.letGo("orders", a)
		w.pass(longest + time.Second) // the one that is away is capped
		if got := w.reg.Running(); got != (replica.Running{Finishing: 1}) {
			w.Errorf("one drain has reached its barrier, and those that run are %+v", got)
		}
		a.left()
		if got := w.reg.Running(); got != (replica.Running{}) {
			w.Errorf("none runs any more, and those that run are %+v", got)
		}
	}},
	{name: "WhoGlancesHoldsNobodyUp", run: func(w *world) {
		for i := range 600 {
			w.serve(fmt.Sprintf("s%03d", i), "1")
		}
		seen := ""
		for g := range w.reg.Glances() {
			if g.Service <= seen {
				w.Fatalf("%s comes behind %s", g.Service, seen)
			}
			if seen == "" {
				w.serve("s599", "2") // would wait for ever if the asker held the node
			}
			if seen = g.Service; seen == "s599" && g.Up != 2 {
				w.Errorf("the last of 600 was read with the first: it has %d instances, want 2", g.Up)
			}
		}
		if seen != "s599" {
			w.Errorf("the last at a glance is %s", seen)
		}
		for range w.reg.Glances() {
			break // and who has seen enough goes
		}
	}},
	{name: "EventsAreToldInOrder", run: func(w *world) {
		p := w.serve("orders", "1")
		p.leave()
		p.left()
		events, whole := w.reg.Events(0)
		var kinds []eider.EventKind
		for i, e := range events {
			if e.Seq != uint64(i)+1 || e.Time.IsZero() || i > 0 && e.Time.Before(events[i-1].Time) {
				w.Errorf("event %d is %+v", i, e)
			}
			if e.ID == "1" {
				kinds = append(kinds, e.Kind)
			}
		}
		want := []eider.EventKind{eider.EventRegistered, eider.EventLeaving, eider.EventBarrier, eider.EventLeft}
		if !whole || len(kinds) != len(want) {
			w.Fatalf("the events of one life are %q, want %q", kinds, want)
		}
		for i := range want {
			if kinds[i] != want[i] {
				w.Fatalf("the events of one life are %q, want %q", kinds, want)
			}
		}
		if rest, whole := w.reg.Events(events[1].Seq); !whole || len(rest) != len(events)-2 || rest[0].Seq != 3 {
			w.Errorf("after event 2 come %+v", rest)
		}
	}},
	{name: "EventsAreAwaited", run: func(w *world) {
		heard := make(chan time.Time)
		last := uint64(0)
		if events, _ := w.reg.Events(0); len(events) > 0 {
			last = events[len(events)-1].Seq
		}
		for range 3 {
			go func() {
				if err := w.reg.EventsWait(context.Background(), last); err != nil {
					w.Error(err)
				}
				heard <- time.Now()
			}()
		}
		w.pass(time.Hour)
		at := time.Now()
		w.serve("orders", "1")
		for range 3 {
			if took := (<-heard).Sub(at); took > time.Microsecond {
				w.Errorf("told %s after the event", took)
			}
		}
		if err := w.reg.EventsWait(context.Background(), last); err != nil {
			w.Error(err)
		}
	}},
	{name: "EventsAreBoundedAndSaySo", run: func(w *world) {
		p := w.serve("orders", "1")
		for i := range 5000 {
			w.must(p.at.SetStatus(p.rec.Key, []eider.Status{eider.Down, eider.Up}[i%2]))
		}
		events, whole := w.reg.Events(0)
		if whole || len(events) < 1000 || len(events) > 4999 {
			w.Errorf("%d events are kept of 5001, whole is %t", len(events), whole)
		}
		for i, e := range events[1:] {
			if e.Seq != events[i].Seq+1 {
				w.Fatalf("event %d follows %d", e.Seq, events[i].Seq)
			}
		}
		if _, whole := w.reg.Events(events[0].Seq - 1); !whole {
			w.Error("what is kept isn't whole")
		}
	}},
	{name: "DrainsAreListedNewestFirst", run: func(w *world) {
		a, b := w.serve("orders", "a"), w.serve("billing", "b")
		a.leave()
		a.left()
		w.pass(time.Second)
		b.leave()
		all := w.reg.Drains("")
		if len(all) != 2 || all[0].ID != "b" || all[1].ID != "a" || all[1].Status != eider.Left || all[0].Since.Before(all[1].Since) {
			w.Errorf("the drains are %+v", all)
		}
		if own := w.reg.Drains("orders"); len(own) != 1 || own[0].ID != "a" {
			w.Errorf("the drains of orders are %+v", own)
		}
	}},
}
