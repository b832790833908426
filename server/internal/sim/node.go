package sim

import (
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// node is one registry server: a table, and what a replica does with it.
type node struct {
	mailbox
	w       *world
	name    string
	place   int
	number  int
	run     uint64 // counts its runs
	badge   uint64 // the run's own number, as others know it
	started time.Duration
	whole   bool // it has all that the run before knew
	tb      *ledger.Table
	streams uint64
	holders map[eider.Key]*stream
	watches []*stream // open ones, in order
	attach  map[ledger.Session]*stream
	known   map[eider.Key]eider.Record // what was published last: the past, for invariants
	heard   map[uint64]time.Duration   // when an incarnation was last heard of by its stream
	reached map[reached]bool           // barriers
	held    map[eider.Key]word
	given   map[uint64]bool // counts of holds, of all its runs: callers may name those of runs before
	disk    disk
	seen    map[eider.EventKind]int
	polled  int
	wedged  int

	heldBarriers int // of holds
}

// reached names a barrier by what it is the barrier of: an incarnation's leave, or one of its holds.
type reached struct{ nonce, hold uint64 }

func (w *world) newNode(number int) *node {
	n := &node{w: w, name: fmt.Sprint("n", number), place: w.place(), number: number, seen: map[eider.EventKind]int{}, held: map[eider.Key]word{}, given: map[uint64]bool{}}
	n.boot(w.chance(0.5), nil)
	return n
}

// boot starts the node's process, with nothing in it but what a run before has kept.
func (n *node) boot(fresh bool, m *ledger.Memory) {
	n.run++
	n.started = n.w.now
	n.whole = m != nil && m.Closed
	n.badge = n.w.rng.Uint64()
	n.tb = ledger.New(settings(n.name, n.badge, fresh), n.clock())
	n.holders, n.attach = map[eider.Key]*stream{}, map[ledger.Session]*stream{}
	n.known, n.heard, n.reached = map[eider.Key]eider.Record{}, map[uint64]time.Duration{}, map[reached]bool{}
	n.watches, n.waiting, n.stopped = nil, nil, false
	n.disk.late = nil
	if m == nil {
		n.disk.kept = map[ledger.Trace]any{}
	} else {
		n.remember(m)
	}
	n.disk.note(n, []ledger.Trace{{}}) // a node looks at everything once it has begun
	n.look(n.run)
	if len(n.w.nodes) != 1 || n.number > 0 {
		n.sync(n.run)
	}
}

func (n *node) clock() time.Time { return clock(n.w.now) }

// meet tells the table who else there is.
func (n *node) meet() {
	var names []string
	for _, other := range n.w.nodes {
		names = append(names, other.name)
	}
	n.took(n.tb.Peers(n.clock(), names))
}

// look wakes the table when it says.
func (n *node) look(run uint64) {
	if run != n.run {
		return
	}
	if !n.stopped {
		n.took(n.tb.Look(n.clock()))
		n.checkEnds()
	}
	wait := max(n.tb.Next().Sub(n.clock()), time.Millisecond)
	n.w.after(wait, func() { n.look(run) })
}

// took carries out effects, as a replica would, and checks what they say.
func (n *node) took(fx ledger.Effects) {
	for i := range fx.Events {
		n.note(&fx.Events[i])
	}
	n.disk.note(n, fx.Memory)
	changed := ""
	for _, key := range fx.Changed {
		n.publish(key)
		if key.Service != changed {
			changed = key.Service
			n.push(changed)
		}
	}
	for _, d := range fx.Dials {
		n.dial(d)
	}
	for _, dep := range fx.Drains {
		n.progress(dep)
	}
	for _, t := range fx.Trials {
		n.try(t)
	}
	for _, s := range fx.End {
		if st := n.attach[s]; st != nil {
			st.reply(func() { st.peer.(*proc).reattach(st) })
		}
	}
}

// record is what the node knows of a key.
func (n *node) record(key eider.Key) (eider.Record, bool) {
	if in, ok := n.tb.Instance(key); ok {
		return in.Record, true
	}
	gone, ok := n.tb.GoneOf(key)
	return eider.Record{Key: key, Incarnation: gone.Incarnation, Attachment: gone.Attachment, Version: gone.Version, Status: gone.Status}, ok
}

// publish checks a changed record and sends it to the other nodes.
func (n *node) publish(key eider.Key) {
	rec, ok := n.record(key)
	if !ok {
		return
	}
	n.checkOrder(&rec)
	n.known[key] = rec
	for _, other := range n.w.nodes {
		if other != n {
			n.send(other, func() { other.took(other.tb.Apply(other.clock(), rec, n.name)) })
		}
	}
}

// send is a message between nodes: late, lost, twice, out of order.
func (n *node) send(to *node, f func()) {
	w := n.w
	copies := 1
	switch {
	case w.cut(n.place, to.place) || w.chance(w.drop) && !w.quiet:
		return
	case w.chance(w.dup):
		copies = 2
	}
	for range copies {
		w.after(w.between(time.Millisecond, w.slow), func() {
			if !w.cut(n.place, to.place) {
				to.do(f)
			}
		})
	}
}

// sync sends all there is to one other node now and then, and tells again where drains stand.
func (n *node) sync(run uint64) {
	if run != n.run {
		return
	}
	if !n.stopped && len(n.w.nodes) > 1 {
		to := n.w.nodes[(n.number+1+n.w.rng.IntN(len(n.w.nodes)-1))%len(n.w.nodes)]
		for _, s := range [...]string{"s0", "s1"} {
			records := n.tb.Records(s)
			n.send(to, func() {
				for _, rec := range records {
					to.took(to.tb.Apply(to.clock(), rec, n.name))
				}
			})
		}
		for _, d := range n.tb.Drains("") {
			if d.Status == eider.Draining {
				n.report(d.Departure)
			}
		}
	}
	n.w.after(n.w.between(500*time.Millisecond, 1500*time.Millisecond), func() { n.sync(run) })
}

func (n *node) report(dep eider.Departure) {
	r, ok := n.tb.Members(n.clock(), dep)
	if !ok {
		return
	}
	for _, other := range n.w.nodes {
		if other != n {
			n.send(other, func() { other.took(other.tb.Report(other.clock(), n.name, r)) })
		}
	}
}

// progress tells the leaving process, or the other nodes.
func (n *node) progress(dep eider.Departure) {
	d, ok := n.tb.Drain(dep)
	if !ok || d.Status != eider.Draining {
		return
	}
	if d.Reached {
		if st := n.holders[dep.Key]; st != nil && st.nonce == dep.Incarnation.Nonce {
			st.reply(func() { st.peer.(*proc).barrier(dep.Incarnation.Nonce) })
		}
		return
	}
	if len(n.w.nodes) > 1 {
		n.report(dep)
	}
}

// push sends the view of a service to its callers.
func (n *node) push(service string) {
	var v *eider.View
	for _, st := range n.watches {
		c := st.peer.(*caller)
		if c.service != service || !st.subscribed {
			continue
		}
		if v == nil {
			v = n.view(service)
		}
		st.reply(func() { c.saw(st, v) })
	}
}

func (n *node) view(service string) *eider.View {
	instances, gone := n.tb.View(service)
	v := &eider.View{Service: service, Complete: n.tb.Complete(n.clock()), Instances: instances, Gone: gone}
	n.checkView(v)
	return v
}

// dial asks a port, as soon as it should be.
func (n *node) dial(d ledger.Dial) {
	run := n.run
	n.w.after(d.After, func() {
		answer := n.w.answers(n.place, d.Address)
		n.w.after(n.w.between(time.Millisecond, 50*time.Millisecond), func() {
			n.do(func() {
				if run == n.run {
					n.took(n.tb.Dialed(n.clock(), d, answer))
				}
			})
		})
	})
}

// answers tells what a dial from a place meets.
func (w *world) answers(from int, address string) ledger.Answer {
	answer := ledger.Refused
	for _, p := range w.procs {
		if p.addr != address {
			continue
		}
		if w.cut(from, p.place) {
			return ledger.NoAnswer
		}
		if p.listening {
			answer = ledger.Accepted
		}
	}
	return answer
}
