package ledger

import (
	"slices"
	"time"

	"github.com/eiderhq/eider"
)

// Several nodes: what each knows of all, by arithmetic alone. How records and reports travel is the
// replica's concern; they may come late, twice and in any order.

// newer tells whether a record replaces what is known of its key. It is [eider.Record.Compare], but that
// LEFT is final within its incarnation: a process that has said its last word on one node while it was
// still moving to another has left nevertheless. That keeps the order total, and so the merge a maximum.
func newer(rec, known *eider.Record) bool {
	if rec.Incarnation == known.Incarnation && (rec.Status == eider.Left) != (known.Status == eider.Left) {
		return rec.Status == eider.Left
	}
	return rec.Compare(known) > 0
}

// Apply merges a record that another node wrote, and that came from one. It is commutative, associative
// and idempotent. It isn't held up by limits: each node holds to them for what attaches to it, and nodes
// that left out different records would never agree.
func (t *Table) Apply(now time.Time, rec eider.Record, from string) Effects {
	t.begin(now)
	if rec.Incarnation.Nonce == 0 || !rec.Status.Live() && !rec.Status.Gone() || rec.Service == "" || rec.ID == "" {
		return t.take()
	}
	e := t.find(rec.Key)
	if e != nil && !newer(&rec, &e.rec) {
		return t.take()
	}
	known := e != nil && e.rec.Incarnation.Is(rec.Incarnation)
	var was eider.Record
	if e == nil {
		e = &entry{svc: t.service(rec.Service)}
	} else {
		was = e.rec
	}
	t.become(e, rec, from, nil)
	t.changed(e)
	t.applied(e, &was, known)
	return t.take()
}

// applied tells what a merged record has brought, and moves the drains along.
func (t *Table) applied(e *entry, was *eider.Record, known bool) {
	status := e.rec.Status
	switch {
	case status == eider.Left:
		t.tell(eider.EventLeft, e, "")
	case status == eider.Dead:
		t.tell(eider.EventDead, e, "")
		t.fx.Flush = true
	case status == eider.Lapsed:
		t.tell(eider.EventLapsed, e, "")
	case !known:
		t.tell(eider.EventRegistered, e, "")
	case e.rec.Attachment != was.Attachment:
		t.tell(eider.EventReattached, e, "")
	case status != was.Status && status != eider.Draining:
		t.tell(eider.EventStatus, e, "")
	}
	switch {
	case status == eider.Draining:
		t.leaving(e)
	case status.Gone():
		t.finishAll(e, status)
	default:
		t.finish(departureOf(&e.rec), status)
		t.holding(e)
	}
}

// peer is another node. One that went is kept in mind as long as a caller is: until its callers have
// shown up here, drains wait for them as for it.
type peer struct {
	name   string
	gone   bool
	goneAt moment
}

// Peers tells which other nodes there are now. A drain that begins waits for the report of each.
func (t *Table) Peers(now time.Time, nodes []string) Effects {
	t.begin(now)
	for i := range t.peers {
		p := &t.peers[i]
		if here := slices.Contains(nodes, p.name); here == p.gone {
			p.gone, p.goneAt = !here, t.clock
		}
	}
	for _, name := range nodes {
		if name == t.cfg.Node || slices.ContainsFunc(t.peers, func(p peer) bool { return p.name == name }) {
			continue
		}
		t.peers = append(t.peers, peer{name: name})
		for _, d := range t.running() {
			if d.owned {
				t.awaitNode(d, name)
			}
		}
	}
	t.forgetPeers()
	return t.take()
}

func (t *Table) forgetPeers() {
	t.peers = slices.DeleteFunc(t.peers, func(p peer) bool { return p.gone && p.goneAt+t.cfg.Remember <= t.clock })
}

// awaitNode makes a drain wait for what a node has to report.
func (t *Table) awaitNode(d *drain, node string) {
	if _, heard := d.heard[node]; d.reached || heard {
		return
	}
	name := "callers of " + node
	if _, ok := d.index[name]; !ok {
		t.enter(d, member{caller: name, kind: eider.OfNode, cap: t.cfg.Cap})
	}
}

// Report is what a node tells the owner of a drain: every caller of its own that the drain counts.
type Report struct {
	Departure eider.Departure
	Seq       uint64 // counts the reports that a node run has made; of two, the higher one is the later
	Members   []eider.Member
}

// Members returns this node's report for a drain, false until it has applied the leave: before that it
// doesn't know who may still join.
func (t *Table) Members(now time.Time, dep eider.Departure) (Report, bool) {
	d := t.drains[keyOf(&dep)]
	if d == nil {
		return Report{}, false
	}
	t.reports++
	r := Report{Departure: d.dep, Seq: t.reports}
	for i := range d.members {
		if m := &d.members[i]; m.kind != eider.OfNode && len(m.nodes) == 0 {
			r.Members = append(r.Members, m.word())
		}
	}
	return r, true
}

// Report joins another node's callers into a drain that is owned here, by caller id.
func (t *Table) Report(now time.Time, from string, r Report) Effects {
	t.begin(now)
	d := t.drains[keyOf(&r.Departure)]
	if d == nil || !d.owned || r.Seq <= d.heard[from] {
		return t.take()
	}
	d.heard[from] = r.Seq
	d.joining = true
	for i := range r.Members {
		t.merge(d, from, &r.Members[i])
	}
	d.joining = false
	t.heardOf(d, "callers of "+from)
	t.reach(d)
	return t.take()
}

// heardOf takes out the member that stood for the callers of a node: they stand for themselves now.
func (t *Table) heardOf(d *drain, name string) {
	i, ok := d.index[name]
	if !ok || d.members[i].state == eider.Capped {
		return
	}
	d.open--
	at := d.swap(int(i), d.open)
	at = d.swap(at, d.open+d.capped)
	at = d.swap(at, len(d.members)-1)
	d.members[at] = member{}
	d.members = d.members[:at]
	delete(d.index, name)
	d.total--
	t.progress(d)
}

// merge joins one member of another node. What a caller said of itself (let go, goodbye) holds wherever
// it said it; that it follows no longer holds where it said so.
func (t *Table) merge(d *drain, from string, m *eider.Member) {
	name := m.Caller
	if m.Kind == eider.FromBefore {
		name += " at " + from
	}
	i, ok := d.index[name]
	if !ok {
		if d.reached || m.State == eider.Unfollowed {
			return
		}
		i = t.enter(d, t.elsewhere(d, from, name, m))
	}
	known := &d.members[i]
	if known.away != m.Stream {
		known.away = m.Stream
		t.progress(d)
	}
	local := known.proc != nil && known.proc.following(d.svc) != nil
	switch m.State {
	case eider.LetGo, eider.SaidGoodbye, eider.Ended, eider.Polled:
		t.resolve(d, name, m.State)
	case eider.Unfollowed:
		known.nodes = slices.DeleteFunc(known.nodes, func(n string) bool { return n == from })
		if len(known.nodes) == 0 && !local {
			t.resolve(d, name, eider.Unfollowed)
		}
	case eider.Capped:
		if m.Kind == eider.FromBefore {
			t.resolve(d, name, eider.Capped) // that node has run long enough; a native one's cap counts from the leave here
		}
	default:
		if !slices.Contains(known.nodes, from) {
			known.nodes = append(known.nodes, from)
		}
		if known.state == eider.Unfollowed && !d.reached {
			t.reopen(d, i)
		} else if !local || known.proc.streams == 0 {
			t.wait(d, name, m.State)
		}
	}
}
