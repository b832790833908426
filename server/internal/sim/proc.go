package sim

import (
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// proc is one process with one instance: what an SDK does to keep it listed, and to leave.
type proc struct {
	mailbox
	w          *world
	name       string
	place      int
	key        eider.Key
	addr       string
	alive      bool
	listening  bool
	nonce      uint64
	number     uint64
	attachment uint64
	leaving    bool
	closed     bool // no longer listens: the pause is over
	covered    bool // and it ended by the bound, not by the barrier
	st         *stream
	old        *stream // until the new one is registered
	listed     bool
	caller     *caller
	done       eider.Work
	hung       bool // answers nothing
}

func (p *proc) box() *mailbox { return &p.mailbox }

func (w *world) start(key eider.Key, addr string) *proc {
	p := &proc{w: w, name: fmt.Sprint("p", len(w.procs)), place: w.place(), key: key, addr: addr, alive: true, listening: true}
	w.procs = append(w.procs, p)
	p.draw()
	p.connect()
	p.beat()
	w.log("%s starts as %s at %s", p.name, key, addr)
	return p
}

// draw makes it a new run.
func (p *proc) draw() {
	p.w.nonces++
	p.nonce, p.number, p.attachment = p.w.nonces, 0, 0
}

// choose draws a node that can be reached, nil if none can.
func (w *world) choose(place int, not *node) *node {
	var reachable []*node
	for _, n := range w.nodes {
		if !w.cut(place, n.place) && n != not {
			reachable = append(reachable, n)
		}
	}
	if len(reachable) == 0 {
		return nil
	}
	return reachable[w.rng.IntN(len(reachable))]
}

func (p *proc) connect() {
	if !p.alive {
		return
	}
	n := p.w.choose(p.place, nil)
	if n == nil {
		p.w.after(500*time.Millisecond, func() { p.do(p.connect) })
		return
	}
	p.connectTo(n)
}

// connectTo attaches to a node, with a new stream and the next attachment.
func (p *proc) connectTo(n *node) {
	st := p.w.open(n, p, p.place)
	p.st, p.listed = st, false
	p.attachment++
	rec := eider.Record{Key: p.key, Incarnation: eider.Incarnation{Number: p.number, Nonce: p.nonce}, Attachment: p.attachment,
		Status: eider.Up, Address: p.addr}
	if p.leaving {
		rec.Status = eider.Draining
	}
	st.send(func() {
		n.streams++
		st.session = ledger.Session(n.streams)
		n.attach[st.session] = st
		n.took(n.tb.Attach(n.clock(), st.session, ledger.Peer{Caller: p.name, Addr: p.ip()}))
		grant, fx, err := n.tb.Register(n.clock(), st.session, rec, 0, ledger.Proof{})
		if err == nil {
			st.nonce = rec.Incarnation.Nonce
			n.holders[p.key] = st
			n.heard[st.nonce] = p.w.now
		}
		n.took(fx)
		st.reply(func() { p.registered(st, grant, err) })
	})
	p.w.after(p.w.between(2*time.Second, 3*time.Second), func() {
		p.do(func() {
			if p.st == st && !p.listed {
				p.reattach(st) // the node doesn't answer
			}
		})
	})
}

func (p *proc) registered(st *stream, grant ledger.Grant, err error) {
	if p.st != st || !p.alive {
		return
	}
	if p.old != nil {
		p.old.close(ledger.Moving)
		p.old = nil
	}
	switch {
	case err == nil:
		p.number, p.listed = grant.Record.Incarnation.Number, true
		return
	case eider.KindOf(err) == eider.Stale && p.leaving:
		p.exit() // somebody else has its name by now, and it was going anyway
		return
	case eider.KindOf(err) == eider.Stale:
		p.draw()
	}
	p.w.log("%s: %v", p.name, err)
	p.w.after(p.w.between(100*time.Millisecond, time.Second), func() { p.do(func() { p.reattach(st) }) })
}

// reattach replaces a stream.
func (p *proc) reattach(st *stream) {
	if p.st != st || !p.alive {
		return
	}
	st.close(ledger.Ending(p.w.rng.IntN(2)))
	p.connect()
}

func (p *proc) lost(st *stream) {
	if p.st != st {
		return
	}
	p.st, p.listed = nil, false
	p.w.after(p.w.between(0, 500*time.Millisecond), func() {
		p.do(func() {
			if p.st == nil {
				p.connect()
			}
		})
	})
}

// beat renews, for ever.
func (p *proc) beat() {
	if !p.alive {
		return
	}
	if st := p.st; st != nil && !p.stopped {
		st.send(func() {
			if st.nonce != 0 {
				st.node.heard[st.nonce] = p.w.now
			}
			st.node.took(st.node.tb.Beat(st.node.clock(), st.session))
		})
		p.works(st)
	}
	p.w.after(p.w.between(beat*3/4, beat), p.beat)
}

// move attaches to another node, new before old.
func (p *proc) move() {
	if p.st == nil || !p.listed || p.stopped {
		return
	}
	if n := p.w.choose(p.place, p.st.node); n != nil {
		p.w.log("%s moves to %s", p.name, n.name)
		p.old = p.st
		p.connectTo(n)
	}
}

// leave begins the planned departure.
func (p *proc) leave() {
	if !p.alive || p.leaving || p.stopped {
		return
	}
	p.w.log("%s leaves", p.name)
	p.leaving = true
	if st := p.st; st != nil {
		st.send(func() {
			fx, _ := st.node.tb.Leave(st.node.clock(), st.session, p.key, 0)
			st.node.took(fx)
		})
	}
	nonce := p.nonce
	p.w.after(maxPause+500*time.Millisecond, func() {
		p.do(func() {
			if !p.closed && p.nonce == nonce {
				p.covered = true // the bound: no word came in time
				p.close()
			}
		})
	})
}

// barrier is the word that every caller has let go.
func (p *proc) barrier(nonce uint64) {
	if p.nonce == nonce && p.leaving && !p.closed {
		p.close()
	}
}

// close is the end of the pause: no new requests, then none at all, then the last word.
func (p *proc) close() {
	if !p.alive {
		return
	}
	p.closed, p.listening = true, false
	p.w.log("%s closes", p.name)
	if p.caller != nil {
		p.caller.resume() // it is this process, which runs
		p.caller.goodbye()
	}
	p.w.after(p.w.between(0, time.Second), func() { p.do(p.last) })
}

func (p *proc) last() {
	if !p.alive {
		return
	}
	if st := p.st; st != nil {
		st.send(func() {
			fx, err := st.node.tb.Left(st.node.clock(), st.session, p.key)
			st.node.took(fx)
			if err == nil {
				st.reply(p.exit)
			}
		})
	}
	p.w.after(time.Second, func() { p.do(p.exit) })
}

// exit ends the process; often it has a successor at the same address.
func (p *proc) exit() {
	if !p.alive {
		return
	}
	p.alive, p.listening = false, false
	p.w.log("%s ends", p.name)
	if p.caller != nil {
		p.caller.crash()
	}
	for _, st := range []*stream{p.st, p.old} {
		if st != nil {
			st.close(ledger.Lost)
		}
	}
	if p.w.now < chaosTime-5*time.Second && p.w.chance(0.7) {
		p.w.after(p.w.between(0, 3*time.Second), func() { p.w.start(p.key, p.addr) })
	}
}

// crash is kill -9: the port may accept for some milliseconds more.
func (p *proc) crash() {
	if p.alive {
		p.w.log("%s crashes", p.name)
		p.exit()
		if p.w.chance(0.5) {
			p.listening = true
			p.w.after(p.w.between(0, 50*time.Millisecond), func() { p.listening = false })
		}
	}
}
