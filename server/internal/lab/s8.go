package lab

import (
	"context"
	"sync"
	"time"
)

// playS8 is the set that figures are published of: 20 closed-loop callers, a POST of 300 ms, 45 s, one restart of
// each of two replicas, and four ways to leave.
func playS8(ctx context.Context, o *Options, show *display) (*S8, error) {
	length := 45 * time.Second
	base := plan{instances: 2, callers: 20, work: 300 * time.Millisecond, settle: 2 * time.Second, seed: o.Seed}
	var plans []plan
	for _, way := range []string{wayEider, wayPlain, wayGraceful, waySleep} {
		p := base
		p.way = way
		plans = append(plans, p)
	}
	show.say("s8: starting 4 registries, 8 instances and 80 callers, each a process …")
	fleets, err := openAll(ctx, o.Binary, plans...)
	if err != nil {
		return nil, err
	}
	defer closeAll(fleets)
	start := time.Now()
	var wg sync.WaitGroup
	defer wg.Wait()
	errs := make(chan error, len(fleets))
	for _, f := range fleets {
		wg.Go(func() { errs <- f.restartSome(ctx, f.plan.instances, length/3) })
	}
	for done := 0; time.Since(start) < length || done < len(fleets); {
		show.frame("s8", time.Since(start), fleets)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-errs:
			if err != nil {
				return nil, err
			}
			done++
		case <-time.After(100 * time.Millisecond):
		}
	}
	s := &S8{Setup: base.sentence()}
	for _, f := range fleets {
		row := f.way2row()
		row.Name = f.way
		s.Ways = append(s.Ways, row)
	}
	return s, nil
}

// restartSome restarts so many instances in turn, after a while of undisturbed load.
func (f *fleet) restartSome(ctx context.Context, n int, after time.Duration) error {
	for i := range n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(after):
		}
		if err := f.restart(ctx, i%f.plan.instances); err != nil {
			return err
		}
		after = f.settle
	}
	return nil
}
