package sim

import (
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// poller is a process that fetches a service's list now and then from one node, keeps it, and takes what it has
// fetched into use by a clock of its own.
type poller struct {
	w            *world
	name         string
	place        int
	home         *node
	service      string
	every, cache time.Duration // as it says; it polls somewhat more often
	fetched, use list
}

// list is what was fetched, when the node read it, and with which answer of which run.
type list struct {
	read   time.Duration
	up     map[string]uint64 // nonces by id
	run    uint64
	answer uint64
}

const (
	pollMargin = time.Second
	pollTravel = 100 * time.Millisecond // there, and back
)

func (w *world) startPoller(name, service string) {
	p := &poller{w: w, name: name, place: w.place(), home: w.nodes[w.rng.IntN(len(w.nodes))], service: service,
		every: w.between(300*time.Millisecond, 2*time.Second), cache: w.between(0, time.Second)}
	if w.chance(0.3) {
		p.cache = 0
	}
	p.start()
	if w.chance(0.2) { // a second process makes the mistake to share the name
		twin := *p
		twin.place = w.place()
		twin.start()
	}
}

func (p *poller) start() {
	p.w.pollers = append(p.w.pollers, p)
	p.poll()
	p.refresh()
}

func (p *poller) poll() {
	w := p.w
	sent := w.now
	w.after(w.between(0, pollTravel), func() {
		p.home.do(func() {
			if w.cut(p.place, p.home.place) || w.now-sent > pollTravel {
				return // nobody answers, or nobody waits any more
			}
			n := p.home
			answer, fx, err := n.tb.Poll(n.clock(), ledger.Polling{Caller: p.name, Service: p.service, Every: p.every, Cache: p.cache,
				Run: p.fetched.run, Has: p.fetched.answer}, 1)
			n.took(fx)
			if err != nil {
				return
			}
			got := list{read: w.now, up: map[string]uint64{}, run: n.badge, answer: answer}
			for _, in := range n.view(p.service).Instances {
				if in.Status == eider.Up && in.Hold == nil {
					got.up[in.ID] = in.Incarnation.Nonce
				}
			}
			if w.chance(0.15) {
				return // the answer is lost
			}
			w.after(w.between(0, pollTravel), func() { p.got(got) })
		})
	})
	w.after(w.between(p.every/5, p.every*9/10), p.poll)
}

func (p *poller) got(l list) {
	if l.read < p.fetched.read {
		return // it came late, after a newer one
	}
	p.fetched = l
	if p.cache == 0 {
		p.use = l
	}
}

func (p *poller) refresh() {
	if p.cache > 0 {
		p.use = p.fetched
		p.w.after(p.cache, p.refresh)
	}
}

// couldPick tells whether it may pick an incarnation, as long as it keeps its own word.
func (p *poller) couldPick(dep eider.Departure) bool {
	return p.use.up[dep.ID] == dep.Incarnation.Nonce && p.w.now <= p.use.read+p.every+p.cache+pollMargin
}

// checkPollers holds a barrier against every poller that could still pick.
func (n *node) checkPollers(d *eider.Drain) {
	for _, p := range n.w.pollers {
		if p.service == d.Service && p.couldPick(d.Departure) && !n.excusedPoller(p, d) {
			n.w.broke("%s reached the barrier of %s (nonce %d) while %s, which polls %s every %s and caches for %s, could still pick it: %+v",
				n.name, d.Key, d.Incarnation.Nonce, p.name, p.home.name, p.every, p.cache, d.Members)
		}
	}
}

// excusedPoller tells whether a barrier needn't wait: its node had no chance to say that there is such a poller.
func (n *node) excusedPoller(p *poller, d *eider.Drain) bool {
	if p.home.run > 1 && !p.home.whole && n.w.now-p.home.started < p.every+p.cache+pollMargin {
		return true // restarted without its memory, or with one that may lack the poller
	}
	for i := range d.Members {
		if m := &d.Members[i]; m.State == eider.Capped && m.Caller == "callers of "+p.home.name {
			return true
		}
	}
	return false
}
