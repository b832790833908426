package sim

import (
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/eiderhq/eider"
)

// note takes down what a node tells, and holds it against what the world knows.
func (n *node) note(e *eider.Event) {
	n.seen[e.Kind]++
	n.w.log("%s: %s [%s]", n.name, e, e.Incarnation)
	switch e.Kind {
	case eider.EventBarrier:
		n.checkBarrier(eider.Departure{Key: eider.Key{Service: e.Service, ID: e.ID}, Incarnation: e.Incarnation, Hold: e.Hold})
	case eider.EventHoldEnded:
		n.holdEnded(eider.Key{Service: e.Service, ID: e.ID})
	case eider.EventSuspect:
		n.wedged += int(e.Suspicion&eider.Wedged) / int(eider.Wedged)
	case eider.EventLapsed:
		if e.Detail != "" { // its own conclusion, not another node's
			n.checkLapse(e.Incarnation.Nonce)
		}
	}
}

// checkBarrier holds a barrier against every caller that could still pick.
func (n *node) checkBarrier(dep eider.Departure) {
	if n.reached[reached{dep.Incarnation.Nonce, dep.Hold}] {
		n.w.broke("%s reached the barrier of %s twice", n.name, dep.Key)
	}
	n.reached[reached{dep.Incarnation.Nonce, dep.Hold}] = true
	n.heldBarriers += int(min(dep.Hold, 1))
	d, ok := n.tb.Drain(dep)
	if !ok {
		n.w.broke("%s reached the barrier of %s, which it doesn't know", n.name, dep.Key)
		return
	}
	n.checkPollers(&d)
	for i := range d.Members {
		if m := &d.Members[i]; m.State == eider.Polled {
			n.polled++
		}
	}
	for _, c := range n.w.callers {
		if c.service == dep.Service && c.couldPick(dep) && !n.excused(c, &d) {
			n.w.broke("%s reached the barrier of %s (nonce %d) while %s could still pick it: %+v", n.name, dep.Key, dep.Incarnation.Nonce, c.name, d.Members)
		}
	}
}

// excused tells whether a barrier needn't wait for a caller: its cap has passed, or that of whoever
// stands for it, or no node has had a stream of it for as long as callers are remembered (those of a node's
// run before: the largest cap).
func (n *node) excused(c *caller, d *eider.Drain) bool {
	for i := range d.Members {
		m := &d.Members[i]
		if m.State != eider.Capped {
			continue
		}
		of, isNode := strings.CutPrefix(m.Caller, "callers of ")
		if m.Caller == c.name || m.Kind == eider.FromBefore || isNode && c.touched[of] {
			return true
		}
	}
	for _, st := range c.streams {
		if st.run != st.node.run {
			forgotten := st.nodeEnd && n.w.now-st.nodeLost >= remember // by the run before already
			if !forgotten && n.w.now-st.node.started < maxPause {
				return false
			}
			continue
		}
		if st.follower != 0 && (!st.nodeEnd || n.w.now-st.nodeLost < remember) {
			return false
		}
	}
	return true
}

// checkLapse holds a lapse against the last beat that the node has heard.
func (n *node) checkLapse(nonce uint64) {
	if since := n.w.now - n.heard[nonce]; since < lease {
		n.w.broke("%s lapsed nonce %d only %s after its last beat", n.name, nonce, since)
	}
	if !n.w.quiet || n.w.now < chaosTime+quietTime/2 {
		return
	}
	for _, p := range n.w.procs {
		if p.alive && p.nonce == nonce && p.listed && p.st.node == n {
			n.w.broke("%s lapsed %s, which lives and beats", n.name, p.name)
		}
	}
}

// checkOrder holds a record against what it replaces.
func (n *node) checkOrder(rec *eider.Record) {
	was, ok := n.known[rec.Key]
	if !ok {
		return
	}
	same := rec.Incarnation == was.Incarnation
	switch {
	case same && was.Status == eider.Left && rec.Status != eider.Left:
		n.w.broke("%s has %s of nonce %d back from LEFT", n.name, rec.Status, rec.Incarnation.Nonce)
	case same && rec.Status == eider.Left && was.Status != eider.Left:
	case rec.Compare(&was) < 0:
		n.w.broke("%s replaced %v by the older %v", n.name, was, rec)
	}
}

// finalCheck is what holds once all has been healed for a while.
func (w *world) finalCheck() {
	w.checkWedged()
	w.checkHolds()
	first := w.nodes[0]
	for _, n := range w.nodes {
		for _, s := range services {
			if diff := cmp.Diff(first.tb.Records(s), n.tb.Records(s)); diff != "" {
				w.broke("%s and %s disagree about %s: %s", first.name, n.name, s, diff)
			}
		}
		if c := n.tb.Counts(); c.Draining != 0 && !w.stillLeaving() {
			w.broke("%d drains never end on %s: %+v", c.Draining, n.name, n.tb.Drains(""))
		}
	}
	for _, p := range w.procs {
		if !p.alive || p.leaving {
			continue
		}
		status, nonce := first.listed(p.key)
		holder := w.byNonce(nonce)
		if status != eider.Up || holder == nil {
			w.broke("%s lives and beats, and its key %s is %s by nonce %d, which nobody has", p.name, p.key, status, nonce)
		}
	}
}

func (w *world) stillLeaving() bool {
	for _, p := range w.procs {
		if p.alive && p.leaving {
			return true
		}
	}
	return false
}

// byNonce finds the living process with a nonce.
func (w *world) byNonce(nonce uint64) *proc {
	for _, p := range w.procs {
		if p.alive && p.nonce == nonce {
			return p
		}
	}
	return nil
}
