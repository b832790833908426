package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
)

// tale is one held, released and leaving instance among callers whose messages take their time: both ways they wait
// in order, and may be lost with their stream.
type tale struct {
	w       *world
	rt      *rapid.T
	callers []*picker
	held    bool
	leaves  bool
	checked int // events
}

// picker is a caller, as a roster is.
type picker struct {
	name    string
	down    []eider.Instance // views of the instance on their way
	up      []func()         // what it has said, on its way
	seen    eider.Instance
	picks   bool // it may pick the instance
	letting bool // it has stopped, and picks are under way
}

// see applies a view.
func (p *picker) see(in eider.Instance) {
	p.seen = in
	switch {
	case in.Status == eider.Up && in.Hold == nil:
		p.picks, p.letting = true, false
	case p.picks:
		p.letting = true
	}
}

// names is what it has let go of.
func (p *picker) names() (deps []eider.Departure) {
	if p.picks || p.seen.Status == eider.StatusUnknown {
		return nil
	}
	if p.seen.Status == eider.Draining {
		deps = append(deps, p.seen.Departure())
	}
	if p.seen.Hold != nil {
		held := p.seen.Departure()
		held.Hold = p.seen.Hold.Count
		deps = append(deps, held)
	}
	return deps
}

// did takes effects in, and has callers told.
func (l *tale) did(fx Effects) {
	l.w.saw(fx)
	if in, ok := l.w.tb.Instance(key("orders/1")); ok && slices.Contains(fx.Changed, key("orders/1")) {
		for _, p := range l.callers {
			if l.w.actor(p.name).follower != 0 {
				p.down = append(p.down, in)
			}
		}
	}
}

func (l *tale) ack(p *picker) {
	deps := p.names()
	p.up = append(p.up, func() {
		l.did(l.w.tb.Ack(l.w.now, l.w.actor(p.name).follower, "orders", 1, deps, nil))
	})
}

// connect opens a stream: the first thing said on it is what was let go of before.
func (l *tale) connect(p *picker) {
	a := l.w.actor(p.name)
	if a.follower != 0 {
		l.did(l.w.tb.Unfollow(l.w.now, a.follower, Moving))
	}
	a.follower, p.down, p.up = 0, nil, nil
	deps := p.names()
	p.up = append(p.up, func() {
		l.w.streams++
		a.follower = Follower(l.w.streams)
		l.did(l.w.tb.Follow(l.w.now, a.follower, Peer{Caller: p.name}))
		fx, err := l.w.tb.Subscribe(l.w.now, a.follower, "orders", deps)
		if err != nil {
			l.rt.Fatal(err)
		}
		l.did(fx)
		if in, ok := l.w.tb.Instance(key("orders/1")); ok {
			p.down = append(p.down, in)
		}
	})
}

// check holds every barrier to those who may still pick, and the view to the operator's word.
func (l *tale) check() {
	for ; l.checked < len(l.w.events); l.checked++ {
		e := &l.w.events[l.checked]
		if e.Kind == eider.EventCapped {
			l.rt.Fatal("the tale is too long: a cap has passed")
		}
		if e.Kind != eider.EventBarrier {
			continue
		}
		for _, p := range l.callers {
			if p.picks {
				l.rt.Fatalf("%s was reached while %s may still pick: it sees %s, %+v", e, p.name, p.seen.Status, p.seen.Hold)
			}
		}
	}
	if got := l.w.heldBy("orders/1") > 0; got != l.held {
		l.rt.Fatalf("held: %v, want %v", got, l.held)
	}
}

func (l *tale) step(op int, p *picker) {
	w := l.w
	switch {
	case op == 0:
		_, fx, err := w.tb.Hold(w.now, key("orders/1"), eider.Hold{})
		if err != nil {
			l.rt.Fatal(err)
		}
		l.held = true
		l.did(fx)
	case op == 1 && l.held:
		fx, err := w.tb.Release(w.now, key("orders/1"), "")
		if err != nil {
			l.rt.Fatal(err)
		}
		l.held = false
		l.did(fx)
	case op == 2 && !l.leaves:
		l.leaves = true
		fx, err := w.tb.Leave(w.now, w.actor("p").session, key("orders/1"), 0)
		if err != nil {
			l.rt.Fatal(err)
		}
		l.did(fx)
	case op == 3:
		l.connect(p)
	case op <= 6 && len(p.down) > 0:
		p.see(p.down[0])
		p.down = p.down[1:]
		l.ack(p)
	case op <= 8 && p.letting:
		p.letting, p.picks = false, false
		l.ack(p)
	case len(p.up) > 0:
		said := p.up[0]
		p.up = p.up[1:]
		said()
	}
	w.now = w.now.Add(time.Millisecond)
}

// TestNoBarrierWhileSomebodyMayPick: whatever is held, released and left in which order, and however late words come.
func TestNoBarrierWhileSomebodyMayPick(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &tale{w: fresh(t), rt: rt}
		l.w.mustRegister("p", "orders/1", "10.0.0.1:80")
		l.w.mustRegister("q", "orders/2", "10.0.0.2:80")
		for i := range rapid.IntRange(1, 3).Draw(rt, "callers") {
			p := &picker{name: fmt.Sprint("c", i)}
			l.callers = append(l.callers, p)
			l.connect(p)
			p.up[0]()
			p.up = nil
			p.see(p.down[0])
			p.down = nil
		}
		left := false
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 1<<12), 100, 400).Draw(rt, "steps") {
			op := n % 13
			if op == 2 && left {
				op = 4
			}
			left = left || op == 2 && n%7 == 0
			if op == 2 && !left {
				continue // most tales are of holds alone
			}
			l.step(op, l.callers[n/13%len(l.callers)])
			l.check()
		}
	})
}
