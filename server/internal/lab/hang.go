package lab

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"
)

// The load of the scene hang, from REQUIREMENTS B9: at 500 requests a second 50 ms of work keep 25 in flight, and
// one that hangs fills a pool of 200 in 0.4 s.
const (
	hangEvery    = 2 * time.Millisecond // between two requests that need the dependency
	hangWork     = 50 * time.Millisecond
	innocentOf   = 5 // one request in so many needs nobody
	fillsWithin  = 400 * time.Millisecond
	fillsOff     = 100 * time.Millisecond
	hangLasts    = 3 * time.Second
	backWithin   = 15 * time.Second
	wayErrors    = "plain"    // a breaker that knows an error rate alone
	waySlow      = "slow"     // one that sees calls that hang
	wayBulkhead  = "bulkhead" // the first one, and a bulkhead
	patience     = 2 * time.Second
	needsNobody  = "/stock"
	needsService = "/pay"
)

// Hang is the scene hang.
type Hang struct {
	PoolFull       ByGuard[*float64] `json:"pool_full_ms"`    // from when the dependency hung until the front's pool was full; null where it never was
	InnocentFailed ByGuard[int]      `json:"innocent_failed"` // requests that don't need the dependency, and failed
	Innocent       ByGuard[int]      `json:"innocent"`        // such requests
	Failed         ByGuard[int]      `json:"failed"`          // requests that need it, and failed or weren't answered within 2 s
	Back           ByGuard[float64]  `json:"back_ms"`         // from when it answered again until such a request was answered
	Requests       int               `json:"requests"`
	Details        []string          `json:"details,omitempty"`
	Setup          string            `json:"setup"`
}

// ByGuard is a figure for each way to guard a call.
type ByGuard[T any] struct {
	Plain    T `json:"plain"`
	Slow     T `json:"slow"`
	Bulkhead T `json:"bulkhead"`
}

func (b *ByGuard[T]) of(way string) *T {
	switch way {
	case waySlow:
		return &b.Slow
	case wayBulkhead:
		return &b.Bulkhead
	default:
		return &b.Plain
	}
}

// playHang has both instances of a dependency hang under load, once for each way to guard the calls to it.
func playHang(ctx context.Context, o *Options, show *display) (*Hang, error) {
	p := plan{way: wayEider, instances: 2, work: hangWork, seed: o.Seed}
	show.say("hang: starting a registry, 2 instances of a dependency, and a front that calls it, each a process …")
	f, err := p.open(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	defer f.close()
	r := &Hang{Setup: fmt.Sprintf("%d requests/s to a front with a pool of %d, one in %d needs nobody; the others call a dependency of 2 instances; it takes %v, and then hangs for %v",
		int(time.Second/hangEvery)*innocentOf/(innocentOf-1), frontPool, innocentOf, hangWork, hangLasts)}
	for _, way := range []string{wayErrors, waySlow, wayBulkhead} {
		show.say(fmt.Sprintf("hang: guarded by %s …", guardedBy[way]))
		if err := r.play(ctx, o, f, way); err != nil {
			return nil, err
		}
	}
	return r, nil
}

var guardedBy = map[string]string{
	wayErrors:   "an error rate alone",
	waySlow:     "calls that are slow so far",
	wayBulkhead: "an error rate, a bulkhead",
}

// play lets it hang once.
func (r *Hang) play(ctx context.Context, o *Options, f *fleet, way string) error {
	full := make(chan int64, 1)
	c, err := spawnRole(f.binary, "front "+way, role{Play: "front", Way: way, GRPC: f.grpc, Service: service, Work: hangWork}, func(l line) {
		if l.Kind == "full" {
			select {
			case full <- l.At:
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	defer c.stop()
	at, err := c.waitServing(ctx)
	if err != nil {
		return err
	}
	load := newArrivals("http://" + at.Address)
	defer load.end()
	if err := load.run(ctx, o.times().before); err != nil {
		return err
	}
	switch {
	case load.answered.Load() == 0:
		return fmt.Errorf("the front answers nobody: %v", load.details)
	case len(full) > 0:
		return fmt.Errorf("the front's pool of %d was full before anything hung: this machine is too busy for this scene", frontPool)
	}
	if err := r.hang(ctx, f, load, full, way); err != nil {
		return err
	}
	load.end()
	*r.InnocentFailed.of(way), *r.Innocent.of(way) = int(load.innocentFailed.Load()), int(load.innocent.Load())
	*r.Failed.of(way) = int(load.payFailed.Load())
	r.Requests += int(load.begun.Load())
	if way == wayBulkhead {
		r.Details = load.details
	}
	return nil
}

// hang has every instance hang for a while, and takes down when the front's pool was full, and when calls came through again.
func (r *Hang) hang(ctx context.Context, f *fleet, load *arrivals, full <-chan int64, way string) error {
	hung := time.Now()
	if err := f.signalAll(syscall.SIGUSR1); err != nil {
		return err
	}
	if err := load.run(ctx, hangLasts); err != nil {
		return err
	}
	select {
	case at := <-full:
		ms := milliseconds(time.Unix(0, at).Sub(hung))
		*r.PoolFull.of(way) = &ms
	default:
	}
	freed := time.Now()
	if err := f.signalAll(syscall.SIGUSR2); err != nil {
		return err
	}
	back := func() bool { return load.lastPaid.Load() > freed.UnixNano() }
	if err := load.runUntil(ctx, backWithin, back); err != nil {
		return err
	}
	if back() {
		*r.Back.of(way) = milliseconds(time.Unix(0, load.lastPaid.Load()).Sub(freed))
	}
	return nil
}

func (f *fleet) signalAll(sig syscall.Signal) error {
	for i := range f.plan.instances {
		if err := f.at(i).child.signal(sig); err != nil {
			return err
		}
	}
	return nil
}

// broken holds it to B9: that the plain way fills the pool in 0.4 s is the reason for all the rest.
func (r *Hang) broken() (out []string) {
	say := func(format string, args ...any) { out = append(out, "hang: "+fmt.Sprintf(format, args...)) }
	switch full := r.PoolFull.Plain; {
	case full == nil:
		say("the pool was never full, though nothing saw that the dependency hung")
	case *full < milliseconds(fillsWithin-fillsOff) || *full > milliseconds(fillsWithin+fillsOff):
		say("the pool was full after %.0f ms, not within %v ± %v", *full, fillsWithin, fillsOff)
	}
	if r.InnocentFailed.Plain == 0 {
		say("a full pool hurt nobody: nothing was shown")
	}
	if r.InnocentFailed.Bulkhead > 0 {
		say("%d requests failed in spite of the bulkhead that don't need the dependency (%s)", r.InnocentFailed.Bulkhead, joined(r.Details))
	}
	for _, way := range []string{wayErrors, waySlow, wayBulkhead} {
		if *r.Back.of(way) == 0 {
			say("%s: the dependency answered again, and nobody was let through to it within %v", way, backWithin)
		}
	}
	return out
}

func (r *Hang) print(w io.Writer) {
	fmt.Fprintf(w, "\nhang: a dependency answers nobody, and who calls it waits\n  %s\n\n", strings.ReplaceAll(r.Setup, "; ", ";\n  "))
	fmt.Fprintf(w, "  %-27s  %9s  %15s  %9s  %7s\n", "guarded by", "pool full", "innocent failed", "of others", "back in")
	for _, way := range []string{wayErrors, waySlow, wayBulkhead} {
		full := "never"
		if ms := *r.PoolFull.of(way); ms != nil {
			full = duration(*ms)
		}
		innocent := fmt.Sprintf("%d of %d", *r.InnocentFailed.of(way), *r.Innocent.of(way))
		fmt.Fprintf(w, "  %-27s  %9s  %15s  %9d  %7s\n", guardedBy[way], full, innocent, *r.Failed.of(way), duration(*r.Back.of(way)))
	}
}
