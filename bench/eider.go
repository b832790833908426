package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
)

// eiderFan is 1,000 callers, each a handle on a connection of its own with a roster, and one instance
// whose status changes.
type eiderFan struct {
	node    *node
	handles []*registry.Registry
	rosters []*roster.Roster
	served  *registry.Registry
	listing *registry.Listing
	up      bool
	finish  finish
	counted []applied
}

// applied counts each change once a caller.
type applied struct {
	mu   sync.Mutex
	seen uint64 // the highest version applied
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openEider(callers int) (f *eiderFan, err error) {
	f = &eiderFan{counted: make([]applied, callers), up: true}
	if f.node, err = startNode(); err != nil {
		return nil, err
	}
	f.served = registry.Open(registry.Config{Addr: f.node.grpc, Caller: "served", Logger: quiet()})
	if f.listing, err = f.served.Register(registry.Registration{Service: "orders", ID: "1", Address: "127.0.0.1:8080"}); err != nil {
		f.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	other, err := f.served.Register(registry.Registration{Service: "orders", ID: "2", Address: "127.0.0.1:8081"})
	if err == nil {
		err = errors.Join(listed(ctx, f.listing), listed(ctx, other)) // the other is the alternative to whoever leaves
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	for i := range callers {
		f.follow(i)
	}
	for _, r := range f.rosters {
		_, done, err := r.Pick(ctx)
		if err != nil {
			f.Close()
			return nil, err
		}
		done(nil)
	}
	return f, nil
}

func listed(ctx context.Context, l *registry.Listing) error {
	for s := range l.Watch(ctx) {
		if s.Listed {
			return nil
		}
	}
	return fmt.Errorf("not listed: %v", l.State())
}

func (f *eiderFan) follow(i int) {
	reg := registry.Open(registry.Config{Addr: f.node.grpc, Caller: "caller" + strconv.Itoa(i), Logger: quiet()})
	f.handles = append(f.handles, reg)
	c := &f.counted[i]
	f.rosters = append(f.rosters, roster.Config{Applied: func(view *eider.View) {
		in, ok := view.Find("1")
		if !ok {
			return
		}
		c.mu.Lock()
		news := in.Version > c.seen && c.seen != 0
		c.seen = max(c.seen, in.Version)
		c.mu.Unlock()
		if news {
			f.finish.one()
		}
	}}.Follow(reg, "orders"))
}

// Change changes the instance's status and returns when the last caller picks by it.
func (f *eiderFan) Change() error {
	f.finish.expect(len(f.rosters))
	f.up = !f.up
	status := eider.Down
	if f.up {
		status = eider.Up
	}
	if err := f.listing.SetStatus(status); err != nil {
		return err
	}
	return f.finish.wait()
}

// Resident is the node's memory.
func (f *eiderFan) Resident() (int64, error) { return f.node.resident() }

// Close ends callers and node.
func (f *eiderFan) Close() {
	var wg sync.WaitGroup
	for i := range f.handles {
		wg.Go(func() {
			_ = f.rosters[i].Close()
			_ = f.handles[i].Close()
		})
	}
	wg.Wait()
	if f.served != nil {
		_ = f.served.Close()
	}
	f.node.stop()
}

// Barrier registers an instance more, lets it leave, and returns how long it took until the last
// caller had let go.
func (f *eiderFan) Barrier(ctx context.Context, n int) (time.Duration, error) {
	l, err := f.served.Register(registry.Registration{Service: "orders", ID: "leaving" + strconv.Itoa(n), Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+n%20000))})
	if err != nil {
		return 0, err
	}
	if err := listed(ctx, l); err != nil {
		return 0, err
	}
	if err := f.settled(ctx, l.State().As.ID); err != nil {
		return 0, err
	}
	start := time.Now()
	leaving := l.Leave()
	select {
	case <-leaving.Barrier():
	case <-ctx.Done():
		return 0, fmt.Errorf("no barrier: %w", ctx.Err())
	}
	took := time.Since(start)
	if d, _ := leaving.Drain(); d.Total < len(f.rosters) {
		return 0, fmt.Errorf("the drain counted %d callers, not %d", d.Total, len(f.rosters))
	}
	return took, l.Left(ctx)
}

// settled waits until every caller has the instance in its list.
func (f *eiderFan) settled(ctx context.Context, id string) error {
	for _, r := range f.rosters {
		for {
			if v := r.View().View; v != nil {
				if _, ok := v.Find(id); ok {
					break
				}
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("not every caller sees %s: %w", id, ctx.Err())
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}
