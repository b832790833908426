package ledger

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
)

// audit takes every count of a table anew and compares it with the one that is kept.
func audit(tb *Table) error {
	var c Counts
	node := scope{}
	groups := map[groupKey]scope{}
	for name, svc := range tb.services {
		var lines [lines]int
		for id, e := range svc.live {
			if !e.live() || svc.gone[id] != nil || e.svc != svc || e.rec.Service != name || e.rec.ID != id {
				return fmt.Errorf("%s/%s is listed wrongly", name, id)
			}
			c.Instances++
			tally := e.tally()
			if tally != e.counted {
				return fmt.Errorf("%s is counted as %+v, is %+v", e.rec.Key, e.counted, tally)
			}
			lines[tally.line]++
			c.Suspects += toInt(tally.doubted)
			g := groups[groupKey{name, e.rec.Zone}]
			for _, s := range []*scope{&node, &g} {
				s.expected += toInt(tally.expected)
				s.silent += toInt(tally.silent)
			}
			groups[groupKey{name, e.rec.Zone}] = g
			if err := auditEntry(tb, e); err != nil {
				return err
			}
		}
		if lines != svc.count {
			return fmt.Errorf("%s counts %v, is %v", name, svc.count, lines)
		}
		c.Tombstones += len(svc.gone)
		if err := auditDrains(svc); err != nil {
			return err
		}
	}
	node.recent = tb.node.recent
	if node.expected != tb.node.expected || node.silent != tb.node.silent {
		return fmt.Errorf("the node counts %+v, is %+v", tb.node, node)
	}
	for key, g := range tb.groups {
		if was := groups[key]; g.expected != was.expected || g.silent != was.silent {
			return fmt.Errorf("group %v counts %+v, is %+v", key, g.scope, was)
		}
		if g.preserving != g.outside() {
			return fmt.Errorf("group %v preserves: %t, is outside: %t", key, g.preserving, g.outside())
		}
		if g.preserving && g.overdue.empty() && g.recent > g.tolerance() {
			return fmt.Errorf("group %v: %d have lapsed within a lease, %d may", key, g.recent, g.tolerance())
		}
	}
	got := tb.Counts()
	if got.Instances != c.Instances || got.Tombstones != c.Tombstones || got.Suspects != c.Suspects {
		return fmt.Errorf("the table counts %+v, is %+v", got, c)
	}
	if err := auditTimed(tb); err != nil {
		return err
	}
	return auditAlarms(tb)
}

func auditEntry(tb *Table, e *entry) error {
	at := tb.addresses[e.rec.Address]
	for ; at != e; at = at.after {
		if at == nil {
			return fmt.Errorf("%s isn't found at its address", e.rec.Key)
		}
	}
	switch {
	case e.sess != nil && (tb.session(e.sess.id) != e.sess || e.sess.entries[e.index] != e || !e.owned):
		return fmt.Errorf("%s is attached wrongly", e.rec.Key)
	case e.owned && e.sess == nil && e.slot == 0 && !e.past:
		return fmt.Errorf("%s is detached, and nothing watches it", e.rec.Key)
	case e.owned && e.sess != nil && e.sess.slot == 0 && !e.sess.round && !e.sess.silent:
		return fmt.Errorf("%s is attached, and nothing watches its session", e.rec.Key)
	case e.suspicion.Has(eider.BeatsMissed) && e.owned && e.slot == 0 && !e.past:
		return fmt.Errorf("%s is silent, and nothing will lapse it", e.rec.Key)
	}
	return nil
}

func auditDrains(svc *service) error {
	for _, d := range svc.running {
		if len(d.members) != d.total || len(d.index) != d.total {
			return fmt.Errorf("drain of %s has %d members, counts %d, finds %d", d.dep.Key, len(d.members), d.total, len(d.index))
		}
		for i, m := range d.members {
			run := 0
			switch {
			case i < d.open:
			case i < d.open+d.capped:
				run = 1
			default:
				run = 2
			}
			is := 2
			if !m.state.Settled() {
				is = 0
			} else if m.state == eider.Capped {
				is = 1
			}
			if run != is || int(d.index[m.caller]) != i {
				return fmt.Errorf("drain of %s has %s, %s, in run %d", d.dep.Key, m.caller, m.state, run)
			}
		}
		if d.open > 0 && d.slot == 0 {
			return fmt.Errorf("drain of %s waits, and nothing will cap it", d.dep.Key)
		}
		if d.owned && (d.open == 0) != d.reached {
			return fmt.Errorf("drain of %s has %d open, and its barrier is reached: %t", d.dep.Key, d.open, d.reached)
		}
		for _, f := range svc.followers {
			if _, ok := d.index[f.proc.name]; !ok && !d.reached {
				return fmt.Errorf("drain of %s doesn't wait for %s", d.dep.Key, f.proc.name)
			}
		}
	}
	return nil
}

func auditAlarms(tb *Table) error {
	for i, a := range tb.alarms {
		if *a.who.place() != int32(i+1) || i > 0 && tb.alarms[(i-1)/4].at > a.at {
			return fmt.Errorf("alarm %d of %d is misplaced", i, len(tb.alarms))
		}
	}
	return auditRounds(tb)
}

// auditRounds looks for a session that the rounds would come to only after its silence began.
func auditRounds(tb *Table) error {
	r, slots := &tb.rounds, int64(len(tb.rounds.slots))
	free := map[*pulse]bool{}
	for _, p := range tb.pulses {
		free[p] = true
	}
	for id, p := range tb.sessions {
		if p.of == nil || p.of.id != id || p.of.pulse != p || free[p] {
			return fmt.Errorf("session %d has a pulse that isn't its own", id)
		}
	}
	for i, slot := range r.slots {
		if (len(slot) > 0) != (r.used>>i&1 == 1) {
			return fmt.Errorf("slot %d has %d sessions, and its bit says otherwise", i, len(slot))
		}
		comes := r.at + (int64(i)-r.at%slots+slots)%slots
		for _, p := range slot {
			if free[p] || !p.round {
				return fmt.Errorf("slot %d has a pulse that was given back", i)
			}
			if due := p.beat + tb.cfg.SuspectAfter; !p.over && moment(comes)*r.tick > max(due, tb.clock) {
				return fmt.Errorf("a session that is silent at %s is looked at at %s", due, moment(comes)*r.tick)
			}
		}
	}
	return nil
}

// TestCountsNeverDrift does anything to a table, in any order, and audits it after every step.
func TestCountsNeverDrift(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &chaos{t: rt, now: time.Unix(0, 0), numbers: map[uint64]eider.Record{}}
		c.tb = New(Config{Node: "a", Fresh: rapid.Bool().Draw(rt, "fresh"), Retention: 90 * time.Second, MaxTombstones: 4}, c.now)
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			did := c.step()
			if err := cmp.Or(audit(c.tb), auditVerdicts(c.tb)); err != nil {
				rt.Fatalf("after %s: %v", did, err)
			}
		}
	})
}

// chaos is everything around a table, without sense.
type chaos struct {
	t       *rapid.T
	now     time.Time
	tb      *Table
	dials   []Dial
	numbers map[uint64]eider.Record // what was granted, by nonce
	saw     func(Effects)
}

func (c *chaos) n(what string, max int) int { return rapid.IntRange(1, max).Draw(c.t, what) }

func (c *chaos) took(fx Effects, _ ...any) {
	c.dials = append(c.dials, fx.Dials...)
	if c.saw != nil {
		c.saw(fx)
	}
}

func (c *chaos) record() eider.Record {
	nonce := uint64(c.n("nonce", 6))
	rec := eider.Record{Key: c.key(), Incarnation: eider.Incarnation{Nonce: nonce}, Attachment: uint64(c.n("attachment", 6)),
		Status: eider.Status(c.n("status", 4)), Address: fmt.Sprintf("10.0.0.1:%d", c.n("port", 4)), Zone: fmt.Sprint("z", c.n("zone", 2))}
	if was, ok := c.numbers[nonce]; ok && rapid.Bool().Draw(c.t, "carried") {
		rec.Incarnation = was.Incarnation
	}
	return rec
}

func (c *chaos) key() eider.Key {
	return eider.Key{Service: fmt.Sprint("s", c.n("service", 2)), ID: fmt.Sprint(c.n("id", 3))}
}

func (c *chaos) departures() []eider.Departure {
	var out []eider.Departure
	for range rapid.IntRange(0, 3).Draw(c.t, "named") {
		if run := c.tb.running(); len(run) > 0 && rapid.Bool().Draw(c.t, "that runs") {
			out = append(out, run[c.n("run", len(run))-1].dep)
			continue
		}
		out = append(out, eider.Departure{Key: c.key(), Incarnation: eider.Incarnation{Nonce: uint64(c.n("nonce", 6))}})
	}
	return out
}

func (c *chaos) step() string {
	s, f, svc := Session(c.n("session", 5)), Follower(c.n("follower", 5)), fmt.Sprint("s", c.n("service", 2))
	peer := Peer{Caller: fmt.Sprint("p", c.n("process", 4)), Addr: netip.MustParseAddr("10.0.0.1")}
	verbs := []string{"attach", "attach", "register", "register", "register", "beat", "status", "leave", "left", "detach", "dialed", "dialed",
		"follow", "follow", "subscribe", "subscribe", "unsubscribe", "ack", "doubt", "goodbye", "unfollow", "look", "look", "look", "extend", "apply", "peers", "report",
		"poll", "poll", "work", "work", "verdicts", "verdicts", "verdicts"}
	verb := rapid.SampledFrom(verbs).Draw(c.t, "verb")
	switch verb {
	case "attach":
		c.took(c.tb.Attach(c.now, s, peer))
	case "register":
		if grant, fx, err := c.tb.Register(c.now, s, c.record(), 0, Proof{}); err == nil {
			c.numbers[grant.Record.Incarnation.Nonce] = grant.Record
			c.took(fx)
		}
	case "beat":
		c.took(c.tb.Beat(c.now, s))
	case "status":
		fx, _ := c.tb.SetStatus(c.now, s, c.key(), eider.Status(c.n("status", 3)))
		c.took(fx)
	case "leave":
		fx, _ := c.tb.Leave(c.now, s, c.key(), time.Duration(c.n("pause", 3)-1)*time.Second)
		c.took(fx)
	case "left":
		fx, _ := c.tb.Left(c.now, s, c.key())
		c.took(fx)
	case "detach":
		c.took(c.tb.Detach(c.now, s, Ending(c.n("ending", 3)-1)))
	case "dialed":
		if len(c.dials) > 0 {
			i := c.n("dial", len(c.dials)) - 1
			c.took(c.tb.Dialed(c.now, c.dials[i], Answer(c.n("answer", 3)-1)))
			c.dials = slices.Delete(c.dials, i, i+1)
		}
	case "look":
		c.now = c.now.Add(time.Duration(rapid.SampledFrom([]int{1, 100, 500, 900, 1100, 30000}).Draw(c.t, "ms")) * time.Millisecond)
		for range rapid.IntRange(1, 50).Draw(c.t, "looks") {
			c.took(c.tb.Look(c.now))
			c.now = c.tb.Next()
		}
	case "extend":
		d := time.Duration(c.n("s", 10)) * time.Second
		c.took(c.tb.Extend(c.now, c.key(), Secret{}, d))
		c.took(c.tb.ExtendCaller(c.now, peer, d))
	default:
		c.callers(verb, f, svc, peer)
	}
	return verb
}

func (c *chaos) callers(verb string, f Follower, svc string, peer Peer) {
	switch verb {
	case "follow":
		c.took(c.tb.Follow(c.now, f, peer))
	case "subscribe":
		fx, _ := c.tb.Subscribe(c.now, f, svc, c.departures())
		c.took(fx)
	case "unsubscribe":
		c.took(c.tb.Unsubscribe(c.now, f, svc))
	case "ack":
		c.took(c.tb.Ack(c.now, f, svc, 1, c.departures(), c.departures()))
	case "doubt":
		for _, d := range c.departures() {
			c.took(c.tb.Doubt(c.now, f, d))
		}
	case "verdicts":
		c.took(c.tb.Verdicts(c.now, f, svc, c.verdicts()))
	case "goodbye":
		c.took(c.tb.Goodbye(c.now, f))
	case "unfollow":
		c.took(c.tb.Unfollow(c.now, f, Ending(c.n("ending", 3)-1)))
	case "apply":
		rec := c.record()
		rec.Incarnation.Number = uint64(c.n("number", 3))
		rec.Version = uint64(c.n("version", 3))
		rec.Status = eider.Status(c.n("any status", 7))
		c.took(c.tb.Apply(c.now, rec, "b"))
	case "poll", "work":
		c.timed(verb, Session(f), svc, peer)
	case "peers":
		c.took(c.tb.Peers(c.now, []string{"a", "b", "c"}[:c.n("peers", 3)]))
	case "report":
		for _, d := range c.departures() {
			r := Report{Departure: d, Seq: uint64(c.n("seq", 9))}
			for range c.n("members", 3) {
				r.Members = append(r.Members, eider.Member{Caller: fmt.Sprint("p", c.n("member", 6)), Kind: eider.Native,
					State: rapid.SampledFrom([]eider.MemberState{eider.Waiting, eider.NoAlternative, eider.LetGo, eider.SaidGoodbye, eider.Unfollowed, eider.Capped, eider.Ended}).Draw(c.t, "state")})
			}
			c.took(c.tb.Report(c.now, "b", r))
			c.tb.Members(c.now, d)
		}
	}
}
