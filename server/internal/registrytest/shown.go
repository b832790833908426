package registrytest

import (
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// fetcher is a process that polls, and shows what it has got.
type fetcher struct {
	w    *world
	poll replica.Poll
}

func (w *world) fetches(caller, service string) *fetcher {
	return &fetcher{w: w, poll: pollOf(caller, service)}
}

// fetch polls, and keeps the answer.
func (f *fetcher) fetch() *eider.View {
	f.w.Helper()
	a := f.fetchInVain()
	f.poll.Run, f.poll.Has = a.View.Cursor.Run, a.Number
	return a.View
}

// fetchInVain polls, and the answer is lost on its way.
func (f *fetcher) fetchInVain() replica.Answer {
	f.w.Helper()
	a, err := f.w.reg.(replica.Poller).Poll(f.poll)
	f.w.must(err)
	return a
}

// shownCases are about what a poller shows to have, and about who else may stand behind its name.
var shownCases = []testCase{
	{name: "AnAnswerThatIsLostSettlesNobody", run: func(w *world) {
		p := w.serve("orders", "1")
		q := w.serve("orders", "2")
		w.serve("orders", "3")
		shop := w.fetches("shop", "orders")
		shop.fetch()
		w.pass(20 * time.Second)
		p.leave()
		w.pass(time.Second)
		for range 2 {
			shop.fetchInVain()
			w.pass(9 * time.Second)
		}
		if d := w.reachedAfter(p, 40*time.Second+pollerMargin); d.Members[0].State != eider.Capped {
			w.Errorf("the member is %+v, want one that its timers cover", d.Members[0])
		}
		shop.fetch()
		shop.fetch()
		w.pass(2 * time.Minute) // it polls no more than its timers say, but it isn't forgotten
		q.leave()
		w.pass(time.Second)
		shop.fetch()
		shop.fetch()
		w.reachedAfter(q, 11*time.Second+pollerMargin) // that an answer was lost once isn't held against it
	}},
	{name: "SeveralProcessesUnderOneNameAreCoveredByTheirTimersOnly", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.serve("orders", "3")
		one, other := w.fetches("shop", "orders"), w.fetches("shop", "orders")
		one.fetch()
		w.pass(25 * time.Second)
		other.fetch()
		w.pass(5 * time.Second)
		for range 20 { // until it is long ago that one of them came with nothing
			one.fetchInVain() // 304
			w.pass(25 * time.Second)
			other.fetchInVain()
			w.pass(5 * time.Second)
		}
		p.leave()
		for range 9 {
			w.pass(time.Second)
			one.fetch() // which has let go, as it shows; the other has not
		}
		d := w.reachedAfter(p, 40*time.Second+pollerMargin)
		if m := d.Members[0]; m.State != eider.Capped {
			w.Errorf("the member is %+v, want one that its timers cover", m)
		}
	}},
	{name: "WhoComesWithNothingMayBeAnotherProcess", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.fetches("shop", "orders").fetch()
		w.pass(20 * time.Second)
		w.fetches("shop", "orders").fetch()
		p.leave()
		anew := w.fetches("shop", "orders")
		for range 9 {
			w.pass(time.Second)
			anew.fetch()
		}
		w.reachedAfter(p, 40*time.Second+pollerMargin)
	}},
	{name: "OnceTheOtherProcessIsForgottenWhatOneShowsCountsAgain", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		w.fetches("shop", "orders").fetch()
		one := w.fetches("shop", "orders")
		for range 11 { // the other one stays away
			one.fetch()
			w.pass(12 * time.Second)
		}
		p.leave()
		w.pass(time.Second)
		one.fetch()
		one.fetch()
		w.reachedAfter(p, 11*time.Second+pollerMargin)
	}},
	{name: "AnAnswerThatNobodyGaveShowsNothing", run: func(w *world) {
		for i, forge := range []func(p *replica.Poll){
			func(p *replica.Poll) { p.Run++ },     // of an earlier run of the node
			func(p *replica.Poll) { p.Has = 1e9 }, // one that is yet to come
			func(p *replica.Poll) { p.Has-- },     // somebody else's
		} {
			service := fmt.Sprint("orders-", i)
			p := w.serve(service, "1")
			w.serve(service, "2")
			shop, liar := w.fetches("shop", service), w.fetches("liar", service)
			shop.fetch()
			liar.poll.Run = shop.poll.Run
			forge(&liar.poll)
			for range 2 {
				shop.fetch()
				liar.fetchInVain()
				w.pass(10 * time.Second)
			}
			p.leave()
			w.pass(time.Second)
			w.poll("somebody", service)
			shop.fetch()
			forge(&shop.poll)
			for range 3 {
				shop.fetchInVain()
				liar.fetchInVain()
				w.pass(time.Second)
			}
			d := w.reachedAfter(p, 40*time.Second+pollerMargin)
			for _, m := range d.Members {
				if m.State != eider.Capped {
					w.Errorf("lie %d: %s is %q, want that its timers cover it", i, m.Caller, m.State)
				}
			}
		}
	}},
}
