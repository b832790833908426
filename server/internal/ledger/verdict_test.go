package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
)

// auditVerdicts counts what callers say anew.
func auditVerdicts(tb *Table) error {
	n := 0
	for _, svc := range tb.services {
		for id, x := range svc.tripped {
			var states [eider.BreakerStates]int
			for p, v := range x.verdicts {
				f := tb.followers[v.said]
				if v.by != p || v.on != x || int(v.index) >= len(p.verdicts) || p.verdicts[v.index] != v || tb.processes[p.name] != p {
					return fmt.Errorf("a verdict of %s on %s/%s is misplaced", p.name, svc.name, id)
				}
				if f == nil || f.proc != p || p.following(svc) == nil || !slices.Contains(f.subs, p.following(svc)) {
					return fmt.Errorf("a verdict of %s on %s/%s has outlived its stream", p.name, svc.name, id)
				}
				states[v.state]++
				n++
			}
			e := svc.find(id)
			switch {
			case x.id != id || x.svc != svc || states != x.states || states[eider.BreakerClosed] != 0:
				return fmt.Errorf("%s/%s counts breakers %v, is %v", svc.name, id, x.states, states)
			case e != nil && (e.rec.Incarnation.Nonce == x.nonce) != e.live():
				return fmt.Errorf("%s/%s has verdicts on another run of it, or on one that has ended", svc.name, id)
			case x.listed() != nil && x.open != (x.rejecting() > 0) && x.slot == 0:
				return fmt.Errorf("%s/%s: nothing will tell that its breakers are open: %t", svc.name, id, !x.open)
			case x.listed() == nil && x.slot != 0, len(x.verdicts) == 0 && x.slot == 0:
				return fmt.Errorf("%s/%s is kept, and nothing will forget it", svc.name, id)
			}
		}
	}
	for _, p := range tb.processes {
		n -= len(p.verdicts)
	}
	if n != 0 || tb.verdicts < 0 {
		return fmt.Errorf("%d verdicts are of nobody", n)
	}
	return nil
}

func (c *chaos) verdicts() (out []eider.Verdict) {
	for range c.n("verdicts", 3) {
		out = append(out, eider.Verdict{Key: c.key(), Incarnation: eider.Incarnation{Nonce: uint64(c.n("nonce", 6))},
			Breaker: eider.Breaker{State: eider.BreakerState(rapid.IntRange(0, eider.BreakerStates-1).Draw(c.t, "state")), Since: c.now}})
	}
	return out
}

// judged tells a caller's verdict on an instance.
func (w *world) judged(caller, k string, state eider.BreakerState, change ...func(*eider.Verdict)) {
	w.t.Helper()
	d := w.departure(k)
	v := eider.Verdict{Key: d.Key, Incarnation: d.Incarnation, Breaker: eider.Breaker{State: state, Rule: eider.BreakerSlowRate, Count: 7, Of: 10, Since: w.now}}
	for _, f := range change {
		f(&v)
	}
	w.saw(w.tb.Verdicts(w.now, w.actor(caller).follower, d.Service, []eider.Verdict{v}))
	if err := auditVerdicts(w.tb); err != nil {
		w.t.Fatal(err)
	}
}

// breakers writes what is shown of a service: "1 open by a b, 2 ramping by a".
func (w *world) breakers(service string) string {
	var out []string
	for _, b := range w.tb.Breakers(service) {
		words := b.ID + " " + b.State.String() + " by"
		for _, s := range b.Seen {
			words += " " + s.Caller
		}
		out = append(out, words)
	}
	return strings.Join(out, ", ")
}

func (w *world) wantBreakers(service, want string) {
	w.t.Helper()
	if got := w.breakers(service); got != want {
		w.t.Errorf("of %s it is shown %q, want %q", service, got, want)
	}
}

// toldOfBreakers takes the events about breakers since the last time, in order.
func (w *world) toldOfBreakers() (out []string) {
	for _, e := range w.events {
		if e.Kind == eider.EventBreakerOpen || e.Kind == eider.EventBreakersClosed {
			out = append(out, e.String())
		}
	}
	w.events = nil
	return out
}

func (w *world) wantTold(want ...string) {
	w.t.Helper()
	if got := w.toldOfBreakers(); !slices.Equal(got, want) {
		w.t.Errorf("it was told %q, want %q", got, want)
	}
}

// breaking is a node with two instances of orders and callers that follow it.
func breaking(t testing.TB, callers ...string) *world {
	w := fresh(t)
	w.mustRegister("p1", "orders/1", "10.0.0.1:1")
	w.mustRegister("p2", "orders/2", "10.0.0.1:2")
	for _, c := range callers {
		w.follow(c, "orders")
	}
	w.advance(time.Second)
	w.events = nil
	return w
}

func TestVerdictsAreShownUntilTakenBack(t *testing.T) {
	w := breaking(t, "a", "b", "c")
	w.judged("b", "orders/1", eider.BreakerHalfOpen)
	w.judged("c", "orders/1", eider.BreakerOpen, func(v *eider.Verdict) { v.Retry = w.now.Add(5 * time.Second) })
	w.judged("a", "orders/2", eider.BreakerRamping)
	w.wantBreakers("orders", "1 open by c b, 2 ramping by a")
	want := eider.Breakers{Key: key("orders/1"), Incarnation: w.departure("orders/1").Incarnation, State: eider.BreakerOpen, Rejecting: 2, Told: 2, Callers: 3,
		Seen: []eider.Seen{
			{Caller: "c", Breaker: eider.Breaker{State: eider.BreakerOpen, Rule: eider.BreakerSlowRate, Count: 7, Of: 10, Since: w.now.UTC(), Retry: w.now.Add(5 * time.Second).UTC()}},
			{Caller: "b", Breaker: eider.Breaker{State: eider.BreakerHalfOpen, Rule: eider.BreakerSlowRate, Count: 7, Of: 10, Since: w.now.UTC()}}}}
	if diff := cmp.Diff(want, w.tb.Breakers("orders")[0]); diff != "" {
		t.Error(diff)
	}
	n := w.tb.Tripped("orders")
	if n.Instances != 1 || n.Opened != 2 || n.States[eider.BreakerOpen] != 1 || n.States[eider.BreakerHalfOpen] != 1 || n.States[eider.BreakerRamping] != 1 {
		t.Errorf("it counts %+v", n)
	}
	w.judged("c", "orders/1", eider.BreakerClosed)
	w.judged("b", "orders/1", eider.BreakerClosed)
	w.judged("b", "orders/1", eider.BreakerClosed)
	w.judged("a", "orders/2", eider.BreakerClosed)
	w.wantBreakers("orders", "")
	if w.tb.Reporting("orders") != 3 || w.tb.Reporting("") != 3 || w.tb.Reporting("stock") != 0 {
		t.Errorf("%d callers of orders report, %d of any", w.tb.Reporting("orders"), w.tb.Reporting(""))
	}
}

// DESIGN's rule: verdicts trigger the registry's own dial, never a status.
func TestVerdictsChangeNoStatus(t *testing.T) {
	w := breaking(t, "a", "b", "c")
	before, _ := w.tb.View("orders")
	for i := range 20 {
		for _, c := range []string{"a", "b", "c"} {
			w.judged(c, "orders/1", []eider.BreakerState{eider.BreakerOpen, eider.BreakerHalfOpen, eider.BreakerForcedOpen, eider.BreakerClosed}[i%4])
			if len(w.last.Changed)+len(w.last.Dials)+len(w.last.End) > 0 || w.last.Flush {
				t.Fatalf("a verdict on an instance whose stream is up did %+v", w.last)
			}
		}
		w.advance(time.Second)
	}
	if after, _ := w.tb.View("orders"); !cmp.Equal(before, after) {
		t.Error(cmp.Diff(before, after))
	}
}

func TestAVerdictMakesTheNodeLookForItself(t *testing.T) {
	w := breaking(t, "a", "b")
	w.detach("p1", Lost)
	w.advance(1500 * time.Millisecond) // it goes on listening: suspect
	dials := func() int { return len(w.last.Dials) }
	w.judged("a", "orders/1", eider.BreakerOpen)
	if dials() != 1 || w.last.Dials[0].Try == 0 || w.last.Dials[0].Address != "10.0.0.1:1" {
		t.Fatalf("an open breaker made it dial %+v", w.last.Dials)
	}
	for range 3 { // nobody can have it dial more often
		w.judged("a", "orders/1", eider.BreakerClosed)
		w.judged("a", "orders/1", eider.BreakerOpen)
		again := dials()
		w.judged("b", "orders/1", eider.BreakerForcedOpen)
		if again += dials(); again != 0 {
			t.Fatalf("within a second it dialled %d times again", again)
		}
		w.judged("b", "orders/1", eider.BreakerClosed)
	}
	w.advance(dialEvery)
	w.judged("a", "orders/1", eider.BreakerOpen) // nothing new
	w.judged("a", "orders/1", eider.BreakerHalfOpen)
	if dials() != 0 {
		t.Error("what was known already, or a trial, made it dial")
	}
	w.ports["10.0.0.1:1"] = Refused
	w.judged("a", "orders/1", eider.BreakerOpen) // the trial failed
	if dials() != 1 {
		t.Fatal("a trial that failed didn't make it dial")
	}
	w.advance(100 * time.Millisecond)
	w.want("orders/1", eider.Dead, 0) // by what this node has seen itself
	w.wantBreakers("orders", "")
}

// A verdict confirms no refusal: a caller with a grudge would end whom it likes as soon as too many are refused.
func TestAVerdictIsNoDoubt(t *testing.T) {
	w := fresh(t)
	w.follow("a", "orders")
	for i := range 5 {
		w.mustRegister(fmt.Sprint("p", i), fmt.Sprint("orders/", i), fmt.Sprint("10.0.0.1:", i+1))
	}
	w.advance(time.Second)
	for i := range 5 {
		w.ports[fmt.Sprint("10.0.0.1:", i+1)] = Refused
		w.detach(fmt.Sprint("p", i), Lost)
	}
	w.advance(500 * time.Millisecond)
	suspects := w.tb.Counts().Suspects
	if suspects == 0 {
		t.Fatal("no refusal was too many")
	}
	for i := range 5 {
		if in, ok := w.tb.Instance(key(fmt.Sprint("orders/", i))); ok && in.Suspicion != 0 {
			w.judged("a", fmt.Sprint("orders/", i), eider.BreakerOpen)
		}
	}
	w.advance(500 * time.Millisecond)
	if now := w.tb.Counts().Suspects; now != suspects {
		t.Errorf("of %d suspects %d are left: verdicts ended the others", suspects, now)
	}
}

func TestVerdictsEndWithTheirStream(t *testing.T) {
	for how, end := range map[string]func(w *world){
		"lost":        func(w *world) { w.saw(w.tb.Unfollow(w.now, w.actor("a").follower, Lost)) },
		"moved":       func(w *world) { w.saw(w.tb.Unfollow(w.now, w.actor("a").follower, Moving)) },
		"goodbye":     func(w *world) { w.saw(w.tb.Goodbye(w.now, w.actor("a").follower)) },
		"unsubscribe": func(w *world) { w.saw(w.tb.Unsubscribe(w.now, w.actor("a").follower, "orders")) },
	} {
		w := breaking(t, "a", "b")
		w.judged("a", "orders/1", eider.BreakerOpen)
		w.judged("b", "orders/1", eider.BreakerOpen)
		w.judged("a", "orders/2", eider.BreakerOpen)
		end(w)
		if w.breakers("orders") != "1 open by b" {
			t.Errorf("%s: it is shown %q", how, w.breakers("orders"))
		}
		if err := auditVerdicts(w.tb); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// A caller that reconnects has two streams for a while: what it told by the new one stays when the old one ends.
func TestVerdictsOutliveAnOldStream(t *testing.T) {
	w := breaking(t, "a")
	old := w.actor("a").follower
	w.judged("a", "orders/1", eider.BreakerOpen)
	w.judged("a", "orders/2", eider.BreakerOpen)
	w.wantTold("breaker open orders/1 UP a: 7 of 10 calls were slow", "breaker open orders/2 UP a: 7 of 10 calls were slow")
	before := w.now
	w.advance(time.Second)
	w.follow("a", "orders")
	w.judged("a", "orders/1", eider.BreakerOpen, func(v *eider.Verdict) { v.Since = before }) // told again
	w.saw(w.tb.Unfollow(w.now, old, Lost))
	w.wantBreakers("orders", "1 open by a")
	if n := w.tb.Tripped("orders"); n.Opened != 2 {
		t.Errorf("it counts %d openings, want 2", n.Opened)
	}
	w.advance(time.Minute)
	w.wantTold("breakers closed orders/2 UP")
	w.unfollow("a", Lost)
	w.follow("a", "orders")
	w.judged("a", "orders/1", eider.BreakerOpen, func(v *eider.Verdict) { v.Since = before })
	if n := w.tb.Tripped("orders"); n.Opened != 2 {
		t.Errorf("told anew after a reconnect, it counts %d openings, want 2", n.Opened)
	}
	first := w.actor("a").follower
	w.follow("a", "orders")
	w.saw(w.tb.Unsubscribe(w.now, first, "orders")) // by the stream that told it; the other one still follows
	w.wantBreakers("orders", "")
	if err := auditVerdicts(w.tb); err != nil {
		t.Error(err)
	}
}

func TestVerdictsEndWithTheirInstance(t *testing.T) {
	w := breaking(t, "a")
	old := w.departure("orders/1")
	w.judged("a", "orders/1", eider.BreakerOpen)
	w.judged("a", "orders/2", eider.BreakerOpen)
	w.leave("p1", "orders/1")
	w.wantBreakers("orders", "1 open by a, 2 open by a") // while it is listed
	w.left("p1", "orders/1")
	w.wantBreakers("orders", "2 open by a")
	if err := auditVerdicts(w.tb); err != nil {
		t.Error(err)
	}
	w.detach("p2", Lost)
	w.advance(1500 * time.Millisecond)
	w.mustRegister("p3", "orders/2", "10.0.0.1:3") // another process
	w.wantBreakers("orders", "")
	w.mustRegister("p4", "orders/1", "10.0.0.1:4")
	w.judged("a", "orders/1", eider.BreakerOpen, func(v *eider.Verdict) { v.Incarnation = old.Incarnation })
	w.wantBreakers("orders", "")
	w.wantTold("breaker open orders/1 UP a: 7 of 10 calls were slow", "breaker open orders/2 UP a: 7 of 10 calls were slow")
	w.advance(time.Minute)
	w.wantTold()
}

// After a restart of this node callers come back before instances do.
func TestAVerdictWaitsForItsInstance(t *testing.T) {
	w := fresh(t)
	w.follow("a", "orders")
	w.saw(w.tb.Verdicts(w.now, w.actor("a").follower, "orders", []eider.Verdict{{Key: key("orders/9"), Incarnation: eider.Incarnation{Nonce: 77},
		Breaker: eider.Breaker{State: eider.BreakerOpen, Rule: eider.BreakerSlowRate, Count: 7, Of: 10, Since: w.now}}}))
	w.wantBreakers("orders", "")
	if n := w.tb.Tripped("orders"); n.Instances != 0 || n.States[eider.BreakerOpen] != 0 {
		t.Errorf("who isn't listed is counted: %+v", n)
	}
	w.wantTold()
	w.mustRegister("p9", "orders/9", "10.0.0.1:9", func(r *eider.Record) { r.Incarnation.Nonce = 77 })
	w.wantBreakers("orders", "9 open by a")
	w.wantTold("breaker open orders/9 UP a: 7 of 10 calls were slow")
}

func TestVerdictsAreBounded(t *testing.T) {
	w := breaking(t, "a", "b")
	all := make([]eider.Verdict, 2*eider.MaxVerdicts)
	for i := range all {
		all[i] = eider.Verdict{Key: eider.Key{ID: fmt.Sprint(i)}, Incarnation: eider.Incarnation{Nonce: 5}, Breaker: eider.Breaker{State: eider.BreakerOpen}}
	}
	for range 3 {
		w.saw(w.tb.Verdicts(w.now, w.actor("a").follower, "orders", all))
		slices.Reverse(all)
	}
	if n := w.tb.verdicts; n != eider.MaxVerdicts {
		t.Errorf("%d verdicts of one caller are kept", n)
	}
	w.tb.verdicts += maxVerdicts - eider.MaxVerdicts - 1
	w.saw(w.tb.Verdicts(w.now, w.actor("b").follower, "orders", all))
	if n := w.tb.verdicts; n != maxVerdicts {
		t.Errorf("%d verdicts of all callers are kept", n)
	}
}

// Who doesn't follow the service by this stream has no say in it, and nobody speaks for another.
func TestVerdictsOfStrangers(t *testing.T) {
	w := breaking(t, "a")
	w.follow("b", "stock")
	w.judged("b", "orders/1", eider.BreakerOpen)
	w.actor("nobody").follower = 9999
	w.judged("nobody", "orders/1", eider.BreakerOpen)
	w.wantBreakers("orders", "")
	w.judged("a", "orders/1", eider.BreakerOpen)
	w.actor("mallory").addr = netip.MustParseAddr("10.9.9.9")
	w.streams++
	mallory := Follower(w.streams)
	w.saw(w.tb.Follow(w.now, mallory, Peer{Caller: "a", Addr: netip.MustParseAddr("10.9.9.9")})) // calls himself a
	fx, err := w.tb.Subscribe(w.now, mallory, "orders", nil)
	if w.saw(fx); err != nil {
		t.Fatal(err)
	}
	d := w.departure("orders/1")
	w.saw(w.tb.Verdicts(w.now, mallory, "orders", []eider.Verdict{{Key: d.Key, Incarnation: d.Incarnation}})) // takes it back
	w.wantBreakers("orders", "1 open by a")
}
