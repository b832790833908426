package lab

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// AnyProgram is the scene anyprogram.
type AnyProgram struct {
	Run   Supervised `json:"run"`
	Front Supervised `json:"front"`
	Sleep Way        `json:"sleep"` // of callers that know nothing
	Setup string     `json:"setup"`
}

// Supervised is how the callers of programs under `eider run` fared: Eider's, and those that know nothing of it.
type Supervised struct {
	Way
	Strange Way `json:"know_nothing"`
}

// So many more calls of callers that know nothing may fail under `eider run` than beside a sleep of 5 s, in all restarts:
// both end in the same race for a connection that the program closes, and such a race is chance.
const strangeAllowance = 2

// The callers of each fleet.
const (
	anyNative  = 3
	anyUnknown = 3
	anyPinned  = 1
)

// playAnyProgram restarts programs that know nothing of Eider, with `eider run` and with its proxy before them, beside
// instances that sleep. A pause for callers that know nothing is 8 s long, so the restarts of each way are those of
// several small fleets side by side.
func playAnyProgram(ctx context.Context, o *Options, show *display) (*AnyProgram, error) {
	fleets, restarts := 4, 5
	if o.Short {
		fleets, restarts = 1, 2
	}
	base := plan{instances: 2, callers: anyNative + anyUnknown + anyPinned, unknown: anyUnknown, pinned: anyPinned,
		work: 150 * time.Millisecond, think: 50 * time.Millisecond, settle: time.Second, run: o.Run}
	var plans []plan
	for range fleets {
		for _, way := range []string{wayRun, wayFront, waySleep} {
			p := base
			if p.way, p.seed = way, o.Seed+uint64(100*len(plans)); way == waySleep {
				p.callers -= anyNative
			}
			plans = append(plans, p)
		}
	}
	show.say(fmt.Sprintf("anyprogram: starting %d registries, %d instances and their callers, each a process …", len(plans), 2*len(plans)))
	all, err := openAll(ctx, o.Binary, plans...)
	if err != nil {
		return nil, err
	}
	defer closeAll(all)
	if err := restartAll(ctx, show, all, restarts); err != nil {
		return nil, err
	}
	r := &AnyProgram{Setup: base.sentence()}
	for _, f := range all {
		native, strange := f.rowsByKnowledge()
		switch f.way {
		case wayRun:
			r.Run.add(native, strange)
		case wayFront:
			r.Front.add(native, strange)
		default:
			r.Sleep = r.Sleep.plus(strange)
		}
	}
	return r, nil
}

// restartAll restarts so many instances of each fleet, and lets the load run on for as long as any list lags.
func restartAll(ctx context.Context, show *display, fleets []*fleet, restarts int) error {
	start := time.Now()
	var wg sync.WaitGroup
	defer wg.Wait()
	errs := make(chan error, len(fleets))
	for i, f := range fleets {
		wg.Go(func() { errs <- f.restartSome(ctx, restarts, time.Second+time.Duration(i)*150*time.Millisecond) })
	}
	for done := 0; done < len(fleets); {
		show.frame("anyprogram", time.Since(start), fleets)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-errs:
			if err != nil {
				return err
			}
			done++
		case <-time.After(100 * time.Millisecond):
		}
	}
	return watchLoad(ctx, show, "anyprogram", fleets[0], usualRefresh)
}

// rowsByKnowledge sums a fleet up, its callers that know nothing of Eider apart.
func (f *fleet) rowsByKnowledge() (native, strange Way) {
	all, strange := f.way2row(), f.way2row()
	c := f.strange.counts(time.Now())
	strange.Requests, strange.Failed, strange.Kinds, strange.Details = c.requests(), c.Failed, c.Kinds, nil
	for _, failed := range f.strange.allFailures() {
		strange.Details = detail(strange.Details, failed)
	}
	native = all
	native.Requests, native.Failed, native.Kinds, native.Details = all.Requests-strange.Requests, all.Failed-strange.Failed, map[string]int{}, nil
	for _, failed := range f.tally.allFailures() {
		if failed.Way == wayEider {
			native.Kinds[failed.Why]++
			native.Details = detail(native.Details, failed)
		}
	}
	return native, strange
}

func (s *Supervised) add(native, strange Way) {
	s.Way, s.Strange = s.plus(native), s.Strange.plus(strange)
}

// plus adds a fleet's row to those of its way; of the pauses it keeps the longest, also of the medians.
func (w Way) plus(more Way) Way {
	sum := Way{Requests: w.Requests + more.Requests, Failed: w.Failed + more.Failed, Restarts: w.Restarts + more.Restarts, Pause: more.Pause, Kinds: map[string]int{}}
	if w.Pause != nil && more.Pause != nil {
		sum.Pause = &Pause{P50: max(w.Pause.P50, more.Pause.P50), Max: max(w.Pause.Max, more.Pause.Max)}
	}
	for _, kinds := range []map[string]int{w.Kinds, more.Kinds} {
		for kind, n := range kinds {
			sum.Kinds[kind] += n
		}
	}
	sum.Details = append(sum.Details, w.Details...)
	sum.Details = append(sum.Details, more.Details...)
	sum.Details = sum.Details[:min(5, len(sum.Details))]
	return sum
}

func (r *AnyProgram) broken() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf("anyprogram: "+format, args...)) }
	if n := r.Run.Failed + r.Front.Failed; n > 0 {
		say("%d calls of Eider's callers failed (%s)", n, joined(append(r.Run.Details, r.Front.Details...)))
	}
	if r.Front.Strange.Failed > 0 {
		say("%d calls of callers that know nothing failed behind the proxy (%s)", r.Front.Strange.Failed, joined(r.Front.Strange.Details))
	}
	if n := r.Run.Strange.Failed; n > r.Sleep.Failed+strangeAllowance {
		say("%d calls of callers that know nothing failed, and %d beside a sleep of 5 s (%s)", n, r.Sleep.Failed, joined(r.Run.Strange.Details))
	}
	for _, w := range []Way{r.Run.Way, r.Run.Strange, r.Front.Way, r.Front.Strange, r.Sleep} {
		if w.Restarts == 0 || w.Requests == 0 {
			say("it showed nothing: no restart or no request")
			break
		}
	}
	return out
}

func (r *AnyProgram) print(w io.Writer) {
	fmt.Fprintf(w, "\nanyprogram: restarts of programs that know nothing of Eider\n  %s\n\n", r.Setup)
	t := newTable(w)
	t.row(wayRun, r.Run.Way)
	t.row("", r.Run.Strange)
	t.row(wayFront, r.Front.Way)
	t.row("", r.Front.Strange)
	t.row(waySleep, r.Sleep)
	fmt.Fprintf(w, "\n  Callers that know nothing, as those of sleep: a plain http.Client over a list\n"+
		"  that lags. Calls choose from it, or stay on a connection while it lasts.\n")
}
