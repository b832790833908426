package recovery

import (
	"context"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

const (
	OpenFor = time.Second     // of every breaker, the first time: a fifth of the default, so that nobody waits long for the scene
	Ramp    = 2 * time.Second // after closing, where there is one
	Wait    = time.Second     // for the store: more than the default, since a machine that is busy with the scene isn't a store that is away
)

// Guard makes the breaker of one caller.
type Guard func(caller int) (Breaker, error)

// Breaker is what a call is made through.
type Breaker interface {
	Do(ctx context.Context, call func(context.Context) error) error
	Ready() bool // nothing is broken before all are
	Close()
}

// own is a breaker that needs nobody.
type own struct{ *breaker.Breaker }

func (own) Ready() bool { return true }
func (own) Close()      {}

// Local is what most ship: each caller has its own, which five failures in a row open for a fixed time; then one trial decides, and
// closed is closed.
func Local(int) (Breaker, error) {
	return own{breaker.New(breaker.Config{Consecutive: 5, FailureRate: -1, OpenFor: OpenFor, MaxOpen: OpenFor, Jitter: -1})}, nil
}

// Guarded is package breaker as it is meant: open times differ and grow, and who closes doesn't come back with everything.
func Guarded(int) (Breaker, error) {
	return own{breaker.New(breaker.Config{OpenFor: OpenFor, Ramp: Ramp})}, nil
}

// Fleet is one breaker for all of them, over the store that each is given; said hears what becomes of each, and may be nil.
func Fleet(store func(caller int) fleet.Store, said func(fleet.Event)) Guard {
	return func(i int) (Breaker, error) {
		b, err := fleet.New(fleet.Config{Store: store(i), Key: "recovery", OpenFor: OpenFor, Ramp: Ramp, Wait: Wait, OnEvent: said})
		return shared{b}, err
	}
}

// shared is a caller's part of a fleet's.
type shared struct{ *fleet.Breaker }

func (s shared) Ready() bool { return !s.Snapshot().Alone }
