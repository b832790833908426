package panel

import (
	"context"
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

// unreadable is the state of what isn't a record.
const unreadable = eider.BreakerState(eider.BreakerStates)

func stateOf(s fleet.Sight) eider.BreakerState {
	r, err := fleet.Read(s)
	if err != nil {
		return unreadable
	}
	return eider.BreakerState(r.State)
}

func forced(s eider.BreakerState) bool {
	return s == eider.BreakerForcedOpen || s == eider.BreakerForcedClosed
}

// turned counts a change of state, and tells of those that stop or free all callers.
func (p *Panel) turned(key string, old, now eider.BreakerState, s fleet.Sight) {
	if old == now || now == unreadable {
		return
	}
	p.turns[now].Add(1)
	e := eider.Event{Kind: eider.EventBreakerOpen, Detail: "the one that callers share"}
	switch {
	case now == eider.BreakerOpen && old != eider.BreakerHalfOpen:
		b := p.read(key, s)
		e.Detail += fmt.Sprintf(": %s, as %d of them saw", b.Why(), b.Seers)
	case old.Rejects() && !now.Rejects():
		e.Kind = eider.EventBreakersClosed
	default:
		return
	}
	if p.tell == nil || !p.loud.Allow() {
		return
	}
	if e.Service = key; eider.CheckService(key) != nil {
		e.Service, e.Detail = "", fmt.Sprintf("%.64q: %s", key, e.Detail)
	}
	p.tell(e)
}

// List returns the breakers of a target, by key; without one, those of all that aren't closed.
func (p *Panel) List(target string) []eider.FleetBreaker {
	if target != "" {
		if b, known := p.show(target); known {
			return []eider.FleetBreaker{b}
		}
		return nil
	}
	var all []eider.FleetBreaker
	for _, key := range p.mem.Keys() {
		if b, _ := p.show(key); b.State != eider.BreakerClosed || b.Fault != "" {
			all = append(all, b)
		}
	}
	return all
}

// States counts the breakers by state; last, those whose record can't be read.
func (p *Panel) States() (n [eider.BreakerStates + 1]int) {
	for _, key := range p.mem.Keys() {
		if s := p.mem.Look(key, false); s.Version != 0 {
			n[p.read(key, s).stateOrFault()]++
		}
	}
	return n
}

// shown is a breaker with how its state is counted.
type shown struct{ eider.FleetBreaker }

func (s shown) stateOrFault() eider.BreakerState {
	if s.Fault != "" {
		return unreadable
	}
	return s.State
}

// show is what there is of a key; known: anybody has to do with it.
func (p *Panel) show(key string) (b eider.FleetBreaker, known bool) {
	s := p.mem.Look(key, true)
	b = p.read(key, s).FleetBreaker
	b.Watching = p.mem.Bells(key)
	for _, told := range fleet.ReadCounts(s) {
		if told.Age >= fleet.KeepCounts {
			continue
		}
		b.Telling++
		if told.Open {
			b.Tripped++
		}
		b.Calls, b.Failures, b.Slow = b.Calls+told.Calls, b.Failures+told.Failures, b.Slow+told.Slow
	}
	return b, s.Version != 0 || len(s.Counts) > 0 || b.Watching > 0
}

// read reads a record, as time has made it.
func (p *Panel) read(key string, s fleet.Sight) shown {
	b := eider.FleetBreaker{Key: key}
	now := time.Now()
	if s.Version != 0 {
		b.Since = now.Add(-s.Age)
	}
	r, err := fleet.Read(s)
	if err != nil {
		b.Fault = err.Error()
		return shown{b}
	}
	wrote := r
	r = r.At(s.Age)
	b.State, b.Rule, b.Count, b.Of = eider.BreakerState(r.State), eider.BreakerRule(r.Rule), r.Count, r.Of
	b.Seers, b.Holder, b.Abandoned = r.Seers, r.Holder, r.Abandoned
	if r.For > 0 {
		b.Retry = b.Since.Add(r.For)
	}
	if r.State != wrote.State { // a ramp that is over
		b.Since = b.Since.Add(wrote.For)
	}
	return shown{b}
}

// words are what an operator may have done.
var words = map[string]breaker.State{"open": breaker.ForcedOpen, "close": breaker.ForcedClosed, "reset": breaker.Closed}

// Force does what an operator says to a breaker that callers share: open rejects all calls, close lets all through and
// counts none, reset takes either back, as if it had never opened.
func (p *Panel) Force(ctx context.Context, key, word string) (eider.FleetBreaker, error) {
	to, ok := words[word]
	if !ok {
		return eider.FleetBreaker{}, eider.Errorf(eider.Invalid, "", "do: %.40q is none of open, close and reset", word)
	}
	if err := Check(key); err != nil {
		return eider.FleetBreaker{}, invalid(err)
	}
	if _, known := p.show(key); !known {
		return eider.FleetBreaker{}, eider.Errorf(eider.NotFound, "", "no caller shares a breaker by the key %.64q with others through this node", key)
	}
	old := stateOf(p.mem.Look(key, false))
	if _, err := fleet.Force(ctx, p.mem, key, to); err != nil {
		return eider.FleetBreaker{}, p.kept(ctx, err)
	}
	p.swaps.Add(1)
	if now := eider.BreakerState(to); now != old {
		p.turns[now].Add(1)
	}
	b, _ := p.show(key)
	return b, nil
}
