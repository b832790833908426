package registrytest

import (
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

var verdictCases = []testCase{
	{name: "VerdictsAreShownAsLongAsTheirStreamLasts", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("stock", "1")
		a, b := w.caller("a").follow("orders"), w.caller("b").follow("orders")
		w.breakers("orders", 2)
		a.judges(p, eider.BreakerOpen)
		b.judges(p, eider.BreakerHalfOpen)
		w.breakers("orders", 2, "orders/1: a open, b half-open")
		w.breakers("", 2, "orders/1: a open, b half-open")
		w.breakers("stock", 0)
		a.judges(p, eider.BreakerClosed)
		w.breakers("orders", 2, "orders/1: b half-open")
		b.End(replica.Lost)
		w.breakers("orders", 1)
		again := w.caller("b").follow("orders")
		again.judges(p, eider.BreakerOpen)
		w.breakers("orders", 2, "orders/1: b open")
		again.Unsubscribe("orders")
		w.breakers("orders", 1)
	}},
	{name: "VerdictsOfObserversAndStrangersSayNothing", run: func(w *world) {
		p := w.serve("orders", "1")
		w.observer("o").follow("orders").judges(p, eider.BreakerOpen)
		w.caller("c").judges(p, eider.BreakerOpen) // follows nothing
		ended := w.caller("e").follow("orders")
		ended.End(replica.Bye)
		ended.judges(p, eider.BreakerOpen)
		w.breakers("orders", 0)
	}},
	{name: "VerdictsAreNoStatus", run: func(w *world) {
		p := w.serve("orders", "1")
		var callers []*client
		for i := range 10 {
			callers = append(callers, w.caller(fmt.Sprint("c", i)).follow("orders"))
		}
		seen, dials := callers[0].views["orders"].Cursor, w.dials()
		for _, c := range callers {
			c.judges(p, eider.BreakerOpen)
		}
		w.pass(time.Second)
		w.stands("orders", "1", eider.Up, 0)
		if at := w.view("orders").Cursor; at != seen || w.dials() != dials {
			w.Errorf("ten verdicts moved the view from %s to %s, and made it dial %d times", seen, at, w.dials()-dials)
		}
		if n, _ := w.happened(eider.EventBreakerOpen, "1"); n != 1 {
			w.Errorf("ten verdicts are %d events, want 1", n)
		}
	}},
	{name: "AVerdictHasTheNodeLookForItself", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("c").follow("orders")
		p.silence()
		p.end(replica.Lost)
		w.pass(1500 * time.Millisecond)
		w.port(p.rec.Address, false)
		w.pass(time.Second)
		w.stands("orders", "1", eider.Up, eider.StreamEnded) // nobody looks
		c.judges(p, eider.BreakerOpen)
		w.pass(travel)
		w.stands("orders", "1", eider.Dead, 0)
		w.breakers("orders", 1)
	}},
}

// judges tells what the client's breaker of an instance says.
func (c *client) judges(p *process, state eider.BreakerState) {
	c.Verdicts(p.rec.Service, []eider.Verdict{{Key: p.rec.Key, Incarnation: p.rec.Incarnation, Breaker: eider.Breaker{State: state, Rule: eider.BreakerRefused, Since: time.Now()}}})
}

// breakers holds what is said of breakers to lines, and the number of callers that have a stream to say it by.
func (w *world) breakers(service string, callers int, want ...string) {
	w.Helper()
	w.pass(moment)
	list, n := w.reg.Breakers(service)
	var got []string
	for _, b := range list {
		line := b.Key.String() + ":"
		for i, s := range b.Seen {
			if i > 0 {
				line += ","
			}
			line += " " + s.Caller + " " + s.State.String()
		}
		got = append(got, line)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || n != callers {
		w.Errorf("breakers of %q: %q by %d callers, want %q by %d", service, got, n, want, callers)
	}
}
