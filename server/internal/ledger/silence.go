package ledger

import (
	"time"

	"github.com/eiderhq/eider"
)

// Silence makes suspects first and ends instances later. What is attached is watched as its session: the
// alarm of a session that beats only looks at its last beat and sleeps on, and its instances have none.
// They get one when the session is silent, or their stream has ended.

// Beat renews the leases of a session's instances, which nothing else does. It never creates anything and
// never changes a record; an instance that has ended here, or was taken away, only makes its process attach
// anew (R5, D16).
func (t *Table) Beat(now time.Time, s Session) Effects {
	t.begin(now)
	p := t.sessions[s]
	if p != nil {
		t.renew(p)
	}
	if p == nil || p.told && p.of.anew <= t.clock {
		t.fx.End = append(t.fx.End, s)
	}
	return t.take()
}

func (t *Table) renew(p *pulse) {
	p.beat = t.clock
	if !p.silent {
		return
	}
	p.silent = false
	for _, e := range p.of.entries {
		t.unkeep(e)
		t.alarms.cancel(e)
		t.cure(e, eider.BeatsMissed)
		t.resume(e)
	}
	t.watch(p.of)
}

// due suspects the instances of a silent session.
func (s *session) due(t *Table) {
	switch at := s.beat + t.cfg.SuspectAfter; {
	case t.clock < at:
		t.watch(s)
		return
	case t.clock < t.grace:
		t.alarms.set(s, t.grace)
		return
	case len(s.entries) == 0:
		return
	}
	s.silent = true
	for _, e := range s.entries {
		t.suspect(e, eider.BeatsMissed, "")
		t.arm(e)
	}
}

// lapses tells when the lease runs out: once, counted from the last beat (R1).
func (e *entry) lapses() moment { return e.lastBeat() + e.lease + e.extra }

// arm wakes an instance when there is next something to conclude from its silence.
func (t *Table) arm(e *entry) {
	if e.past || !e.owned || !e.live() {
		return
	}
	at := e.lapses()
	if e.sess == nil {
		if e.lost {
			at = min(at, e.lostAt+t.cfg.Reattach+e.extra)
		}
		if !e.suspicion.Has(eider.BeatsMissed) {
			at = min(at, e.beat+t.cfg.SuspectAfter+e.extra)
		}
	} else if !e.sess.silent {
		return
	}
	t.alarms.set(e, at)
}

// due concludes what there is to conclude. Whoever hasn't attached again in time is suspect for that,
// unless a storm explains it; then it is suspect once its beats are missing too.
func (e *entry) due(t *Table) {
	if t.clock < t.grace {
		t.alarms.set(e, t.grace)
		return
	}
	if e.sess == nil {
		if e.lost && t.clock >= e.lostAt+t.cfg.Reattach+e.extra {
			e.lost = false
			if !t.storm.covers(e.lostAt) {
				t.suspect(e, eider.StreamEnded, "")
			}
		}
		if t.clock >= e.beat+t.cfg.SuspectAfter+e.extra {
			t.suspect(e, eider.BeatsMissed, "")
		}
	}
	switch {
	case t.clock < e.lapses():
		t.arm(e)
	case e.grp != nil && (e.grp.outside() || t.node.outside()):
		t.keep(e)
	default:
		t.lapse(e)
	}
}

// lapse is an instance that silence has ended, and that counts as silent for a lease longer.
type lapse struct {
	at moment
	e  *entry
	g  *group
}

func (t *Table) lapse(e *entry) {
	g := e.grp
	silent := (t.clock - e.lastBeat()).Round(time.Millisecond)
	t.end(e, eider.Lapsed, eider.EventLapsed, "silent for "+silent.String())
	if g == nil {
		return // it was leaving, which nobody expects to be heard of
	}
	e.grp, e.lapse = g, t.clock
	t.lapses = append(t.lapses, lapse{t.clock, e, g})
	t.recent(g, +1)
}

func (t *Table) unlapse(e *entry) {
	if e.lapse != 0 {
		t.recent(e.grp, -1)
		e.lapse, e.grp = 0, nil
	}
}

func (t *Table) recent(g *group, by int) {
	g.recent += by
	t.node.recent += by
	t.touch(g)
}

func (t *Table) suspect(e *entry, reason eider.Suspicion, why string) {
	if e.suspicion.Has(reason) {
		return
	}
	e.suspicion |= reason
	t.settle(e)
	t.changed(e)
	t.tell(eider.EventSuspect, e, why)
}

func (t *Table) cure(e *entry, reasons eider.Suspicion) {
	if e.suspicion&reasons == 0 {
		return
	}
	e.suspicion &^= reasons
	t.settle(e)
	t.changed(e)
	t.tell(eider.EventCured, e, reasons.String())
}

// Extend adds a retry-after that this node has handed out for an instance to its lease, and to the time
// that it has to attach again: whoever waits as told isn't silent.
func (t *Table) Extend(now time.Time, key eider.Key, shown Secret, d time.Duration) Effects {
	t.begin(now)
	if e := t.find(key); e != nil && e.live() && e.owned && d > 0 && e.proven(Proof{Shown: shown}) {
		e.extra = min(e.extra+d, maxWait)
		t.arm(e)
	}
	return t.take()
}
