package sim

import (
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// plan draws what goes wrong, and when.
func (w *world) plan() {
	faults := 3 + w.rng.IntN(25)
	for range faults {
		w.after(w.between(time.Second, chaosTime-time.Second), w.fault())
	}
	w.planHolds()
	if w.chance(0.3) { // a rolling restart, one at a time
		for i := range w.procs {
			p := w.procs[i]
			w.after(10*time.Second+time.Duration(i)*5*time.Second, func() { w.holderOf(p).leave() })
		}
	}
	if w.chance(0.1) { // all at once
		w.after(w.between(5*time.Second, 30*time.Second), func() {
			for _, p := range w.procs {
				p.leave()
			}
		})
	}
}

// holderOf returns the latest process with the same key: faults hit successors too.
func (w *world) holderOf(p *proc) *proc {
	for _, other := range w.procs {
		if other.alive && other.key == p.key && other.addr == p.addr {
			return other
		}
	}
	return p
}

func (w *world) fault() func() {
	p, c, n := w.procs[w.rng.IntN(len(w.procs))], w.callers[w.rng.IntN(len(w.callers))], w.nodes[w.rng.IntN(len(w.nodes))]
	long := w.between(0, 3*lease) // often longer than a lease
	kinds := []func(){
		func() { w.holderOf(p).leave() },
		func() { w.holderOf(p).leave() },
		func() { w.holderOf(p).crash() },
		func() { w.holderOf(p).move() },
		func() { w.stop(&w.holderOf(p).mailbox, "a process", long) },
		func() { w.stop(&n.mailbox, n.name, long) },
		func() { w.stop(&c.mailbox, c.name, long) },
		func() { w.sever(n.place, w.nodes[w.rng.IntN(len(w.nodes))].place, long) },
		func() { w.sever(n.place, w.holderOf(p).place, long) },
		func() { w.sever(n.place, c.place, long) },
		func() { w.isolate(n, long) },
		func() { c.move() },
		func() { c.move() },
		func() { c.crash() },
		func() { c.goodbye() },
		func() { w.startCaller("late"+c.name+time.Duration(w.order).String(), c.service, w.place()) },
		func() { w.storm(n) },
		func() { w.restart(n) },
		func() { w.flap(w.holderOf(p)) },
		func() { w.hang(w.holderOf(p), long) },
	}
	return kinds[w.rng.IntN(len(kinds))]
}

// hang has a process answer nothing, while its beats go on.
func (w *world) hang(p *proc, d time.Duration) {
	if !p.alive || w.quiet {
		return
	}
	p.hang(true)
	w.after(d, func() { p.hang(false) })
}

// stop is SIGSTOP and, later, SIGCONT: what came meanwhile is found then.
func (w *world) stop(m *mailbox, who string, d time.Duration) {
	if m.stopped || w.quiet {
		return
	}
	w.log("%s is stopped for %s", who, d)
	m.stopped = true
	w.after(d, func() {
		if m.stopped {
			w.log("%s goes on", who)
			m.resume()
		}
	})
}

// sever cuts a link. Streams across it are over, as each end will notice.
func (w *world) sever(a, b int, d time.Duration) {
	if a == b || w.quiet {
		return
	}
	w.log("cut %d|%d for %s", a, b, d)
	w.cuts[link(a, b)]++
	w.doom(func(st *stream) bool { return link(st.node.place, st.place) == link(a, b) })
	w.after(d, func() {
		if w.cut(a, b) {
			w.cuts[link(a, b)]--
		}
	})
}

// isolate cuts a node off from all others, or from everybody.
func (w *world) isolate(n *node, d time.Duration) {
	for _, other := range w.nodes {
		w.sever(n.place, other.place, d)
	}
	if w.chance(0.3) {
		for _, p := range w.procs {
			w.sever(n.place, p.place, d)
		}
		for _, c := range w.callers {
			w.sever(n.place, c.place, d)
		}
	}
}

// storm ends all streams of a node.
func (w *world) storm(n *node) {
	w.log("all streams of %s break", n.name)
	w.doom(func(st *stream) bool { return st.node == n })
}

// flap breaks a process' stream.
func (w *world) flap(p *proc) {
	if p.st != nil {
		p.st.doom()
	}
}

func (w *world) doom(which func(*stream) bool) {
	for _, p := range w.procs {
		for _, st := range []*stream{p.st, p.old} {
			if st != nil && which(st) {
				st.doom()
			}
		}
	}
	for _, c := range w.callers {
		for _, st := range c.streams {
			if which(st) {
				st.doom()
			}
		}
	}
}

// restart ends a node's process and starts it again: with nothing in it; or with what it had on disk, which is all
// it knew if it ended in order. Only of one alone: what others know of its instances would be orphans, which no
// table has yet.
func (w *world) restart(n *node) {
	if len(w.nodes) > 1 || w.quiet {
		return
	}
	var m *ledger.Memory
	switch {
	case w.chance(0.3):
		w.log("%s restarts, and remembers nothing", n.name)
		clear(n.held)
	case w.chance(0.5):
		w.log("%s crashes, and comes back from disk", n.name)
		m = n.disk.memory(false)
		n.rememberHolds(false)
	default:
		w.log("%s ends in order, and comes back from disk", n.name)
		n.disk.write(n)
		m = n.disk.memory(true)
		n.rememberHolds(true)
	}
	w.doom(func(st *stream) bool { return st.node == n })
	n.boot(false, m)
	n.meet()
}

// heal ends all faults.
func (w *world) heal() {
	w.log("all is healed")
	w.quiet = true
	w.slow = 50 * time.Millisecond
	clear(w.cuts)
	for _, n := range w.nodes {
		n.resume()
	}
	for _, p := range w.procs {
		p.hang(false)
		p.resume()
	}
	for _, c := range w.callers {
		c.resume()
	}
}

var services = [...]string{"s0", "s1"}

// listed tells what a node has under a key, by status and nonce.
func (n *node) listed(key eider.Key) (eider.Status, uint64) {
	rec, _ := n.record(key)
	return rec.Status, rec.Incarnation.Nonce
}
