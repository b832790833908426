package ledger

import (
	"time"

	"github.com/eiderhq/eider"
)

// moment is a time on the table's own clock, counted from its start.
//
// The clock is what decides, never the wall's: it counts the steps between calls, takes a step back as
// none, and takes a step longer than Config.Gap (a stopped process, a sleeping laptop, a wall clock set
// forward) as the half gap in which the node certainly meant to look. A node that is so overloaded that
// it looks less than once a gap thus has slower clocks, never none. Only what an operator has promised until
// a time of the wall's clock goes by that one: see ending.
type moment = time.Duration

// begin moves the clock to now. Every method that changes something calls it first and take last.
func (t *Table) begin(now time.Time) {
	step := now.Sub(t.last)
	if step <= 0 && step >= -t.cfg.Gap {
		return // read before the lock was taken; to go back for it would count that time twice
	}
	t.last = now
	switch {
	case step < 0:
	case step <= t.cfg.Gap:
		t.clock += step
	default:
		t.clock += t.cfg.Gap / 2
		// Whatever was said meanwhile still waits in sockets: it is heard before anybody is called silent.
		t.grace = t.clock + t.cfg.Beat
		t.event(eider.Event{Kind: eider.EventPaused, Detail: "this node didn't run for " + step.Round(time.Millisecond).String() +
			"; that time doesn't count, and silence ends nobody for " + t.cfg.Beat.String()})
	}
}

// at reads the clock at a time without moving it.
func (t *Table) at(now time.Time) moment {
	return t.clock + min(max(now.Sub(t.last), 0), t.cfg.Gap)
}

// take ends what begin began: it settles what hangs on counts, and hands out what has happened.
func (t *Table) take() Effects {
	if len(t.touched) > 0 {
		t.review()
	}
	fx := t.fx
	t.fx = Effects{}
	return fx
}

// Next tells when to look again at the latest: at the first thing due, and at most half a gap after the
// last call, so that a gap is noticed as one.
func (t *Table) Next() time.Time {
	wait := t.cfg.Gap / 2
	if len(t.alarms) > 0 {
		wait = min(wait, max(t.alarms[0].at-t.clock, 0))
	}
	if len(t.endings) > 0 {
		wait = min(wait, max(t.endings[0].at-t.wall(), 0))
	}
	if at, any := t.rounds.next(); any {
		wait = min(wait, max(at-t.clock, 0))
	}
	return t.last.Add(wait)
}

// lookWork bounds what one Look does; what is left over is due at once, after the inputs that waited.
const lookWork = 4096

// Look does everything that is due: suspicions, lapses, caps, forgetting. It does a bounded piece of work;
// when more is due, Next is now.
func (t *Table) Look(now time.Time) Effects {
	t.begin(now)
	t.outwait()
	t.forget()
	t.work = lookWork
	t.round()
	t.wake(&t.alarms, t.clock)
	t.wake(&t.endings, t.wall())
	return t.take()
}

// wake has everybody do what is due by a clock, as long as there is work left.
func (t *Table) wake(due *alarms, clock moment) {
	for len(*due) > 0 && (*due)[0].at <= clock && t.work > 0 {
		t.work--
		who := (*due)[0].who
		due.cancel(who)
		who.due(t)
	}
}
