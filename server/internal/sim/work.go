package sim

import (
	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// What processes do for their callers, as far as it is told with beats: one request a beat, while callers don't
// avoid them, and none is answered while they hang.

// hang has a process answer nothing for a while, or until all is healed. Who waited for it has given up by then.
func (p *proc) hang(on bool) {
	if p.hung != on {
		p.hung = on
		p.w.log("%s hangs: %t", p.name, on)
	}
	if !on {
		p.done.Ended = p.done.Arrived
	}
}

// request arrives at a process.
func (p *proc) request() {
	p.done.Arrived++
	if !p.hung {
		p.done.Completed++
		p.done.Ended = p.done.Arrived
	}
}

// works tells what has been done.
func (p *proc) works(st *stream) {
	if in, ok := st.node.tb.Instance(p.key); p.listed && ok && in.Incarnation.Nonce == p.nonce && in.Suspicion == 0 {
		p.request()
	}
	done := p.done
	st.send(func() {
		st.node.took(st.node.tb.Work(st.node.clock(), st.session, p.key, done))
	})
}

// try has a caller send its next request to the instance that a node names.
func (n *node) try(t ledger.Trial) {
	for _, st := range n.watches {
		if st.follower == t.Follower {
			st.reply(func() {
				if p := n.w.byNonce(t.Departure.Incarnation.Nonce); p != nil && p.listening && !p.stopped {
					p.request()
				}
			})
		}
	}
}

// checkWedged holds that who answers again is called again, where somebody is left to try it.
func (w *world) checkWedged() {
	for _, p := range w.procs {
		if !p.alive || p.leaving || p.st == nil || !p.listed {
			continue
		}
		in, ok := p.st.node.tb.Instance(p.key)
		if !ok || in.Incarnation.Nonce != p.nonce || !in.Suspicion.Has(eider.Wedged) || in.Hold != nil {
			continue
		}
		for _, st := range p.st.node.watches {
			if c := st.peer.(*caller); c.service == p.key.Service && st.subscribed && c.alive && c.name != p.name {
				w.broke("%s answers, and %s has it as %s, though %s could try it", p.name, p.st.node.name, in.Suspicion, c.name)
				break
			}
		}
	}
}
