package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// writeEvery is how late a node's disk is.
const writeEvery = 100 * time.Millisecond

// disk is what a node keeps for its next run, a moment late.
type disk struct {
	kept map[ledger.Trace]any // a ledger.Kept, an eider.Caller, a ledger.Mark, or the wait for callers from before
	late []ledger.Trace       // changed since
	at   time.Duration        // last written
}

// note has what has changed written, a little later.
func (d *disk) note(n *node, traces []ledger.Trace) {
	if len(d.late) == 0 && len(traces) > 0 {
		run := n.run
		n.w.after(n.w.between(0, writeEvery), func() {
			n.do(func() {
				if run == n.run {
					d.write(n)
				}
			})
		})
	}
	d.late = append(d.late, traces...)
}

func (d *disk) write(n *node) {
	for _, t := range d.late {
		if before, ok := n.tb.KeptBefore(); ok && t == (ledger.Trace{}) {
			d.kept[t] = before
		} else if mark, ok := n.tb.KeptHold(eider.Key{Service: t.Service, ID: t.Held}); ok {
			d.kept[t] = mark
		} else if k, ok := n.tb.Kept(eider.Key{Service: t.Service, ID: t.ID}); ok {
			d.kept[t] = k
		} else if c, ok := n.tb.KeptCaller(t.Service, t.Caller); ok {
			d.kept[t] = c
		} else {
			delete(d.kept, t)
		}
	}
	d.late, d.at = nil, n.w.now
}

// memory is what the disk holds.
func (d *disk) memory(closed bool) *ledger.Memory {
	m := &ledger.Memory{Written: clock(d.at), Closed: closed, Marks: d.marks()}
	for _, t := range slices.SortedFunc(maps.Keys(d.kept), func(a, b ledger.Trace) int {
		return strings.Compare(a.Service+"/"+a.ID+"/"+a.Caller, b.Service+"/"+b.ID+"/"+b.Caller)
	}) {
		switch piece := d.kept[t].(type) {
		case ledger.Kept:
			m.Instances = append(m.Instances, piece)
		case eider.Caller:
			m.Callers = append(m.Callers, piece)
		case time.Duration:
			m.Before = piece
		}
	}
	return m
}

// marks is what it holds of holds and releases.
func (d *disk) marks() (out []ledger.Mark) {
	for _, piece := range d.kept {
		if mark, ok := piece.(ledger.Mark); ok {
			out = append(out, mark)
		}
	}
	slices.SortFunc(out, func(a, b ledger.Mark) int { return a.Key.Compare(b.Key) })
	return out
}

// remember gives a node that starts what it knew, and demands that nothing of it is lost: who lived is listed, and
// doubted; who has gone stays gone; nobody is looked for sooner than a lease from now.
func (n *node) remember(m *ledger.Memory) {
	for _, k := range m.Instances {
		n.known[k.Record.Key] = k.Record
		n.heard[k.Record.Incarnation.Nonce] = n.w.now
	}
	n.took(n.tb.Restore(n.clock(), *m))
	for _, k := range m.Instances {
		rec, ok := n.record(k.Record.Key)
		in, listed := n.tb.Instance(k.Record.Key)
		if !ok || !rec.Incarnation.Is(k.Record.Incarnation) || rec.Status != k.Record.Status || listed && !in.Suspicion.Has(eider.Restored) {
			n.w.broke("%s has lost %s (%s, nonce %d) in a restart: %+v", n.name, k.Record.Key, k.Record.Status, k.Record.Incarnation.Nonce, in)
		}
	}
}
