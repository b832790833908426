package recovery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
)

// One caller tries, however many there are, and nobody pushes it over.
func TestAFleetsBreakerLetsItRecover(t *testing.T) {
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			store := fleet.NewMemory(0)
			recovers(t, Scene{Seed: seed, Guard: Fleet(func(int) fleet.Store { return store }, func(ev fleet.Event) {
				if ev.Parted != nil {
					t.Error(ev.Parted)
				}
			})})
		})
	}
}

func recovers(t *testing.T, s Scene) {
	t.Helper()
	r, err := s.Play(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Parallel != 1 || r.Relapses != 0 || r.Back == nil {
		t.Errorf("seed %d: %+v", s.Seed, r)
	}
}

// Nothing is broken before all of them share the breaker: what a store that comes late would show isn't this scene.
func TestTheOutageWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &late{fleet.NewMemory(0), time.Now().Add(9 * time.Second)} // longer than a breaker of one caller's own is open
		recovers(t, Scene{Guard: Fleet(func(int) fleet.Store { return store }, nil)})
	})
}

// late is a store that is away at first.
type late struct {
	*fleet.Memory
	until time.Time
}

func (l *late) Tell(ctx context.Context, key, caller string, count []byte, all bool) (fleet.Sight, error) {
	if time.Now().Before(l.until) {
		return fleet.Sight{}, errors.New("away")
	}
	return l.Memory.Tell(ctx, key, caller, count, all)
}
