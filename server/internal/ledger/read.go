package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// Reads. None moves the clock. What they return is the asker's own, but for the maps inside records and the members of
// drains that are over, which nobody ever writes to.

// Instance returns a live instance: STARTING, UP, DOWN or DRAINING.
func (t *Table) Instance(key eider.Key) (eider.Instance, bool) {
	if e := t.find(key); e != nil && e.live() {
		return e.instance(), true
	}
	return eider.Instance{}, false
}

// GoneOf returns how an instance has ended, if the last that is known of its key is that.
func (t *Table) GoneOf(key eider.Key) (eider.Gone, bool) {
	if e := t.find(key); e != nil && !e.live() {
		return e.goneWord(), true
	}
	return eider.Gone{}, false
}

func (e *entry) goneWord() eider.Gone {
	return eider.Gone{ID: e.rec.ID, Incarnation: e.rec.Incarnation, Attachment: e.rec.Attachment,
		Version: e.rec.Version, Status: e.rec.Status}
}

// View returns the live instances of a service and who ended lately (the last 256), both ordered by id.
func (t *Table) View(service string) ([]eider.Instance, []eider.Gone) {
	svc := t.services[service]
	if svc == nil {
		return nil, nil
	}
	svc.sort()
	instances := make([]eider.Instance, len(svc.order))
	for i, e := range svc.order {
		instances[i] = e.instance()
	}
	var gone []eider.Gone
	for _, e := range svc.recent[max(len(svc.recent)-recentGone, 0):] {
		if svc.gone[e.rec.ID] == e {
			gone = append(gone, e.goneWord())
		}
	}
	slices.SortFunc(gone, func(a, b eider.Gone) int { return strings.Compare(a.ID, b.ID) })
	return instances, slices.CompactFunc(gone, func(a, b eider.Gone) bool { return a.ID == b.ID })
}

// Records returns all that is known of a service, tombstones included, ordered by id: what a node sends to
// another.
func (t *Table) Records(service string) []eider.Record {
	svc := t.services[service]
	if svc == nil {
		return nil
	}
	svc.sort()
	out := make([]eider.Record, 0, len(svc.live)+len(svc.gone))
	for _, e := range svc.order {
		out = append(out, e.rec)
	}
	for _, e := range svc.gone {
		out = append(out, e.rec)
	}
	slices.SortFunc(out, func(a, b eider.Record) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Knows tells whether anything is known of a service: an instance, a tombstone, a caller.
func (t *Table) Knows(service string) bool { return t.services[service] != nil }

// Complete tells whether this node has heard of everybody: it has run for a lease.
func (t *Table) Complete(now time.Time) bool { return t.cfg.Fresh || t.at(now) >= t.cfg.Lease }

// Services returns the name of every service with an instance or a caller, and of those that have neither any more the
// ones whose last instances are remembered, at most the 100 that ended last: so that nobody takes a service that
// has gone down as a whole for one that never was. In no order: who asks sorts them when the table is free again.
func (t *Table) Services() []string {
	out := make([]string, 0, t.used+keptEnded)
	var ended []*service
	for _, svc := range t.services {
		switch {
		case svc.used:
			out = append(out, svc.name)
		case len(svc.gone) > 0:
			if ended = append(ended, svc); len(ended) == 2*keptEnded {
				ended = latest(ended)
			}
		}
	}
	for _, svc := range latest(ended) {
		out = append(out, svc.name)
	}
	return out
}

// latest keeps the services that ended last.
func latest(ended []*service) []*service {
	if len(ended) <= keptEnded {
		return ended
	}
	slices.SortFunc(ended, func(a, b *service) int {
		return cmp.Or(cmp.Compare(b.endedAt(), a.endedAt()), strings.Compare(a.name, b.name))
	})
	return ended[:keptEnded]
}

// endedAt is when somebody of the service last ended.
func (s *service) endedAt() moment { return s.recent[len(s.recent)-1].endedAt }

// Summary returns one service at a glance, without its cursor.
func (t *Table) Summary(service string) eider.Summary {
	if svc := t.services[service]; svc != nil {
		return svc.summary()
	}
	return eider.Summary{Service: service}
}

func (s *service) summary() eider.Summary {
	return eider.Summary{Service: s.name, Up: s.count[lineUp], Suspect: s.count[lineSuspect], Starting: s.count[lineStarting],
		Down: s.count[lineDown], Draining: s.count[lineDraining], Held: s.held, Gone: min(len(s.gone), recentGone), Callers: len(s.followers) + min(s.strangers, 1)}
}

// Behind counts the callers of a service that haven't acknowledged the view of that number yet.
func (t *Table) Behind(service string, number uint64) int {
	behind := 0
	if svc := t.services[service]; svc != nil {
		for _, f := range svc.followers {
			if f.at < number {
				behind++
			}
		}
	}
	return behind
}

// Away counts the callers of a service that acknowledge and have no stream: remembered, since drains wait for them.
func (t *Table) Away(service string) int {
	away := 0
	if svc := t.services[service]; svc != nil {
		for _, f := range svc.followers {
			away += toInt(f.streams == 0 && f.poll == nil)
		}
	}
	return away
}

// Callers returns who follows the service of that name ("" means any), in no order. Cursor has the number
// that the caller acknowledged last; run and Behind are the replica's.
func (t *Table) Callers(name string) []eider.Caller {
	var out []eider.Caller
	add := func(svc *service) {
		for _, f := range svc.followers {
			out = append(out, t.caller(f))
		}
		if svc.strangers > 0 {
			out = append(out, t.unknownWord(svc))
		}
	}
	if name == "" {
		out = make([]eider.Caller, 0, t.callers)
		for _, svc := range t.services {
			add(svc)
		}
	} else if svc := t.services[name]; svc != nil {
		out = make([]eider.Caller, 0, len(svc.followers)+1)
		add(svc)
	}
	return out
}

func (t *Table) caller(f *following) eider.Caller {
	timers := f.timers()
	return eider.Caller{ID: f.proc.name, Kind: f.kind(), Service: f.svc.name, Stream: f.streams > 0, Since: f.since,
		Cursor: eider.Cursor{Number: f.at}, Cap: t.capOf(f), Every: timers.every, Cache: timers.cache}
}

// Drain returns the state of a departure; of the finished ones the last 256 are kept.
func (t *Table) Drain(dep eider.Departure) (eider.Drain, bool) {
	key := keyOf(&dep)
	if d := t.drains[key]; d != nil {
		return d.snapshot(), true
	}
	for _, d := range slices.Backward(t.finished) {
		if d.key == key {
			return d.snapshot(), true
		}
	}
	return eider.Drain{}, false
}

// Drains returns the departures of a service ("" means any), running ones and the last 256 finished, the
// newest first.
func (t *Table) Drains(service string) []eider.Drain {
	var found []*drain
	for _, d := range t.drains {
		if service == "" || d.svc.name == service {
			found = append(found, d)
		}
	}
	for _, d := range t.finished {
		if service == "" || d.svc.name == service {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b *drain) int { return cmp.Compare(b.order, a.order) })
	out := make([]eider.Drain, 0, len(found))
	for _, d := range found {
		out = append(out, d.snapshot())
	}
	return out
}

// Running counts the drains that run.
func (t *Table) Running() (n Running) {
	for _, d := range t.drains {
		switch {
		case d.dep.Hold != 0:
			n.Holding += d.open
		case d.reached:
			n.Finishing++
			n.Open += d.open
		default:
			n.Waiting++
			n.Open += d.open
		}
	}
	return n
}

// running returns the drains that run, the oldest first.
func (t *Table) running() []*drain {
	var out []*drain
	for _, d := range t.drains {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *drain) int { return cmp.Compare(a.order, b.order) })
	return out
}

// Bound returns how long a drain of the service begun now pauses at most, counted from the leave. It
// doesn't hang on who follows the service now: a caller may come between this answer and the leave.
func (t *Table) Bound(service string) time.Duration {
	bound := max(t.cfg.Cap+max(t.waits-t.clock, 0), t.before-t.clock)
	if service == "" {
		return max(bound, t.polled.longest())
	}
	if svc := t.services[service]; svc != nil {
		bound = max(bound, svc.polled.longest())
		if svc.strangers > 0 {
			bound = max(bound, t.cfg.Unknown)
		}
	}
	return bound
}

// Timing returns what the windows of a service are derived from; false if nothing is known of it.
func (t *Table) Timing(service string) (eider.Timing, bool) {
	out, known := t.Steps(service)
	if known {
		out.Void = t.voids(service)
		if t.massive(1) { // the next refusal is the one that counts
			out.Refused = []string{t.massSentence()}
		}
	}
	return out, known
}

// Steps is Timing without the sentences, which a scrape of thousands of services doesn't read.
func (t *Table) Steps(service string) (eider.Timing, bool) {
	svc := t.services[service]
	if svc == nil {
		return eider.Timing{}, false
	}
	out := eider.Timing{Service: service, Beat: t.cfg.Beat, SuspectAfter: t.cfg.SuspectAfter, Evidence: dialTimes[len(dialTimes)-1],
		Reattach: t.cfg.Reattach, Cap: t.cfg.Cap + max(t.waits-t.clock, 0), Before: max(t.before-t.clock, 0), Bound: t.Bound(service)}
	var extra moment
	for _, e := range svc.live {
		out.Lease, extra = max(out.Lease, e.lease+e.extra), max(extra, e.extra)
	}
	out.Lease = cmp.Or(out.Lease, t.cfg.Lease)
	out.SuspectAfter, out.Reattach = out.SuspectAfter+extra, out.Reattach+extra // who waits as told isn't silent
	if svc.strangers > 0 {
		out.Unknown = t.cfg.Unknown
	}
	return out, true
}

// voids says in sentences why silence may end nobody of a service now.
func (t *Table) voids(service string) (out []string) {
	if t.preserving > 0 {
		for _, g := range t.groups {
			if g.preserving && g.key.service == service {
				out = append(out, g.sentence("instances of "+g.String()))
			}
		}
	}
	slices.Sort(out)
	if t.node.preserving {
		out = append([]string{t.node.sentence("instances of this node")}, out...)
	}
	return out[:min(len(out), maxVoid)]
}

// maxVoid bounds the sentences of Void.
const maxVoid = 16

// Void says in sentences what voids this node's bounds now; nil if nothing does.
func (t *Table) Void() []string {
	var out []string
	if t.clock < t.before {
		out = append(out, "this node has just started: callers from before may not have come back yet, and every drain waits for them")
	}
	if len(t.refusals) > 0 && t.massive(0) {
		out = append(out, t.massSentence())
	}
	if t.node.preserving {
		out = append(out, t.node.sentence("instances of this node"))
	}
	var groups []string
	if t.preserving > 0 {
		for _, g := range t.groups {
			if g.preserving {
				groups = append(groups, g.sentence("instances of "+g.String()))
			}
		}
	}
	slices.Sort(groups)
	if rest := len(groups) - maxVoid; rest > 0 {
		groups = append(groups[:maxVoid], fmt.Sprintf("and %d more groups like these", rest))
	}
	return append(out, groups...)
}
