// Package panel is what a node keeps for fleet breakers: their records and what callers have told, as [fleet.Memory] has
// them, and how often that was asked for. A restart forgets all of it.
package panel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker/fleet"
)

// Panel is a node's fleet breakers.
type Panel struct {
	mem *fleet.Memory

	tells, swaps, refused, full atomic.Int64
}

// New returns a panel over what a memory has.
func New(mem *fleet.Memory) *Panel { return &Panel{mem: mem} }

// Tell is [fleet.Store]'s, from somewhere: callers that share it count as one, "" is nobody's.
func (p *Panel) Tell(ctx context.Context, key, caller, from string, count []byte, all bool) (fleet.Sight, error) {
	if err := errors.Join(Check(key), check("a caller's name", len(caller)), check("a count", len(count))); err != nil {
		return fleet.Sight{}, invalid(err)
	}
	s, err := p.mem.TellFrom(ctx, key, caller, from, count, all)
	p.tells.Add(1)
	return s, p.kept(ctx, err)
}

// Swap is [fleet.Store]'s.
func (p *Panel) Swap(ctx context.Context, key string, version uint64, record []byte) (fleet.Sight, bool, error) {
	if err := errors.Join(Check(key), check("a record", len(record))); err != nil {
		return fleet.Sight{}, false, invalid(err)
	}
	s, swapped, err := p.mem.Swap(ctx, key, version, record)
	switch {
	case err != nil:
	case swapped:
		p.swaps.Add(1)
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
}

// Stats returns the counts.
func (p *Panel) Stats() Stats {
	return Stats{p.tells.Load(), p.swaps.Load(), p.refused.Load(), p.full.Load()}
}
