package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/eiderhq/eider"
)

// The barrier of a drain is reached when nobody is left who might still send to the leaving instance:
// every member has let go, or a cap says how long it may take at most, and names who took it.
//
// A drain's members are in three runs: open ones, capped ones, and the settled rest, so that the ones a
// page shows first are at hand among fifty thousand.

// drain is one planned departure, or the holding of one instance, on the node that the instance is attached to (owned) or on another,
// which then only reports on its own callers.
type drain struct {
	dep     eider.Departure
	key     departure
	of      *entry // nil when it is over
	svc     *service
	status  eider.Status
	owned   bool
	order   uint64 // of its beginning
	answers uint64 // to polls, before it began
	since   time.Time
	from    moment // the leave
	bound   time.Duration
	members []member
	index   map[string]int32
	open    int
	capped  int
	total   int
	joining bool // a report is being merged: the barrier isn't reached before all of it has been
	reached bool
	barrier moment // after the leave
	slot    int32
	heard   map[string]uint64 // the last report of each node
	last    *eider.Drain      // how it ended, once it is over; immutable
}

type member struct {
	caller  string
	proc    *process // when it is known here
	kind    eider.CallerKind
	state   eider.MemberState
	away    bool     // it has a stream to another node
	nodes   []string // other nodes that report it open
	cap     time.Duration
	settled moment // after the leave
	polled  polled // of a poller
}

func (d *drain) place() *int32 { return &d.slot }

// leaving begins the drain of an instance that is now DRAINING. That of its holding is over: callers are asked again,
// since a hold may be released, and a leave never is.
func (t *Table) leaving(e *entry) {
	if e.hold != nil {
		t.finish(departureOf(&e.rec).of(e.hold.count), eider.Draining)
	}
	t.depart(e, 0)
}

// depart begins a drain, of a leave or of a hold, or takes over one that another node ran.
func (t *Table) depart(e *entry, hold uint64) {
	d := t.drains[departureOf(&e.rec).of(hold)]
	if d == nil {
		d = t.openDrain(e, hold)
		if hold == 0 {
			t.tell(eider.EventLeaving, e, callers(d.open)+" to let go")
		} else {
			t.tellHold(eider.EventHeld, e.hold, e, e.hold.about()+callers(d.open)+" to let go")
		}
	}
	switch {
	case e.owned && !d.owned:
		d.owned = true
		for _, p := range t.peers {
			t.awaitNode(d, p.name)
		}
	case !e.owned:
		d.owned = false // what was reached stays so: the instance may have acted on it
	}
	t.fx.Flush = true
	t.progress(d)
	t.reach(d)
}

func (t *Table) openDrain(e *entry, hold uint64) *drain {
	key := departureOf(&e.rec).of(hold)
	d := &drain{dep: e.rec.Departure(), key: key, of: e, svc: e.svc, status: e.rec.Status, order: t.begun, answers: t.answers,
		since: t.last, from: t.clock, bound: t.cfg.Cap, heard: map[string]uint64{},
		members: make([]member, 0, len(e.svc.followers)+1), index: make(map[string]int32, len(e.svc.followers)+1)}
	d.dep.Hold = hold
	t.begun++
	t.drains[key] = d
	t.ofHolds += toInt(hold != 0)
	e.svc.running = append(e.svc.running, d)
	if i := slices.IndexFunc(t.finished, func(f *drain) bool { return f.key == key }); i >= 0 {
		// It was taken for dead in mid-drain and is back: the leave is still the same.
		was := t.finished[i]
		d.since, d.from, d.reached, d.barrier = was.since, was.from, was.reached, was.barrier
		t.finished = slices.Delete(t.finished, i, i+1)
	}
	if d.reached {
		return d
	}
	for _, f := range e.svc.followers {
		t.join(d, f) // nothing is reached meanwhile: nobody owns the drain yet
		if f.hasLetGo(key) {
			t.resolve(d, f.proc.name, eider.LetGo)
		}
	}
	if t.clock < t.before {
		t.enter(d, member{caller: string(eider.FromBefore), kind: eider.FromBefore, cap: t.before - d.from})
	}
	t.awaitUnknown(d, e)
	return d
}

// join makes a caller a member, or one again. What it has let go of before, it has: see [Table.honour].
func (t *Table) join(d *drain, f *following) {
	if d.reached {
		return // it learned of the service when the instance was leaving already
	}
	i, ok := d.index[f.proc.name]
	switch {
	case !ok:
		m := member{caller: f.proc.name, proc: f.proc, kind: f.kind(), cap: t.capOf(f), polled: f.timers()}
		if t.clock < t.before {
			m.cap = max(m.cap, t.before-d.from) // it may be one from before that was told to come back so late
		}
		t.enter(d, m)
	case d.members[i].state == eider.Unfollowed || d.members[i].state == eider.SaidGoodbye || d.members[i].state == eider.Ended:
		t.reopen(d, i)
	}
	d.members[d.index[f.proc.name]].proc = f.proc
}

// enter adds an open member.
func (t *Table) enter(d *drain, m member) int32 {
	m.state = eider.Waiting
	d.members = append(d.members, m)
	d.total++
	i := d.swap(len(d.members)-1, d.open+d.capped) // before the settled rest
	i = d.swap(i, d.open)                          // before the capped
	d.open++
	d.bound = max(d.bound, m.cap)
	t.alarms.soon(d, d.from+m.cap)
	t.progress(d)
	return int32(i)
}

// swap exchanges two members, and returns where the first now is.
func (d *drain) swap(i, j int) int {
	d.members[i], d.members[j] = d.members[j], d.members[i]
	d.index[d.members[i].caller] = int32(i)
	d.index[d.members[j].caller] = int32(j)
	return j
}

func (t *Table) reopen(d *drain, i int32) {
	j := d.swap(int(i), d.open+d.capped)
	j = d.swap(j, d.open)
	d.open++
	m := &d.members[j]
	m.state, m.settled = eider.Waiting, 0
	t.alarms.soon(d, d.from+m.cap)
	t.progress(d)
}

// resolve settles a member. A capped one may still let go, which is shown; else the first word stays.
func (t *Table) resolve(d *drain, caller string, state eider.MemberState) {
	at, ok := d.index[caller]
	if !ok {
		return
	}
	i := int(at)
	m := &d.members[i]
	switch {
	case m.state.Settled() && (m.state != eider.Capped || state == eider.Capped):
		return
	case m.state == eider.Capped:
		d.capped--
		i = d.swap(i, d.open+d.capped)
	case state == eider.Capped:
		d.open--
		i = d.swap(i, d.open)
		d.capped++
	default:
		d.open--
		i = d.swap(i, d.open)
		i = d.swap(i, d.open+d.capped)
	}
	d.members[i].state, d.members[i].settled = state, t.clock-d.from
	t.progress(d)
	t.reach(d)
}

// excuse settles a caller in all drains of a service.
func (t *Table) excuse(f *following, state eider.MemberState) {
	for _, d := range f.svc.running {
		t.resolve(d, f.proc.name, state)
	}
}

// wait shows whether an open member has an alternative.
func (t *Table) wait(d *drain, caller string, state eider.MemberState) {
	if i, ok := d.index[caller]; ok && !d.members[i].state.Settled() && d.members[i].state != state {
		d.members[i].state = state
		t.progress(d)
	}
}

// extend lengthens the cap of an open member.
func (t *Table) extend(d *drain, caller string, by time.Duration) {
	if i, ok := d.index[caller]; ok && !d.members[i].state.Settled() {
		m := &d.members[i]
		m.cap = max(m.cap, min(m.cap+by, t.cfg.Cap+maxWait))
		d.bound = max(d.bound, m.cap)
		t.progress(d)
	}
}

// due covers by its cap whoever hasn't settled in time, and names it.
func (d *drain) due(t *Table) {
	next := moment(-1)
	for i := 0; i < d.open; {
		m := &d.members[i]
		if at := d.from + m.until(); t.clock < at {
			if next < 0 || at < next {
				next = at
			}
			i++
			continue
		}
		if t.work--; t.work < 0 {
			t.alarms.set(d, t.clock) // the rest at the next look, at once, and after the inputs that wait
			return
		}
		if m.until() < m.cap {
			t.resolve(d, m.caller, eider.Polled)
			continue
		}
		detail := m.overdue()
		t.event(eider.Event{Kind: eider.EventCapped, Service: d.svc.name, ID: d.dep.ID, Incarnation: d.dep.Incarnation,
			Status: d.standing(), Caller: m.caller, Hold: d.dep.Hold, Detail: detail})
		t.resolve(d, m.caller, eider.Capped) // and another one is at i now
	}
	if next >= 0 {
		t.alarms.set(d, next)
	}
}

// reach tells once that nobody is waited for any more, on the node that decides it.
func (t *Table) reach(d *drain) {
	if !d.owned || d.reached || d.joining || d.open > 0 {
		return
	}
	d.reached, d.barrier = true, t.clock-d.from
	t.progress(d)
	t.event(eider.Event{Kind: eider.EventBarrier, Service: d.svc.name, ID: d.dep.ID, Incarnation: d.dep.Incarnation,
		Status: d.standing(), Hold: d.dep.Hold, Detail: d.settlement()})
}

// settlement says in words whom a barrier waited for.
func (d *drain) settlement() string {
	if d.total == 0 {
		return "nobody to wait for"
	}
	text := callers(d.total-d.capped) + " settled"
	if d.capped > 0 {
		text += ", " + callers(d.capped) + " covered by a cap"
	}
	return text + " after " + d.barrier.Round(time.Millisecond).String()
}

func callers(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// standing is the status of its instance, the last one once the drain is over.
func (d *drain) standing() eider.Status {
	if d.of != nil {
		return d.of.rec.Status
	}
	return d.status
}

// finish ends a drain with its instance, or with its hold. What is kept of it is bounded.
func (t *Table) finish(key departure, status eider.Status) {
	d := t.drains[key]
	if d == nil {
		return
	}
	delete(t.drains, key)
	d.svc.running = slices.DeleteFunc(d.svc.running, func(other *drain) bool { return other == d })
	t.alarms.cancel(d)
	t.ofHolds -= toInt(key.hold != 0)
	d.of, d.status, d.index, d.heard = nil, status, nil, nil
	last := d.snapshot()
	d.last, d.members = &last, nil
	if len(t.finished) == keptDrains {
		t.finished = slices.Delete(t.finished, 0, 1)
	}
	t.finished = append(t.finished, d)
	t.progress(d)
}

func (m *member) connected() bool { return m.away || m.proc != nil && m.proc.streams > 0 }

// snapshot shows a drain as it stands.
func (d *drain) snapshot() eider.Drain {
	if d.last != nil {
		return *d.last
	}
	s := eider.Drain{Departure: d.dep, Kind: eider.LeaveDrain, Since: d.since, Bound: d.bound, Barrier: d.barrier, Reached: d.reached,
		Status: d.standing(), Over: d.of == nil, Total: d.total, Open: d.open}
	if d.dep.Hold != 0 {
		s.Kind = eider.HoldDrain
	}
	if shown := min(len(d.members), eider.MaxMembers); shown > 0 {
		s.Members = make([]eider.Member, shown)
		for i := range s.Members {
			s.Members[i] = d.members[i].word()
		}
	}
	return s
}

func (m *member) word() eider.Member {
	return eider.Member{Caller: m.caller, Kind: m.kind, State: m.state, Stream: m.connected(), Cap: m.cap, Settled: m.settled,
		Every: m.polled.every, Cache: m.polled.cache}
}
