package registrytest

import (
	"net/netip"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// pollerMargin is what a poller's timers get on top, for a poll that is on its way.
const pollerMargin = time.Second

// poll asks as one that fetches every 30 s and caches for 10 s more.
func (w *world) poll(caller, service string) *eider.View {
	w.Helper()
	a, err := w.reg.(replica.Poller).Poll(pollOf(caller, service))
	w.must(err)
	return a.View
}

func pollOf(caller, service string) replica.Poll {
	return replica.Poll{Caller: caller, Service: service, Every: 30 * time.Second, Cache: 10 * time.Second, Addr: loopback()}
}

// reachedAfter holds a drain's barrier to a time after the leave.
func (w *world) reachedAfter(p *process, want time.Duration) eider.Drain {
	w.Helper()
	_, d := p.drained(5 * time.Minute)
	if d.Barrier < want || d.Barrier > want+time.Millisecond {
		w.Errorf("the barrier was reached %s after the leave, want %s: %+v", d.Barrier, want, d.Members)
	}
	return d
}

var pollerCases = []testCase{
	{name: "APollerThatStaysAwayIsCoveredByItsTimers", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		if v := w.poll("shop", "orders"); len(v.Instances) != 2 {
			w.Fatalf("the poll sees %+v", v)
		}
		w.pass(time.Second)
		p.leave()
		if d := w.drain("orders"); d.Total != 1 || d.Open != 1 || d.Bound != 40*time.Second+pollerMargin ||
			d.Members[0].String() != "shop (poller: fetch 30s + cache 10s, ≤ 41s)" {
			w.Fatalf("the drain is %+v", d)
		}
		d := w.reachedAfter(p, 40*time.Second+pollerMargin)
		if m := d.Members[0]; m.State != eider.Capped || m.Kind != eider.Poller {
			w.Errorf("the member is %+v, want a poller, capped", m)
		}
	}},
	{name: "WhoShowsAListFromAfterTheLeaveIsSettledOnceTheCacheHasRunOut", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		shop := w.fetches("shop", "orders")
		shop.fetch()
		w.pass(20 * time.Second)
		p.leave()
		w.pass(5 * time.Second)
		if v := shop.fetch(); v.Instances[0].Status != eider.Draining {
			w.Fatalf("a poll after the leave sees %+v", v)
		}
		w.pass(2 * time.Second)
		shop.fetch()
		w.pass(7 * time.Second)
		if w.drain("orders").Reached {
			w.Fatal("the barrier was reached while the poller's cache may still hold the older list")
		}
		d := w.reachedAfter(p, 17*time.Second+pollerMargin)
		if m := d.Members[0]; m.State != eider.Polled || d.Open != 0 {
			w.Errorf("the member is %+v, want one that has polled", m)
		}
		if n, _ := w.happened(eider.EventCapped, ""); n != 0 {
			w.Errorf("%d were capped", n)
		}
	}},
	{name: "APollAtTheEndOfTheTimersDoesNotLengthenThem", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.poll("shop", "orders")
		p.leave()
		w.pass(39 * time.Second)
		w.poll("shop", "orders")
		w.reachedAfter(p, 40*time.Second+pollerMargin)
	}},
	{name: "TheFirstListFromAfterTheLeaveCounts", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		shop := w.fetches("shop", "orders")
		shop.fetch()
		w.pass(30 * time.Second)
		p.leave()
		for range 9 {
			w.pass(time.Second)
			shop.fetch()
		}
		w.reachedAfter(p, 12*time.Second+pollerMargin)
	}},
	{name: "WhoPollsFirstAfterTheLeaveOwesItsCache", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.caller("deaf").follow("orders")
		p.leave()
		w.pass(time.Second)
		late := w.fetches("late", "orders")
		late.fetch()
		if d := w.drain("orders"); d.Total != 2 {
			w.Fatalf("the drain counts %+v", d)
		}
		w.pass(time.Second)
		late.fetch()
		w.reachedAfter(p, 12*time.Second+pollerMargin)
	}},
	{name: "APollerIsForgottenAfterThreeTimesItsTimers", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.poll("shop", "orders")
		w.pass(2 * time.Minute)
		cs := w.reg.Callers("orders")
		if len(cs) != 1 || cs[0].ID != "shop" || cs[0].Kind != eider.Poller || cs[0].Every != 30*time.Second ||
			cs[0].Cache != 10*time.Second || cs[0].Cap != 40*time.Second+pollerMargin || cs[0].Stream {
			w.Fatalf("the callers are %+v", cs)
		}
		w.pass(pollerMargin)
		if cs := w.reg.Callers("orders"); len(cs) != 0 {
			w.Fatalf("after three times its timers the callers are %+v", cs)
		}
		p.leave()
		if took, d := p.drained(moment); d.Total != 0 {
			w.Errorf("after %s: %+v", took, d)
		}
	}},
	{name: "APollInAnothersNameSettlesNobodyElse", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.poll("shop", "orders")
		w.pass(20 * time.Second)
		p.leave()
		w.pass(time.Second)
		for _, forged := range []replica.Poll{
			{Addr: netip.MustParseAddr("10.9.9.9")},
			{Addr: loopback(), Identity: "token thief"},
		} {
			forged.Caller, forged.Service, forged.Every = "shop", "orders", time.Second
			_, err := w.reg.(replica.Poller).Poll(forged)
			w.must(err)
		}
		if d := w.drain("orders"); d.Total != 3 {
			w.Errorf("the drain counts %+v, want the one that polled before, and two others", d)
		}
		d := w.reachedAfter(p, 40*time.Second+pollerMargin)
		if m := d.Members[0]; m.Caller != "shop" || m.State != eider.Capped {
			w.Errorf("the member is %+v, want the poller, capped", m)
		}
	}},
	{name: "AShorterWordCountsOnceTheLongerOneHasRunOut", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.poll("shop", "orders")
		w.pass(30 * time.Second)
		short := pollOf("shop", "orders")
		short.Every, short.Cache = time.Second, 0
		poll := func() {
			_, err := w.reg.(replica.Poller).Poll(short)
			w.must(err)
		}
		poll()
		if cs := w.reg.Callers("orders"); cs[0].Cap != 40*time.Second+pollerMargin {
			w.Errorf("at once the cap is %s: what was cached before is still in use", cs[0].Cap)
		}
		w.pass(11 * time.Second)
		poll()
		if cs := w.reg.Callers("orders"); cs[0].Cap != time.Second+pollerMargin {
			w.Errorf("later the cap is %s", cs[0].Cap)
		}
		p.leave()
		w.reachedAfter(p, time.Second+pollerMargin)
	}},
	{name: "TheBoundKnowsTheSlowestPoller", run: func(w *world) {
		p := w.serve("orders", "1")
		p.notices()
		w.serve("billing", "1")
		w.poll("shop", "orders")
		w.pass(time.Second)
		var told time.Duration
		for _, n := range p.notices() {
			told = n.Bound
		}
		if told < 40*time.Second+pollerMargin {
			w.Errorf("the instance was told a bound of %s, want at least what the poller may take", told)
		}
		q := w.process("q")
		q.rec = record("billing", "2", 50)
		if g := q.register(); g.Bound != longest {
			w.Errorf("a service without pollers has a bound of %s", g.Bound)
		}
		w.pass(3 * time.Minute)
		for _, n := range p.notices() {
			told = n.Bound
		}
		if told != longest {
			w.Errorf("once the poller is forgotten the bound is %s", told)
		}
	}},
	{name: "ANameThatHasAStreamDoesNotPoll", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		a := w.caller("a").follow("orders")
		_, err := w.reg.(replica.Poller).Poll(pollOf("a", "orders"))
		w.kind("a poll in a's name", err, eider.Conflict)
		w.poll("b", "orders")
		b := w.caller("b").follow("orders")
		p.leave()
		w.pass(moment)
		a.read().letGo("orders", p)
		b.read().letGo("orders", p)
		d := w.drain("orders")
		if d.Total != 3 || d.Open != 1 || d.Members[0].Caller != "b" || d.Members[0].Kind != eider.Poller {
			w.Errorf("a stream in the poller's name let go for it: %+v", d)
		}
	}},
	{name: "WhatAPollSays", run: func(w *world) {
		w.serve("orders", "1")
		poller := w.reg.(replica.Poller)
		_, err := poller.Poll(replica.Poll{Service: "orders", Every: time.Hour, Cache: -1})
		w.kind("a poll out of bounds", err, eider.Invalid)
		for _, field := range []string{"caller", "every", "cache"} {
			if err != nil && !strings.Contains(err.Error(), field+":") {
				w.Errorf("the error doesn't name %s: %v", field, err)
			}
		}
		_, err = poller.Poll(pollOf("shop", "nobody"))
		w.kind("a poll of a service that nobody knows", err, eider.NotFound)
		if n := len(w.reg.Callers("")); n != 0 {
			w.Errorf("%d callers came of polls that were refused", n)
		}
	}},
	{name: "APollIsExactOnlyWithoutChangesThatHaveNoNumberYet", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.pass(time.Second)
		poller := w.reg.(replica.Poller)
		before, err := poller.Poll(pollOf("shop", "orders"))
		w.must(err)
		if !before.Exact {
			w.Fatal("a quiet service isn't exact")
		}
		p.leave()
		a, err := poller.Poll(pollOf("shop", "orders")) // before Run has published the leave
		w.must(err)
		if v := a.View; v.Instances[0].Status != eider.Draining || a.Exact && v.Cursor == before.View.Cursor {
			w.Errorf("a poll after the leave says %+v at the cursor from before it, exact is %t", v.Instances[0].Status, a.Exact)
		}
		w.pass(moment)
		if a, _ = poller.Poll(pollOf("shop", "orders")); !a.Exact {
			w.Error("once the leave is published the view isn't exact")
		}
	}},
}
