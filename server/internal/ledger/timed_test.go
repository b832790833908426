package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
)

// timed are the words of stories about callers that are waited for by time, and about work.
var timed = map[string]func(w *world, args []string) error{
	"poll": func(w *world, a []string) error { // poll NAME SERVICE EVERY CACHE [lost]: and so is the answer
		every, err := time.ParseDuration(a[2])
		if err != nil {
			return err
		}
		cache, err := time.ParseDuration(a[3])
		if err != nil {
			return err
		}
		who := a[0] + " of " + a[1]
		answer, fx, err := w.tb.Poll(w.now, Polling{Caller: a[0], Service: a[1], Every: every, Cache: cache, Has: w.answers[who]}, 1)
		w.saw(fx)
		if err == nil && len(a) == 4 {
			w.answers[who] = answer
		}
		return err
	},
	"work": func(w *world, a []string) error { // work PROCESS KEY ARRIVED COMPLETED ENDED [SLOWEST] [unknown]
		var done eider.Work
		for i, at := range []*uint64{&done.Arrived, &done.Completed, &done.Ended} {
			*at, _ = strconv.ParseUint(a[2+i], 10, 64)
		}
		for _, more := range a[5:] {
			if more == "unknown" {
				done.Unknown = true
				continue
			}
			done.Slowest, _ = time.ParseDuration(more)
		}
		w.saw(w.tb.Work(w.now, w.actor(a[0]).session, key(a[1]), done))
		return nil
	},
	"leavefor": func(w *world, a []string) error { // leavefor PROCESS KEY PAUSE: with unknown callers
		pause, err := time.ParseDuration(a[2])
		if err != nil {
			return err
		}
		fx, err := w.tb.Leave(w.now, w.actor(a[0]).session, key(a[1]), pause)
		w.saw(fx)
		return err
	},
	"bound": func(w *world, a []string) error {
		fmt.Fprintf(&w.log, "  %s\n", w.tb.Bound(a[0]))
		return nil
	},
}

// timed is a step of chaos: a poll, or what an instance says of its requests.
func (c *chaos) timed(verb string, s Session, svc string, peer Peer) {
	if verb == "poll" {
		_, fx, _ := c.tb.Poll(c.now, Polling{Caller: peer.Caller, Service: svc, Every: time.Duration(c.n("every", 3)) * time.Second,
			Cache: time.Duration(c.n("cache", 3)-1) * time.Second, Has: uint64(c.n("has", 9) - 1),
			Addr: rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.9")}).Draw(c.t, "from")}, 1)
		c.took(fx)
		return
	}
	done := eider.Work{Arrived: uint64(c.n("arrived", 9)), Unknown: rapid.Bool().Draw(c.t, "unknown"), Slowest: time.Duration(c.n("slowest", 3)-1) * time.Second}
	done.Ended = done.Arrived - min(done.Arrived, uint64(c.n("under way", 4)-1))
	done.Completed = done.Ended - min(done.Ended, uint64(c.n("given up", 3)-1))
	c.took(c.tb.Work(c.now, s, c.key(), done))
}

// auditTimed takes the counts of pollers, unknown callers and watch streams anew.
func auditTimed(tb *Table) error {
	pollers, all := 0, caps{}
	for _, p := range tb.processes {
		pollers += toInt(p.polls)
		if p.polls && (p.streams > 0 || p.sessions > 0) {
			return fmt.Errorf("%s polls, and has a stream", p.name)
		}
		if len(p.watches) != p.streams {
			return fmt.Errorf("%s has %d watch streams, counts %d", p.name, len(p.watches), p.streams)
		}
	}
	for name, svc := range tb.services {
		strangers, own := 0, caps{}
		for _, e := range svc.live {
			if w := e.work; w != nil {
				strangers += toInt(w.unknown)
				if w.e != e {
					return fmt.Errorf("%s has another one's work", e.rec.Key)
				}
			}
			if e.suspicion.Has(eider.Wedged) && (e.work == nil || !e.owned) {
				return fmt.Errorf("%s is wedged by nobody's word", e.rec.Key)
			}
			if e.suspicion.Has(eider.Wedged) && e.rec.Status == eider.Up && e.sess != nil && !e.sess.silent && e.work.slot == 0 {
				return fmt.Errorf("%s is wedged, and nobody will ever be asked to try it", e.rec.Key)
			}
		}
		for _, f := range svc.followers {
			if (f.poll != nil) != f.proc.polls {
				return fmt.Errorf("%s polls %s: %t, and its process: %t", f.proc.name, name, f.poll != nil, f.proc.polls)
			}
			if f.poll != nil {
				own.count(f.poll.cap(), 1)
				all.count(f.poll.cap(), 1)
				if f.slot == 0 {
					return fmt.Errorf("%s polls %s, and nothing will forget it", f.proc.name, name)
				}
			}
		}
		if strangers != svc.strangers {
			return fmt.Errorf("%s counts %d instances with unknown callers, has %d", name, svc.strangers, strangers)
		}
		if len(own)+len(svc.polled) > 0 && !cmp.Equal(own, svc.polled) {
			return fmt.Errorf("%s counts the caps %v, has %v", name, svc.polled, own)
		}
	}
	of := 0
	for _, n := range tb.pollersOf {
		of += n
	}
	if of != pollers || pollers != tb.pollers || len(all)+len(tb.polled) > 0 && !cmp.Equal(all, tb.polled) {
		return fmt.Errorf("the table counts %d pollers with %v, has %d with %v", tb.pollers, tb.polled, pollers, all)
	}
	return nil
}

// model is a poller with a list and a cache of its own, beside the table's timers.
type model struct {
	has     uint64    // the answer that it has
	next    time.Time // its next poll
	tries   int       // it takes so many to get an answer at most
	left    int       // so many of them it still has
	fetched bool      // it has a list from after the leave
	safe    time.Time // from when on it picks from nothing older
}

func (m *model) poll(rt *rapid.T, w *world, said Polling, left bool) {
	said.Has = m.has
	answer, fx, err := w.tb.Poll(w.now, said, 1)
	w.saw(fx)
	if err != nil {
		rt.Fatal(err)
	}
	gap := said.Every / time.Duration(m.tries)
	if m.left--; m.left == 0 || rapid.Bool().Draw(rt, "arrives") {
		m.has, m.left = answer, m.tries
		if left && !m.fetched {
			m.fetched, m.safe = true, w.now.Add(said.Cache)
		}
		if rapid.Bool().Draw(rt, "at once") {
			gap /= 20
		}
	}
	m.next = w.now.Add(time.Duration(rapid.Float64Range(0.75, 1).Draw(rt, "jitter") * float64(gap)))
}

// However pollers poll, whatever of their answers is lost, and though they share a name: what they had fetched before
// the leave is out of use when they are settled.
func TestAPollerIsSettledOnlyWhenItUsesNothingOlder(t *testing.T) {
	early := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := fresh(t)
		w.mustRegister("p", "orders/1", "10.0.0.1:81")
		w.mustRegister("q", "orders/2", "10.0.0.1:82")
		draw := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(rt, name) }
		every, cache := time.Duration(draw("every", 1, 40))*time.Second, time.Duration(draw("cache", 0, 40))*time.Second
		models := make([]model, draw("processes", 1, 2))
		for i := range models {
			m := &models[i]
			m.tries = draw("tries", 1, 4)
			m.left = m.tries
			m.next = w.now.Add(time.Duration(draw("phase", 0, int(every/time.Millisecond))) * time.Millisecond)
		}
		leave := w.now.Add(time.Duration(draw("rounds", 2, 9)) * every).Add(time.Duration(draw("leave", 0, int(every/time.Millisecond))) * time.Millisecond)
		left := false
		for !left || w.drain("orders/1").Open > 0 {
			next := slices.MinFunc(models, func(a, b model) int { return a.next.Compare(b.next) }).next
			if !left && !next.Before(leave) {
				w.advance(leave.Sub(w.now))
				w.leave("p", "orders/1")
				left = true
				continue
			}
			if step := next.Sub(w.now); step > 0 {
				w.advance(min(step, 250*time.Millisecond))
				continue
			}
			for i := range models {
				if m := &models[i]; !m.next.After(w.now) {
					m.poll(rt, w, Polling{Caller: "shop", Service: "orders", Every: every, Cache: cache}, left)
				}
			}
		}
		d := w.drain("orders/1")
		for i := range models {
			if m, at := &models[i], leave.Add(d.Barrier); !m.fetched || at.Before(m.safe) {
				rt.Fatalf("settled %s after the leave, while process %d of %d uses an older list until %s: %+v", d.Barrier, i+1, len(models), m.safe.Sub(leave), d.Members)
			}
		}
		limit := every + cache + pollMargin
		if d.Barrier > limit {
			rt.Fatalf("settled %s after the leave, its timers say %s at most", d.Barrier, limit)
		}
		early += toInt(d.Barrier < limit)
	})
	if early == 0 {
		t.Error("none was settled before its timers were over: the test shows nothing")
	}
}

// A beat that says what has been done costs nothing but the look-up of who says so.
func TestWorkAllocatesNothing(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	s, k := w.actor("p").session, key("orders/1")
	done := eider.Work{Slowest: time.Second}
	n := testing.AllocsPerRun(1000, func() {
		done.Arrived, done.Completed, done.Ended = done.Arrived+7, done.Completed+5, done.Ended+6
		w.now = w.now.Add(time.Millisecond)
		w.tb.Beat(w.now, s)
		w.tb.Work(w.now, s, k, done)
	})
	if n != 0 {
		t.Errorf("%v allocations a beat with work, want 0", n)
	}
}

// What a poller may take at most outlives the node's run.
func TestThePollersTimersAreKept(t *testing.T) {
	w := newWorld(t, Config{Node: "a", Fresh: true, Memory: true})
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	for _, every := range []time.Duration{10 * time.Second, 30 * time.Second} {
		_, fx, err := w.tb.Poll(w.now, Polling{Caller: "shop", Service: "orders", Every: every, Cache: 35 * time.Second}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(fx.Memory, Trace{Service: "orders", Caller: "shop"}) {
			t.Errorf("a poller that says %s isn't written down: %+v", every, fx.Memory)
		}
	}
	c, ok := w.tb.KeptCaller("orders", "shop")
	if !ok || c.Kind != eider.Poller || c.Cap != 66*time.Second {
		t.Fatalf("kept is %+v, %t", c, ok)
	}
	next := newWorld(t, Config{Node: "a"})
	next.saw(next.tb.Restore(next.now, Memory{Callers: []eider.Caller{c}, Written: next.now, Closed: true}))
	next.mustRegister("p", "orders/1", "10.0.0.1:81")
	next.leave("p", "orders/1")
	if d := next.drain("orders/1"); d.Bound != 66*time.Second || d.Open != 1 {
		t.Errorf("after a restart the drain is %+v, want one that waits as long as the poller may take", d)
	}
}

// A token in a loop leaves room for others, and pollers leave room for who acknowledges.
func TestPollersTakeNoMoreThanTheirShare(t *testing.T) {
	w := newWorld(t, Config{Node: "a", Fresh: true, MaxCallers: 20})
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	poll := func(n int, who string) error {
		_, fx, err := w.tb.Poll(w.now, Polling{Caller: fmt.Sprint("shop", n), Service: "orders", Every: time.Second, Identity: who}, 1)
		w.saw(fx)
		return err
	}
	for n := range 10 {
		if err := poll(n, "token loop"); (err == nil) != (n < 4) || err != nil && eider.KindOf(err) != eider.Limited {
			t.Fatalf("poller %d of one token: %v", n, err)
		}
	}
	for n := range 10 {
		who := fmt.Sprint("token ", n%3)
		if err := poll(100+n, who); (err == nil) != (n < 6) || err != nil && eider.KindOf(err) != eider.Limited {
			t.Fatalf("poller %d beside them: %v", n, err)
		}
	}
	for n := range 10 {
		w.follow(fmt.Sprint("native", n), "orders")
	}
	if err := poll(0, "token loop"); err != nil {
		t.Errorf("one that polls already: %v", err)
	}
	w.advance(10 * time.Second)
	if err := poll(7, "token loop"); err != nil || len(w.tb.pollersOf) != 1 {
		t.Errorf("once they are forgotten: %v, counted %v", err, w.tb.pollersOf)
	}
}

// A poll says nothing of whoever else has that name: another address, another token or none is another caller.
func TestAttackPollsInAnothersName(t *testing.T) {
	for name, thief := range map[string]Polling{
		"from another address":  {Addr: netip.MustParseAddr("10.0.0.66"), Identity: ""},
		"with another identity": {Addr: netip.MustParseAddr("10.0.0.2"), Identity: "token thief"},
	} {
		w := fresh(t)
		w.mustRegister("p", "orders/1", "10.0.0.1:81")
		w.mustRegister("q", "orders/2", "10.0.0.1:82")
		has := map[string]uint64{}
		poll := func(p Polling, every time.Duration) {
			t.Helper()
			p.Caller, p.Service, p.Every, p.Has = "shop", "orders", every, has[p.Addr.String()+p.Identity]
			answer, fx, err := w.tb.Poll(w.now, p, 1)
			w.saw(fx)
			has[p.Addr.String()+p.Identity] = answer
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		owner := Polling{Addr: netip.MustParseAddr("10.0.0.2")}
		poll(owner, 30*time.Second)
		w.advance(20 * time.Second)
		w.leave("p", "orders/1")
		poll(thief, time.Millisecond)
		poll(thief, time.Millisecond)
		w.advance(5 * time.Second)
		if got := w.member("orders/1", "shop"); got != eider.Waiting {
			t.Errorf("%s a thief made the owner %q", name, got)
		}
		w.advance(4 * time.Second)
		poll(owner, 30*time.Second)
		poll(owner, 30*time.Second)
		w.advance(2 * time.Second)
		if got := w.member("orders/1", "shop"); got != eider.Polled {
			t.Errorf("%s a thief holds the owner up: %q", name, got)
		}
	}
}

// A hold has unknown callers waited for too, as long as there are any; and nobody is asked to try who is held.
func TestHoldsAndWhoCountsByTime(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:81")
	w.mustRegister("q", "orders/2", "10.0.0.1:82")
	w.follow("a", "orders")
	hold := func(k string) eider.Drain {
		t.Helper()
		h, fx, err := w.tb.Hold(w.now, key(k), eider.Hold{By: "me"})
		w.saw(fx)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range w.tb.Drains("orders") {
			if d.Hold == h.Count {
				return d
			}
		}
		t.Fatalf("no drain of hold %d", h.Count)
		return eider.Drain{}
	}
	if d := hold("orders/2"); d.Total != 1 {
		t.Errorf("without unknown callers the hold waits for %+v", d.Members)
	}
	w.saw(w.tb.Work(w.now, w.actor("p").session, key("orders/1"), eider.Work{Arrived: 3, Unknown: true}))
	if d := hold("orders/1"); d.Total != 2 || !slices.ContainsFunc(d.Members, func(m eider.Member) bool {
		return m.Kind == eider.UnknownCallers && m.Cap == 8*time.Second
	}) {
		t.Errorf("with unknown callers the hold waits for %+v", d.Members)
	}
	w.advance(20 * time.Second)
	w.want("orders/1", eider.Up, eider.Wedged)
	if n := w.count(eider.EventTrial); n != 0 {
		t.Errorf("%d trials of one that is held", n)
	}
	fx, err := w.tb.Release(w.now, key("orders/1"), "me")
	w.saw(fx)
	if err != nil {
		t.Fatal(err)
	}
	w.advance(7 * time.Second)
	if w.count(eider.EventTrial) == 0 {
		t.Error("no trial once it is released")
	}
}
