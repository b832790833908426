// Package panel is what a node keeps for fleet breakers: their records and what callers have told, as [fleet.Memory] has
// them, what people see of it, and an operator's hand. A restart forgets all of it.
package panel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker/fleet"
)

// Panel is a node's fleet breakers.
type Panel struct {
	mem  *fleet.Memory
	tell func(eider.Event)
	loud *rate.Limiter

	tells, swaps, refused, full atomic.Int64
	turns                       [eider.BreakerStates]atomic.Int64
}

// Callers swap as they like, and what is told pushes older events out.
const (
	eventsSecond = 1
	eventsAtOnce = 20
)

// New returns a panel over what a memory has. Tell hears of what happens, seldom; nil: nobody does.
func New(mem *fleet.Memory, tell func(eider.Event)) *Panel {
	return &Panel{mem: mem, tell: tell, loud: rate.NewLimiter(eventsSecond, eventsAtOnce)}
}

// Tell is [fleet.Store]'s, from somewhere: callers that share it count as one, "" is nobody's.
func (p *Panel) Tell(ctx context.Context, key, caller, from string, count []byte, all bool) (fleet.Sight, error) {
	if err := errors.Join(Check(key), check("a caller's name", len(caller)), check("a count", len(count))); err != nil {
		return fleet.Sight{}, invalid(err)
	}
	s, err := p.mem.TellFrom(ctx, key, caller, from, count, all)
	p.tells.Add(1)
	return s, p.kept(ctx, err)
}

// Swap is [fleet.Store]'s. Who isn't an operator can't force a breaker, nor take that back, by writing so into a record.
func (p *Panel) Swap(ctx context.Context, key string, version uint64, record []byte, operator bool) (fleet.Sight, bool, error) {
	if err := errors.Join(Check(key), check("a record", len(record))); err != nil {
		return fleet.Sight{}, false, invalid(err)
	}
	before := p.mem.Look(key, false)
	old, now := stateOf(before), stateOf(fleet.Sight{Version: 1, Record: record})
	if !operator && before.Version == version && (forced(old) || forced(now)) { // another version is refused anyway
		return fleet.Sight{}, false, eider.Errorf(eider.Denied, "", "only an operator forces a breaker for all, or takes that back: use `eider breakers`, or show a token with the role operate")
	}
	s, swapped, err := p.mem.Swap(ctx, key, version, record)
	switch {
	case err != nil:
	case swapped:
		p.swaps.Add(1)
		p.turned(key, old, now, s)
	default:
		p.refused.Add(1)
	}
	return s, swapped, p.kept(ctx, err)
}

// Look returns what there is of a key, without what callers have told.
func (p *Panel) Look(key string) fleet.Sight { return p.mem.Look(key, false) }

// Ring has a bell rung with each new version of a key, until stop.
func (p *Panel) Ring(key string, bell chan<- struct{}) (stop func()) { return p.mem.Ring(key, bell) }

// Check tells why a key can't be.
func Check(key string) error {
	if key == "" {
		return errors.New("the key is empty: name the target")
	}
	return check("the key", len(key))
}

func check(what string, n int) error {
	if n > fleet.MostBytes {
		return fmt.Errorf("%s has %d bytes, and may have %d", what, n, fleet.MostBytes)
	}
	return nil
}

func invalid(err error) error { return &eider.Error{Kind: eider.Invalid, Err: err} }

// kept makes one of our errors of the store's: what it refuses besides is one key too many.
func (p *Panel) kept(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &eider.Error{Kind: eider.Unavailable, Err: err}
	}
	p.full.Add(1)
	return &eider.Error{Kind: eider.Limited, Err: err}
}

// Stats count what was asked for, ever.
type Stats struct {
	Tells, Swaps int64
	Refused      int64 // swaps of a version that somebody had replaced
	Full         int64 // refused since there were too many keys
	Turns        [eider.BreakerStates]int64
}

// Stats returns the counts.
func (p *Panel) Stats() Stats {
	s := Stats{Tells: p.tells.Load(), Swaps: p.swaps.Load(), Refused: p.refused.Load(), Full: p.full.Load()}
	for i := range p.turns {
		s.Turns[i] = p.turns[i].Load()
	}
	return s
}
