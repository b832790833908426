package recovery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

const seeds = 3

// played plays a scene in a bubble: no time passes, and a seed always gives the same.
func played(t *testing.T, s Scene) (r Result) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = s.Play(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// What everybody ships comes back together, and so never.
func TestLocalBreakersPushItOverAgainAndAgain(t *testing.T) {
	for seed := range uint64(seeds) {
		if r := played(t, Scene{Guard: Local, Seed: seed}); r.Parallel <= AtOnce || r.Relapses < 2 || r.Back != nil {
			t.Errorf("seed %d shows little: %+v", seed, r)
		}
	}
}

// Jitter and growth spread the probes: it is pushed over a few times, and then it is back.
func TestGuardedCallersComeBackInTheEnd(t *testing.T) {
	for seed := range uint64(seeds) {
		local := played(t, Scene{Guard: Local, Seed: seed, Watch: 2 * time.Minute})
		if r := played(t, Scene{Guard: Guarded, Seed: seed, Watch: 2 * time.Minute}); r.Back == nil || r.Relapses*5 > local.Relapses {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
}

// One breaker for all is the measure for a fleet's. A second permit is seen.
func TestOneBreakerForAllLetsItRecover(t *testing.T) {
	for seed := range uint64(seeds) {
		for trials := 1; trials <= 2; trials++ {
			synctest.Test(t, func(t *testing.T) { // a breaker takes its time from where it was made
				b := breaker.New(breaker.Config{OpenFor: OpenFor, Trials: trials, Ramp: Ramp})
				r, err := Scene{Guard: func(int) (Breaker, error) { return own{b}, nil }, Seed: seed}.Play(t.Context())
				if err != nil || r.Parallel != trials || r.Relapses != 0 || r.Back == nil {
					t.Errorf("seed %d, %d permits: %+v, %v", seed, trials, r, err)
				}
			})
		}
	}
}

// none lets everything through.
type none struct{}

func (none) Do(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
func (none) Ready() bool                                                    { return true }
func (none) Close()                                                         {}

func TestASceneThatCannotBePlayedSaysWhy(t *testing.T) {
	bad := errors.New("no")
	synctest.Test(t, func(t *testing.T) {
		guard := func(i int) (Breaker, error) {
			if i == 3 {
				return nil, bad
			}
			return Local(i)
		}
		if _, err := (Scene{Guard: guard}).Play(t.Context()); !errors.Is(err, bad) {
			t.Errorf("a caller without a breaker: %v", err)
		}
		ended := 0
		broken := func(d *Dependency) (func(context.Context) error, func(), error) {
			return func(context.Context) error { return bad }, func() { ended++ }, nil
		}
		if _, err := (Scene{Guard: Local, Reach: broken}).Play(t.Context()); !errors.Is(err, bad) && !errors.Is(err, breaker.ErrRejected) {
			t.Errorf("a dependency that never answers: %v", err)
		}
		if _, err := (Scene{Guard: func(int) (Breaker, error) { return none{}, nil }}).Play(t.Context()); !errors.Is(err, ErrDown) {
			t.Errorf("callers without a breaker: %v", err)
		}
		if ended != 1 {
			t.Errorf("the network was ended %d times", ended)
		}
	})
}
