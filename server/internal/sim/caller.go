package sim

import (
	"net/netip"
	"slices"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

func (p *proc) ip() netip.Addr { return netip.MustParseAddrPort(p.addr).Addr() }

// caller is one process that picks instances of a service: what a roster does, as far as drains go.
type caller struct {
	mailbox
	w       *world
	name    string
	place   int
	service string
	alive   bool
	st      *stream
	streams []*stream // all that it ever had
	known   map[string]*sight
	letGo   map[uint64]bool // by nonce
	touched map[string]bool // nodes that it has been on
}

// sight is an instance as the caller last saw it.
type sight struct {
	rec     eider.Record
	sawUp   bool // it may have picked it
	letting bool // picks are under way that began before the mark
	hold    uint64
	picks   bool // it picks it now: since it was last seen up and not held
	parting bool // it is held, and picks are under way that began before it was
}

func (c *caller) box() *mailbox { return &c.mailbox }

func (w *world) startCaller(name, service string, place int) *caller {
	c := &caller{w: w, name: name, place: place, service: service, alive: true, known: map[string]*sight{},
		letGo: map[uint64]bool{}, touched: map[string]bool{}}
	w.callers = append(w.callers, c)
	c.connect(nil)
	c.call()
	return c
}

// connect opens a watch stream, to another node than not.
func (c *caller) connect(not *node) {
	if !c.alive {
		return
	}
	n := c.w.choose(c.place, not)
	if n == nil {
		if not == nil {
			c.w.after(500*time.Millisecond, func() { c.do(func() { c.connect(nil) }) })
		}
		return
	}
	st := c.w.open(n, c, c.place)
	c.st = st
	c.streams = append(c.streams, st)
	letGo := c.renounced()
	st.send(func() {
		n.streams++
		st.follower = ledger.Follower(n.streams)
		n.watches = append(n.watches, st)
		c.touched[n.name] = true
		n.took(n.tb.Follow(n.clock(), st.follower, ledger.Peer{Caller: c.name}))
		fx, err := n.tb.Subscribe(n.clock(), st.follower, c.service, letGo)
		if err != nil {
			c.w.broke("%s can't subscribe: %v", c.name, err)
		}
		st.subscribed = true
		v := n.view(c.service)
		st.reply(func() { c.saw(st, v) })
		n.took(fx)
	})
}

func (c *caller) lost(st *stream) {
	if c.st != st {
		return
	}
	c.st = nil
	c.w.after(c.w.between(0, time.Second), func() {
		c.do(func() {
			if c.st == nil {
				c.connect(nil)
			}
		})
	})
}

// move goes to another node, new before old.
func (c *caller) move() {
	old := c.st
	if old == nil || !c.alive || c.stopped {
		return
	}
	c.connect(old.node)
	if c.st != old {
		c.w.log("%s moves to %s", c.name, c.st.node.name)
		c.w.after(c.w.between(0, 2*time.Second), func() { c.do(func() { old.close(ledger.Moving) }) })
	}
}

// saw applies a view, and says so.
func (c *caller) saw(st *stream, v *eider.View) {
	if c.st != st || !c.alive {
		return
	}
	for i := range v.Instances {
		rec := &v.Instances[i].Record
		s := c.known[rec.ID]
		if s == nil || !s.rec.Incarnation.Is(rec.Incarnation) {
			s = &sight{}
			c.known[rec.ID] = s
		}
		s.rec = *rec
		s.sawUp = s.sawUp || rec.Status == eider.Up
		s.hold = 0
		if h := v.Instances[i].Hold; h != nil {
			s.hold = h.Count
		} else if rec.Status == eider.Up {
			s.picks, s.parting = true, false
		}
	}
	for _, g := range v.Gone {
		if s := c.known[g.ID]; s != nil && s.rec.Incarnation.Is(g.Incarnation) {
			delete(c.known, g.ID)
		}
	}
	c.release()
	c.part()
	c.ack()
}

// release begins to let go of whoever leaves, if there is somebody else to call.
func (c *caller) release() {
	alternative := false
	for _, s := range c.known {
		alternative = alternative || s.rec.Status == eider.Up
	}
	if !alternative {
		return
	}
	for _, id := range c.ids() {
		s := c.known[id]
		if s.rec.Status != eider.Draining || s.letting || c.letGo[s.rec.Incarnation.Nonce] {
			continue
		}
		s.letting = true
		nonce := s.rec.Incarnation.Nonce
		c.w.after(c.w.between(0, 60*time.Millisecond), func() {
			c.do(func() {
				if c.alive {
					c.letGo[nonce] = true
					c.ack()
				}
			})
		})
	}
}

// part begins to let go of whoever is held, if there is somebody else to call.
func (c *caller) part() {
	if !c.alternative() {
		return
	}
	for _, id := range c.ids() {
		s := c.known[id]
		if s.hold == 0 || !s.picks || s.parting || s.rec.Status != eider.Up {
			continue
		}
		s.parting = true
		c.w.after(c.w.between(0, 60*time.Millisecond), func() {
			c.do(func() {
				if c.alive && s.parting {
					s.picks, s.parting = false, false
					c.ack()
				}
			})
		})
	}
}

// alternative tells whether there is somebody to call who isn't held.
func (c *caller) alternative() bool {
	for _, s := range c.known {
		if s.rec.Status == eider.Up && s.hold == 0 {
			return true
		}
	}
	return false
}

// ids lists what is known in a fixed order: everything follows from the seed.
func (c *caller) ids() []string {
	ids := make([]string, 0, len(c.known))
	for id := range c.known {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (c *caller) renounced() []eider.Departure {
	var out []eider.Departure
	for _, id := range c.ids() {
		s := c.known[id]
		if c.letGo[s.rec.Incarnation.Nonce] {
			out = append(out, s.rec.Departure())
		}
		if s.hold != 0 && !s.picks {
			out = append(out, s.heldAs())
		}
	}
	return out
}

func (c *caller) ack() {
	st := c.st
	if st == nil {
		return
	}
	letGo := c.renounced()
	var stuck []eider.Departure
	for _, id := range c.ids() {
		if s := c.known[id]; s.rec.Status == eider.Draining && !s.letting && !c.letGo[s.rec.Incarnation.Nonce] {
			stuck = append(stuck, s.rec.Departure())
		} else if s.hold != 0 && s.picks && !s.parting {
			stuck = append(stuck, s.heldAs())
		}
	}
	st.send(func() {
		st.node.took(st.node.tb.Ack(st.node.clock(), st.follower, c.service, 1, letGo, stuck))
	})
}

// heldAs names the instance, let go of for its hold.
func (s *sight) heldAs() eider.Departure {
	dep := s.rec.Departure()
	dep.Hold = s.hold
	return dep
}

// couldPick tells whether a pick of the incarnation may still begin, or be under way.
func (c *caller) couldPick(dep eider.Departure) bool {
	s := c.known[dep.ID]
	if dep.Hold != 0 && s != nil && !s.picks {
		return false
	}
	return c.alive && s != nil && s.rec.Incarnation.Is(dep.Incarnation) && s.sawUp && !c.letGo[dep.Incarnation.Nonce]
}

// call picks somebody now and then; a refused dial is told upstream.
func (c *caller) call() {
	if !c.alive {
		return
	}
	if st := c.st; st != nil && !c.stopped && len(c.known) > 0 {
		ids := c.ids()
		s := c.known[ids[c.w.rng.IntN(len(ids))]]
		if s.rec.Status == eider.Up && s.hold == 0 && c.w.answers(c.place, s.rec.Address) == ledger.Refused {
			dep := s.rec.Departure()
			st.send(func() { st.node.took(st.node.tb.Doubt(st.node.clock(), st.follower, dep)) })
		}
	}
	c.w.after(c.w.between(500*time.Millisecond, 1500*time.Millisecond), c.call)
}

// goodbye ends its calling with a word.
func (c *caller) goodbye() {
	if !c.alive || c.stopped {
		return
	}
	c.w.log("%s says goodbye", c.name)
	c.alive = false
	if st := c.st; st != nil {
		st.send(func() { st.node.took(st.node.tb.Goodbye(st.node.clock(), st.follower)) })
	}
	c.hangUp()
}

// crash ends it without one.
func (c *caller) crash() {
	if c.alive {
		c.w.log("%s crashes", c.name)
		c.alive = false
		c.hangUp()
	}
}

func (c *caller) hangUp() {
	for _, st := range c.streams {
		st.close(ledger.Lost)
	}
}
