package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
)

// eiderFan is a node and its callers, each a handle on a connection of its own with a roster, and one instance
// whose status changes.
type eiderFan struct {
	node    *node
	handles []*registry.Registry
	rosters []*roster.Roster
	served  *registry.Registry
	listing *registry.Listing
	up      bool
	finish  finish
	awaited atomic.Pointer[awaited]
}

// awaited is what every caller's view is to show.
type awaited struct {
	shows func(*eider.View) bool
	seen  []atomic.Bool // by caller
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// patience bounds every wait of a measurement.
const patience = 20 * time.Second

func openEider(callers int) (f *eiderFan, err error) {
	f = &eiderFan{up: true}
	if f.node, err = startNode("--fresh"); err != nil {
		return nil, err
	}
	f.served = registry.Open(registry.Config{Addr: f.node.grpc, Caller: "served", Logger: quiet()})
	if err := f.fill(callers); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *eiderFan) fill(callers int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if f.listing, err = f.serve(ctx, "orders", "1"); err != nil {
		return err
	}
	if _, err = f.serve(ctx, "orders", "2"); err != nil { // the alternative to whoever leaves
		return err
	}
	for i := range callers {
		f.follow(i)
	}
	for _, r := range f.rosters {
		_, done, err := r.Pick(ctx)
		if err != nil {
			return err
		}
		done(nil)
	}
	return nil
}

// serve lists an instance that nobody will call.
func (f *eiderFan) serve(ctx context.Context, service, id string) (*registry.Listing, error) {
	l, err := f.served.Register(registry.Registration{Service: service, ID: id, Address: net.JoinHostPort("127.0.0.1", "9")})
	if err != nil {
		return nil, err
	}
	for s := range l.Watch(ctx) {
		if s.Listed {
			return l, nil
		}
	}
	return nil, fmt.Errorf("not listed: %v", l.State())
}

func (f *eiderFan) follow(i int) {
	reg := registry.Open(registry.Config{Addr: f.node.grpc, Caller: "caller" + strconv.Itoa(i), Logger: quiet()})
	f.handles = append(f.handles, reg)
	f.rosters = append(f.rosters, roster.Config{Applied: func(view *eider.View) {
		a := f.awaited.Load()
		if a != nil && a.shows(view) && a.seen[i].CompareAndSwap(false, true) {
			f.finish.one()
		}
	}}.Follow(reg, "orders"))
}

// expect begins to wait until each caller picks by a view that shows this; none may have had one before.
func (f *eiderFan) expect(shows func(*eider.View) bool) {
	f.finish.expect(len(f.rosters))
	f.awaited.Store(&awaited{shows, make([]atomic.Bool, len(f.rosters))})
}

// lists tells whether a view has the instance.
func lists(id string) func(*eider.View) bool {
	return func(v *eider.View) bool {
		_, ok := v.Find(id)
		return ok
	}
}

func not(shows func(*eider.View) bool) func(*eider.View) bool {
	return func(v *eider.View) bool { return !shows(v) }
}

// Change changes the instance's status and returns when the last caller picks by it.
func (f *eiderFan) Change() error {
	f.up = !f.up
	status := eider.Down
	if f.up {
		status = eider.Up
	}
	f.expect(func(v *eider.View) bool {
		in, ok := v.Find("1")
		return ok && in.Status == status
	})
	if err := f.listing.SetStatus(status); err != nil {
		return err
	}
	return f.finish.wait()
}

// Acknowledged is Change until the node has heard of the last caller.
func (f *eiderFan) Acknowledged() error {
	if err := f.Change(); err != nil {
		return err
	}
	return f.allAcknowledged()
}

// allAcknowledged waits until the node has every caller at the newest view. It asks the node's own list, each five
// milliseconds, which costs the node time that is counted here.
func (f *eiderFan) allAcknowledged() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var list struct {
			Services []eider.Summary `json:"services"`
		}
		if err := f.node.ask("/v1/services", &list); err != nil {
			return err
		}
		for _, s := range list.Services {
			if s.Service == "orders" && s.Behind == 0 {
				return nil
			}
		}
		<-time.After(5 * time.Millisecond)
	}
	return fmt.Errorf("not every caller has acknowledged after %s", patience)
}

// ask reads one of the node's pages.
func (n *node) ask(path string, into any) error {
	resp, err := http.Get("http://" + n.http + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// Barrier lists one instance more, lets it leave, and returns how long it took until the last caller had let go.
func (f *eiderFan) Barrier(ctx context.Context, id string) (took time.Duration, err error) {
	f.expect(lists(id))
	l, err := f.serve(ctx, "orders", id)
	if err == nil {
		err = f.finish.wait()
	}
	if err == nil {
		err = f.allAcknowledged() // it is news that has settled when the leave begins
	}
	if err != nil {
		return 0, err
	}
	start := time.Now()
	leaving := l.Leave()
	select {
	case <-leaving.Barrier():
	case <-ctx.Done():
		return 0, fmt.Errorf("no barrier: %w", ctx.Err())
	}
	took = time.Since(start)
	if d, _ := leaving.Drain(); d.Total < len(f.rosters) {
		return 0, fmt.Errorf("the drain counted %d callers, not %d", d.Total, len(f.rosters))
	}
	return took, l.Left(ctx)
}

// Resident is the node's memory.
func (f *eiderFan) Resident() (int64, error) { return f.node.resident() }

func (f *eiderFan) cpus() (cpus, error) { return f.node.cpus() }

// Close ends callers and node.
func (f *eiderFan) Close() {
	var wg sync.WaitGroup
	for i := range f.handles {
		wg.Go(func() { _ = errors.Join(f.rosters[i].Close(), f.handles[i].Close()) })
	}
	wg.Wait()
	_ = f.served.Close()
	f.node.stop()
}
