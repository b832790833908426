package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// playCrash kills one of three instances with SIGKILL under load.
func playCrash(ctx context.Context, o *Options, show *display) (*Crash, error) {
	p := plan{way: wayEider, instances: 3, callers: 20, work: 30 * time.Millisecond, think: 10 * time.Millisecond, seed: o.Seed}
	show.say("crash: starting a registry, 3 instances and 20 callers, each a process …")
	f, err := p.open(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err := watchLoad(ctx, show, "crash", f, o.times().before); err != nil {
		return nil, err
	}
	victim := p.shuffled().IntN(p.instances)
	k, err := f.kill(ctx, victim)
	if err != nil {
		return nil, err
	}
	f.setState(victim, "killed (SIGKILL)")
	if err := watchLoad(ctx, show, "crash", f, o.times().after); err != nil {
		return nil, err
	}
	c := &Crash{Setup: p.sentence(), Requests: f.tally.counts(time.Now()).requests(), Published: milliseconds(k.published.Sub(k.at))}
	c.LastPick = milliseconds(max(0, time.Duration(f.tally.lastTryOf(k.address)-k.at.UnixNano())))
	for _, failed := range f.tally.allFailures() {
		c.count(failed, k.refused)
	}
	return c, nil
}

// count sorts a failed call: written to a connection that was opened before the dead port first
// refused, it was cut in flight; else it is one that should have gone elsewhere.
func (c *Crash) count(failed failure, refused time.Time) {
	if failed.Opened != 0 && failed.Opened < refused.UnixNano() {
		c.Cut++
		return
	}
	c.FailedNew++
	c.Details = detail(c.Details, failed)
}

// killing is what a kill looked like from outside.
type killing struct {
	address   string
	at        time.Time // SIGKILL was sent
	refused   time.Time // the port first refused
	published time.Time // an observer had a view without the instance
}

func (f *fleet) kill(ctx context.Context, i int) (killing, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	victim := f.at(i)
	reg := registry.Open(registry.Config{Addr: f.grpc, Caller: "conductor", Logger: slog.New(slog.DiscardHandler)})
	defer reg.Close()
	seen, gone := make(chan struct{}), make(chan time.Time, 1)
	go watchGone(ctx, reg, victim.id, seen, gone)
	select {
	case <-seen:
	case <-ctx.Done():
		return killing{}, fmt.Errorf("an observer sees no %s/%s: %w", service, victim.id, ctx.Err())
	}
	k := killing{address: victim.address, at: time.Now()}
	if err := victim.child.signal(syscall.SIGKILL); err != nil {
		return killing{}, err
	}
	var err error
	if k.refused, err = firstRefusal(ctx, victim.address); err != nil {
		return killing{}, err
	}
	select {
	case k.published = <-gone:
	case <-ctx.Done():
		return killing{}, fmt.Errorf("the end of %s/%s isn't published: %w", service, victim.id, ctx.Err())
	}
	return k, nil
}

// watchGone closes seen once the instance is listed, and tells when a view first was without it.
func watchGone(ctx context.Context, reg *registry.Registry, id string, seen chan<- struct{}, gone chan<- time.Time) {
	listed := false
	for view, err := range reg.Watch(ctx, service) {
		if err != nil {
			continue
		}
		in, ok := view.Find(id)
		switch {
		case ok && in.Status == eider.Up && !listed:
			listed = true
			close(seen)
		case !ok && listed:
			gone <- time.Now()
			return
		}
	}
}

// firstRefusal probes the port each millisecond.
func firstRefusal(ctx context.Context, address string) (time.Time, error) {
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return time.Now(), nil
		}
		if err == nil {
			_ = conn.Close()
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("the port of the killed process never refused: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// watchLoad shows the load for a while.
func watchLoad(ctx context.Context, show *display, scene string, f *fleet, length time.Duration) error {
	start := time.Now()
	for time.Since(start) < length {
		show.frame(scene, time.Since(f.opened), []*fleet{f})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
