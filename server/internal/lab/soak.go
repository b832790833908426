package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/eiderhq/eider"
)

// Soak is what a soak is made of. The zero value is the usual one.
type Soak struct {
	For        time.Duration // 0 means 10m; restarts that have begun by then are waited for
	KillEvery  time.Duration // 0 means 5s: the registry gets SIGKILL so often, and is started again at once
	Callers    int           // 0 means 200, each a handle and a connection of its own, in processes of 20
	Instances  int           // 0 means 50, each a process
	Restarting int           // 0 means 4: so many instances are restarted at a time
	Think      time.Duration // 0 means 1s on average between a caller's calls
}

const crowdSize = 20 // callers in one process

func (s *Soak) complete() error {
	for _, n := range []*int{&s.Callers, &s.Instances, &s.Restarting} {
		if *n < 0 {
			return fmt.Errorf("%d is below 0", *n)
		}
	}
	for _, d := range []*time.Duration{&s.For, &s.KillEvery, &s.Think} {
		if *d < 0 {
			return fmt.Errorf("%s is below 0", *d)
		}
	}
	s.For, s.KillEvery, s.Think = or(s.For, 10*time.Minute), or(s.KillEvery, 5*time.Second), or(s.Think, time.Second)
	s.Callers, s.Instances, s.Restarting = or(s.Callers, 200), or(s.Instances, 50), or(s.Restarting, 4)
	if s.Restarting*2 > s.Instances {
		return fmt.Errorf("%d instances restarting at a time of %d: at most half of them, so that there is always an alternative", s.Restarting, s.Instances)
	}
	return nil
}

func or[T comparable](v, usual T) T {
	var zero T
	if v == zero {
		return usual
	}
	return v
}

// RunSoak kills the registry again and again while instances are restarted under load, and holds what callers wrote
// down against what instances say of their departures. It returns ErrPromise if anything was lost.
func RunSoak(ctx context.Context, s Soak, o Options) error {
	if err := errors.Join(s.complete(), o.complete()); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	show := newDisplay(&o)
	r, err := playSoak(ctx, s, &o, show)
	show.clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("soak (seed %d): %w", o.Seed, err)
	}
	if o.JSON {
		if err := writeJSON(o.Out, struct {
			Seed uint64   `json:"seed"`
			Soak *Soaking `json:"soak"`
		}{o.Seed, r}); err != nil {
			return err
		}
	} else {
		r.print(o.Out)
	}
	if broken := r.broken(); len(broken) > 0 {
		return fmt.Errorf("%w (seed %d): %s", ErrPromise, o.Seed, strings.Join(broken, "; "))
	}
	return nil
}

func playSoak(ctx context.Context, s Soak, o *Options, show *display) (*Soaking, error) {
	p := plan{way: wayEider, instances: s.Instances, callers: s.Callers, crowd: crowdSize, work: 10 * time.Millisecond, think: s.Think, seed: o.Seed, persistent: true}
	show.say(fmt.Sprintf("soak: starting a registry, %d instances and %d callers in %d processes …", s.Instances, s.Callers, p.crowds()))
	f, err := p.open(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	defer f.close()
	start := time.Now()
	ending, stop := context.WithTimeout(ctx, s.For)
	defer stop()
	r := &Soaking{Setup: p.sentence()}
	var wg sync.WaitGroup
	errs := make(chan error, s.Restarting+1)
	run := func(work func() error) {
		wg.Go(func() {
			if err := work(); err != nil {
				errs <- err
				stop()
			}
		})
	}
	run(func() error { return f.killAgain(ctx, ending, s.KillEvery, r) })
	for k := range s.Restarting {
		run(func() error { return f.rollShare(ctx, ending, k, s.Restarting) })
	}
	for ending.Err() == nil {
		show.frame("soak", time.Since(start), []*fleet{f})
		select {
		case <-ending.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	r.Seconds = time.Since(start).Seconds()
	if err := watchLoad(ctx, show, "soak", f, 2*time.Second); err != nil { // what callers have written down by then is told
		return nil, err
	}
	r.sum(f)
	return r, nil
}

// killAgain kills the registry and starts it at once where it was, until ending.
func (f *fleet) killAgain(ctx, ending context.Context, every time.Duration, r *Soaking) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ending.Done():
			return ctx.Err()
		case <-tick.C:
		}
		f.auditEvents(ctx)
		at := time.Now()
		if err := f.killRegistry(ctx); err != nil {
			return err
		}
		if err := f.startRegistry(ctx); err != nil {
			return err
		}
		r.Kills++
		r.backs = append(r.backs, time.Since(at))
	}
}

// auditEvents asks the registry whom it took for ended since it started. An answer that doesn't come says nothing: it
// is killed all the time.
func (f *fleet) auditEvents(ctx context.Context) {
	var got struct {
		Events []eider.Event `json:"events"`
	}
	if getJSON(ctx, "http://"+f.http+"/v1/events?last=10000&limit=10000", &got) != nil {
		return
	}
	for _, e := range got.Events {
		if e.Kind == eider.EventDead || e.Kind == eider.EventLapsed {
			f.audit.ended(nameOf(e.ID, e.Incarnation), e.Time)
		}
	}
}

// rollShare restarts one instance after the other of every share-th, in no order, until ending.
func (f *fleet) rollShare(ctx, ending context.Context, k, shares int) error {
	rnd := rand.New(rand.NewPCG(f.seed, 100+uint64(k)))
	for ending.Err() == nil {
		i := k + shares*rnd.IntN((f.plan.instances-k+shares-1)/shares)
		if err := f.restart(ctx, i); err != nil {
			return err
		}
		select {
		case <-ending.Done():
		case <-time.After(time.Duration(rnd.Int64N(int64(time.Second)))):
		}
	}
	return nil
}

// Soaking is what a soak has shown. Its JSON is the product's own: fields are added, never renamed.
type Soaking struct {
	Seconds        float64        `json:"seconds"`
	Requests       int            `json:"requests"`
	Failed         int            `json:"failed"`
	Kinds          map[string]int `json:"kinds,omitempty"`
	Kills          int            `json:"kills"`    // of the registry
	Back           Pause          `json:"back_ms"`  // from SIGKILL until it served again
	Restarts       int            `json:"restarts"` // of instances
	Pause          Pause          `json:"pause_ms"`
	EndedBy        map[string]int `json:"ended_by"`         // what ended the pauses
	FalseEvictions int            `json:"false_evictions"`  // incarnations whose process lived, and that a roster lost or the registry ended
	Vacuous        int            `json:"vacuous_barriers"` // a caller picked an instance after a barrier that said it had let go
	Covered        int            `json:"covered_picks"`    // a caller picked an instance after a pause whose report named it as covered by its cap, or that the bound or the grace ended
	Unclean        int            `json:"unclean"`          // departures that say themselves that they lost something
	Details        []string       `json:"details,omitempty"`
	Setup          string         `json:"setup"`

	backs []time.Duration
}

func (r *Soaking) sum(f *fleet) {
	row := f.way2row()
	r.Requests, r.Failed, r.Kinds, r.Restarts, r.Details = row.Requests, row.Failed, row.Kinds, row.Restarts, row.Details
	if row.Pause != nil {
		r.Pause = *row.Pause
	}
	r.Back = pauseOf(r.backs)
	found := f.audit.find()
	r.FalseEvictions, r.Vacuous, r.Covered, r.Unclean, r.EndedBy = len(found.evicted), len(found.vacuous), found.covered, len(found.unclean), found.by
	for _, list := range [][]string{found.evicted, found.vacuous, found.unclean} {
		r.Details = append(r.Details, list[:min(len(list), 5)]...)
	}
}

func (r *Soaking) broken() (out []string) {
	say := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	say(r.Failed, "failed calls")
	say(r.FalseEvictions, "instances taken for ended that lived")
	say(r.Vacuous, "vacuous barriers")
	say(r.Unclean, "departures that lost something by their own word")
	if r.Requests == 0 || r.Kills == 0 || r.Restarts == 0 {
		out = append(out, "it showed nothing: no request, no kill or no restart")
	}
	if len(out) > 0 && len(r.Details) > 0 {
		out = append(out, joined(r.Details))
	}
	return out
}

func (r *Soaking) print(w io.Writer) {
	fmt.Fprintf(w, "\nsoak: the registry killed again and again, instances restarted all along\n  %s\n\n", r.Setup)
	row := rows(w)
	row(r.Requests, "requests")
	row(r.Failed, "failed (promise: 0) "+kindsText(r.Kinds))
	row(r.Kills, fmt.Sprintf("kills of the registry; back after %s, at most %s", duration(r.Back.P50), duration(r.Back.Max)))
	row(r.Restarts, fmt.Sprintf("restarts of instances; pauses of %s, at most %s", duration(r.Pause.P50), duration(r.Pause.Max)))
	row(r.FalseEvictions, "instances taken for ended that lived (promise: 0)")
	row(r.Vacuous, "picks after a barrier that said the caller had let go (promise: 0)")
	row(r.Covered, "picks after a pause that a named cap or the bound had ended")
	row(r.Unclean, "departures that lost something by their own word (promise: 0)")
	if broken := r.broken(); len(broken) > 0 {
		fmt.Fprintf(w, "\nBROKEN: %s\n", joined(broken))
	} else {
		fmt.Fprintf(w, "\nEvery promise kept, in %.0f s.\n", r.Seconds)
	}
}
