package ledger

import (
	"fmt"

	"github.com/eiderhq/eider"
)

// Preservation: many silent at once are more often one broken network than many broken instances, so
// beyond a tolerance silence ends nobody. Without the floors (one instance of a group, two of a node)
// fifteen percent of a small group would be nobody, and it would never lapse anyone (R3); without the end
// after ten leases it would latch (R2).

// tolerated is the percentage of a scope that may be silent while it lapses its silent ones.
const tolerated = 15

// patience is the number of leases after which preservation lets one instance a lease go.
const patience = 10

// scope is what is preserved as one: a group, or all that is attached to this node.
type scope struct {
	floor    int // this many silent ones are tolerated in a scope of any size
	expected int // should beat
	silent   int // of those, do not
	recent   int // lapsed within the last lease: expected, and silent, a lease longer, so that a loss in slices is one loss

	preserving bool
	since      moment // preserving since
	released   moment // when patience last let one go
}

func (s *scope) tolerance() int { return max(s.floor, (s.expected+s.recent)*tolerated/100) }

func (s *scope) outside() bool { return s.silent+s.recent > s.tolerance() }

// opens tells when the scope lets the next silent instance go: moments before now mean now.
func (s *scope) opens(now, lease moment) moment {
	if !s.outside() {
		return 0
	}
	since := now
	if s.preserving {
		since = s.since
	}
	at := since + patience*lease
	if s.released > 0 {
		at = max(at, s.released+lease)
	}
	return at
}

// change follows the counts; it tells whether the state has changed.
func (s *scope) change(now moment) bool {
	if s.outside() == s.preserving {
		return false
	}
	s.preserving, s.since, s.released = !s.preserving, now, 0
	return true
}

// group are the instances of one service in one zone that are attached here.
type group struct {
	scope
	key     groupKey
	overdue list // their leases have run out, and they are kept, the longest first
	kept    int  // place among the groups that have some, from 1; 0 is none
	touched bool
	slot    int32
}

type groupKey struct{ service, zone string }

func (g *group) place() *int32 { return &g.slot }

func (g *group) String() string {
	if g.key.zone == "" {
		return g.key.service
	}
	return g.key.service + " in zone " + g.key.zone
}

func (t *Table) group(service, zone string) *group {
	key := groupKey{service, zone}
	g := t.groups[key]
	if g == nil {
		g = &group{scope: scope{floor: 1}, key: key}
		t.groups[key] = g
	}
	return g
}

// touch has a group reviewed before the method returns. Not earlier: an instance that is counted out
// and in again meanwhile must not end anything.
func (t *Table) touch(g *group) {
	if !g.touched {
		g.touched = true
		t.touched = append(t.touched, g)
	}
}

// review begins and ends preservation where counts have changed.
func (t *Table) review() {
	for _, g := range t.touched {
		g.touched = false
		if g.change(t.clock) {
			t.preservation(&g.scope, g.key.service, "instances of "+g.String())
			t.alarms.set(g, t.clock)
		}
		if g.expected == 0 && g.recent == 0 && g.overdue.empty() {
			t.alarms.cancel(g)
			delete(t.groups, g.key)
		}
	}
	clear(t.touched)
	t.touched = t.touched[:0]
	if t.node.change(t.clock) {
		t.preservation(&t.node, "", "instances of this node")
		for _, g := range t.kept {
			t.alarms.set(g, t.clock)
		}
	}
}

// keep holds an instance whose lease has run out.
func (t *Table) keep(e *entry) {
	g := e.grp
	e.past = true
	g.overdue.push(e)
	if g.kept == 0 {
		t.kept = append(t.kept, g)
		g.kept = len(t.kept)
	}
	t.alarms.soon(g, max(g.opens(t.clock, t.cfg.Lease), t.node.opens(t.clock, t.cfg.Lease)))
}

// unkeep ends keep, whatever comes next.
func (t *Table) unkeep(e *entry) {
	if !e.past {
		return
	}
	g := e.grp
	e.past = false
	g.overdue.remove(e)
	if !g.overdue.empty() {
		return
	}
	last := len(t.kept)
	t.kept[g.kept-1] = t.kept[last-1]
	t.kept[g.kept-1].kept = g.kept
	t.kept[last-1] = nil
	t.kept = t.kept[:last-1]
	g.kept = 0
	t.alarms.cancel(g)
}

// due lapses who is kept, as far as group and node allow it by now.
func (g *group) due(t *Table) {
	for !g.overdue.empty() {
		at := max(g.opens(t.clock, t.cfg.Lease), t.node.opens(t.clock, t.cfg.Lease))
		if at > t.clock || t.work <= 0 {
			t.alarms.set(g, max(at, t.clock))
			return
		}
		t.work--
		if g.outside() {
			g.released = t.clock
		}
		if t.node.outside() {
			t.node.released = t.clock
		}
		t.lapse(g.overdue.first)
	}
}

func (t *Table) preservation(s *scope, service, what string) {
	t.preserving += toInt(s.preserving) - toInt(!s.preserving)
	e := eider.Event{Kind: eider.EventPreserved, Service: service, Detail: "silence ends " + what + " again"}
	if s.preserving {
		e.Kind = eider.EventPreserving
		e.Detail = s.sentence(what)
	}
	t.event(e)
}

func (s *scope) sentence(what string) string {
	return fmt.Sprintf("%d of %d %s are silent, more than the %d that may be: silence ends none of them for now, so a crash is noticed by evidence alone",
		s.silent+s.recent, s.expected+s.recent, what, s.tolerance())
}
