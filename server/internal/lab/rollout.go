package lab

import (
	"context"
	"slices"
	"sync"
	"time"
)

// playRollout restarts three instances one at a time, again and again, and beside them two more
// fleets that do it the usual ways.
func playRollout(ctx context.Context, o *Options, show *display) (*Rollout, error) {
	base := plan{instances: 3, callers: 20, work: 30 * time.Millisecond, think: 10 * time.Millisecond, surge: o.Surge, seed: o.Seed}
	eider, plain, sleep := base, base, base
	eider.way, eider.settle = wayEider, 250*time.Millisecond
	// The usual callers know of a change a second later; more than that between two restarts is fair to them.
	plain.way, plain.settle, plain.surge = wayPlain, 1500*time.Millisecond, false
	sleep.way, sleep.settle, sleep.surge = waySleep, 1500*time.Millisecond, false
	show.say("rollout: starting 3 registries, 9 instances and 60 callers, each a process …")
	fleets, err := openAll(ctx, o.Binary, eider, plain, sleep)
	if err != nil {
		return nil, err
	}
	defer closeAll(fleets)
	if err := rollAll(ctx, o, show, "rollout", fleets, o.times().rollout); err != nil {
		return nil, err
	}
	rows := make([]Way, len(fleets))
	for i, f := range fleets {
		rows[i] = f.way2row()
	}
	r := &Rollout{Way: rows[0], Setup: base.sentence(), Surge: o.Surge}
	r.Cap = milliseconds(fleets[0].bound)
	r.Usual.Plain, r.Usual.Sleep = rows[1], rows[2]
	return r, nil
}

// rollAll lets every fleet restart until the time is over and the requests are made, and then waits for
// the restarts that have begun.
func rollAll(ctx context.Context, o *Options, show *display, scene string, fleets []*fleet, length time.Duration) error {
	rolling, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	errs := make(chan error, len(fleets))
	for _, f := range fleets {
		wg.Go(func() {
			if err := f.roll(ctx, rolling); err != nil {
				errs <- err
				stop()
			}
		})
	}
	start := time.Now()
	for rolling.Err() == nil {
		done := fleets[0].tally.counts(time.Now()).requests()
		if o.Requests > 0 && done >= o.Requests || o.Requests == 0 && time.Since(start) >= length {
			break
		}
		show.frame(scene, time.Since(start), fleets)
		select {
		case <-rolling.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	stop()
	if ctx.Err() == nil {
		show.say("waiting for the restarts that have begun …")
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// way2row sums a fleet up once its restarts have ended.
func (f *fleet) way2row() Way {
	c := f.tally.counts(time.Now())
	f.mu.Lock()
	defer f.mu.Unlock()
	row := Way{Requests: c.requests(), Failed: c.Failed, Restarts: f.restarts, Kinds: c.Kinds}
	if len(f.pauses) > 0 {
		pause := pauseOf(f.pauses)
		row.Pause = &pause
	}
	for _, failed := range f.tally.allFailures() {
		row.Details = detail(row.Details, failed)
	}
	return row
}

func pauseOf(all []time.Duration) Pause {
	if len(all) == 0 {
		return Pause{}
	}
	sorted := slices.Sorted(slices.Values(all))
	return Pause{P50: milliseconds(sorted[len(sorted)/2]), Max: milliseconds(sorted[len(sorted)-1])}
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
