package sim

import (
	"time"

	"github.com/eiderhq/eider"
)

// What operators do: they hold the instance of a key, with or without an end, and release it again. Only at a node
// alone: holds don't travel between nodes yet.

// word is what an operator has said of a key, as it is in force.
type word struct {
	count uint64
	until time.Time // zero: until it is released
}

// planHolds draws who is held, and when it is released, if at all.
func (w *world) planHolds() {
	if len(w.nodes) > 1 {
		return
	}
	for range w.rng.IntN(6) {
		n, key := w.nodes[0], w.procs[w.rng.IntN(len(w.procs))].key
		at := w.between(time.Second, chaosTime-time.Second)
		length := time.Duration(0)
		if w.chance(0.4) {
			length = w.between(100*time.Millisecond, 20*time.Second)
		}
		w.after(at, func() { n.do(func() { n.hold(key, length) }) })
		if w.chance(0.6) {
			w.after(at+w.between(0, 20*time.Second), func() { n.do(func() { n.release(key) }) })
		}
	}
}

func (n *node) hold(key eider.Key, length time.Duration) {
	ask := eider.Hold{By: "ops"}
	if length > 0 {
		ask.Until = n.clock().Add(length)
	}
	h, fx, err := n.tb.Hold(n.clock(), key, ask)
	if err == nil {
		if n.given[h.Count] {
			n.w.broke("%s gives count %d a second time, for a hold of %s", n.name, h.Count, key)
		}
		n.held[key], n.given[h.Count] = word{h.Count, h.Until}, true
	} else if _, listed := n.tb.Instance(key); listed {
		n.w.broke("%s can't hold %s, which it lists: %v", n.name, key, err)
	}
	n.took(fx)
}

func (n *node) release(key eider.Key) {
	fx, err := n.tb.Release(n.clock(), key, "ops")
	if _, held := n.held[key]; held != (err == nil) {
		n.w.broke("%s was asked to release %s, held: %t, and says %v", n.name, key, held, err)
	}
	delete(n.held, key)
	n.took(fx)
}

// holdEnded takes down that a hold has ended by itself.
func (n *node) holdEnded(key eider.Key) {
	said, held := n.held[key]
	if !held || said.until.IsZero() || n.clock().Before(said.until) {
		n.w.broke("%s ends the hold of %s, which is %+v, by itself", n.name, key, said)
	}
	delete(n.held, key)
}

// checkView holds what callers are told to what operators have said, whatever has become of the instance since; and
// that a hold makes nobody leave.
func (n *node) checkView(v *eider.View) {
	for i := range v.Instances {
		in := &v.Instances[i]
		said, held := n.held[in.Key]
		if held != (in.Hold != nil) || held && (in.Hold.Count != said.count || !in.Hold.Until.Equal(said.until)) {
			n.w.broke("%s shows %s held by %+v, and operators said %+v", n.name, in.Key, in.Hold, said)
		}
		if p := n.w.byNonce(in.Incarnation.Nonce); in.Status == eider.Draining && p != nil && !p.leaving {
			n.w.broke("%s has %s leaving, which has said no such thing", n.name, in.Key)
		}
	}
}

// rememberHolds demands that a run which ended in order has kept every hold; what one that crashed hadn't written
// yet is lost.
func (n *node) rememberHolds(closed bool) {
	kept := map[eider.Key]word{}
	for _, piece := range n.disk.marks() {
		if piece.Hold != nil {
			kept[piece.Key] = word{piece.Count, piece.Hold.Until}
		}
	}
	for key, said := range n.held {
		if closed && kept[key] != said {
			n.w.broke("%s ends in order, and its disk has hold %+v of %s, which is %+v", n.name, kept[key], key, said)
		}
	}
	n.held = kept
}

// checkEnds demands of a node that has just looked that no hold is in force beyond its end, for however long the node
// didn't run before.
func (n *node) checkEnds() {
	for key, said := range n.held {
		if !said.until.IsZero() && n.clock().After(said.until) {
			n.w.broke("%s still holds %s at %s, until %s", n.name, key, n.clock(), said.until)
		}
	}
}

// checkHolds is what holds of holds in the end: everybody has let go who has
// somebody else to call, and whoever isn't held is picked again.
func (w *world) checkHolds() {
	for _, n := range w.nodes {
		for key, said := range n.held {
			in, listed := n.tb.Instance(key)
			if !listed || in.Status == eider.Draining {
				continue
			}
			dep := in.Departure()
			dep.Hold = said.count
			if d, ok := n.tb.Drain(dep); !ok || !d.Reached && n.clock().Sub(d.Since) > quietTime/2 {
				w.broke("%s holds %s, and nobody could wait for that: %+v", n.name, key, d)
			}
		}
		for _, st := range n.watches {
			if c := st.peer.(*caller); c.st == st && c.alive && !st.doomed {
				c.checkPicks(n)
			}
		}
	}
}

// checkPicks holds whom a caller picks to what its node lists.
func (c *caller) checkPicks(n *node) {
	alternative := c.alternative()
	for _, in := range n.view(c.service).Instances {
		s := c.known[in.ID]
		if in.Status != eider.Up || s == nil || !s.rec.Incarnation.Is(in.Incarnation) {
			continue
		}
		if held := in.Hold != nil; !held && !s.picks || held && s.picks && alternative {
			c.w.broke("%s picks %s: %t, and on %s it is held by %+v", c.name, in.Key, s.picks, n.name, in.Hold)
		}
	}
}
