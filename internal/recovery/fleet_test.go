package recovery

import (
	"testing"
	"testing/synctest"

	"github.com/eiderhq/eider/breaker/fleet"
)

// One caller tries, however many there are, and nobody pushes it over.
func TestAFleetsBreakerLetsItRecover(t *testing.T) {
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			store := fleet.NewMemory(0)
			guard := Fleet(func(int) fleet.Store { return store }, func(ev fleet.Event) {
				if ev.Parted != nil {
					t.Error(ev.Parted)
				}
			})
			r, err := Scene{Guard: guard, Seed: seed}.Play(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.Parallel != 1 || r.Relapses != 0 || r.Back == nil {
				t.Errorf("seed %d: %+v", seed, r)
			} else {
				t.Logf("%+v %v", r, *r.Back)
			}
		})
	}
}
