package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fleettest"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/front/native"
	"github.com/eiderhq/eider/server/internal/memnet"
	"github.com/eiderhq/eider/server/internal/node"
	"github.com/eiderhq/eider/server/internal/panel"
	"github.com/eiderhq/eider/server/internal/replica/solo"
)

var _ fleet.Store = (*registry.Fleet)(nil)

func openFleet(t *testing.T, addr string) *registry.Registry {
	t.Helper()
	reg := registry.Open(registry.Config{Addr: addr, Caller: "checkout", Logger: quiet})
	t.Cleanup(func() { reg.Close() })
	return reg
}

// TestTheRegistryKeepsWhatBreakersShare: what one handle swaps, another watches.
func TestTheRegistryKeepsWhatBreakersShare(t *testing.T) {
	n := startNode(t, node.Settings{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	one, two := openFleet(t, n.grpc).Fleet(), openFleet(t, n.grpc).Fleet()
	var version uint64
	seen := 0
	for s, err := range two.Watch(ctx, "orders") {
		if err != nil {
			t.Fatal(err)
		}
		switch seen++; seen {
		case 1:
			if s.Version != 0 {
				t.Fatalf("a key that has nothing is seen as %+v", s)
			}
			after, ok, err := one.Swap(ctx, "orders", 0, []byte("first"))
			if err != nil || !ok || after.Version == 0 {
				t.Fatalf("swap: %+v, %v, %v", after, ok, err)
			}
			version = after.Version
			continue
		}
		if s.Version != version || string(s.Record) != "first" || s.Age < 0 || s.Age > patience {
			t.Fatalf("seen: %+v, want version %d", s, version)
		}
		break
	}
	if _, err := one.Tell(ctx, "orders", "a", []byte("3 of 5"), false); err != nil {
		t.Fatal(err)
	}
	s, err := two.Tell(ctx, "orders", "b", []byte("4 of 5"), true)
	if err != nil || len(s.Counts) != 2 || s.Counts[0].Caller != "a" || string(s.Counts[0].Count) != "3 of 5" || s.Counts[0].From != "" {
		t.Fatalf("told: %+v, %v", s, err)
	}
	if s, ok, err := two.Swap(ctx, "orders", version+1, []byte("second")); ok || err != nil || string(s.Record) != "first" {
		t.Fatalf("a swap of another version: %+v, %v, %v", s, ok, err)
	}
}

// TestAStoreThatIsGoneIsKnownAtOnce: a node that ends ends every watch, and what is asked then fails; one that is back has
// forgotten.
func TestAStoreThatIsGoneIsKnownAtOnce(t *testing.T) {
	n := startNode(t, node.Settings{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reg := openFleet(t, n.grpc)
	store := reg.Fleet()
	if _, ok, err := store.Swap(ctx, "orders", 0, []byte("first")); err != nil || !ok {
		t.Fatal(ok, err)
	}
	var last error
	for s, err := range store.Watch(ctx, "orders") {
		if last = err; s.Version != 0 {
			n.stop()
		}
	}
	if last == nil || errors.Is(last, context.DeadlineExceeded) || eider.KindOf(last) != eider.Unavailable {
		t.Fatalf("the watch ended with %v", last)
	}
	if _, err := store.Tell(ctx, "orders", "a", []byte("x"), false); eider.KindOf(err) != eider.Unavailable {
		t.Fatalf("told to nobody: %v", err)
	}
	again := startNode(t, node.Settings{GRPC: n.grpc})
	for {
		if s, err := store.Tell(ctx, "orders", "a", []byte("x"), false); err == nil {
			if s.Version != 0 {
				t.Fatalf("a node that was started anew knows %+v", s)
			}
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	_ = again
	for s, err := range store.Watch(ctx, "orders") {
		if err != nil || s.Version != 0 {
			t.Fatal(s, err)
		}
		break
	}
	reg.Close()
	if _, err := store.Tell(ctx, "orders", "a", nil, false); eider.KindOf(err) != eider.Closed {
		t.Errorf("told by a closed handle: %v", err)
	}
	for _, err := range store.Watch(ctx, "orders") {
		if eider.KindOf(err) != eider.Closed {
			t.Errorf("watched by a closed handle: %v", err)
		}
	}
}

// serveStore serves what a memory has, at an address of a listener, until the test ends.
func serveStore(t *testing.T, lis net.Listener, mem *fleet.Memory) {
	t.Helper()
	srv := native.New(solo.New(solo.Config{Node: "n1", Fresh: true, Logger: quiet}), native.Config{Logger: quiet, Panel: panel.New(mem, nil)})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		srv.Stop(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestTheRegistryIsAStore: over the wire, by two processes, it is what every store of fleet breakers is.
func TestTheRegistryIsAStore(t *testing.T) {
	fleettest.Suite(t, func(t *testing.T) fleettest.World {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		mem := fleet.NewMemory(0)
		serveStore(t, lis, mem)
		addr := lis.Addr().String()
		return fleettest.World{Store: openFleet(t, addr).Fleet(), Second: openFleet(t, addr).Fleet(), Flush: func(*testing.T) { mem.Flush() }}
	})
}

// TestTheRegistryIsAStoreAsTimePasses: the same with a clock that the test holds.
func TestTheRegistryIsAStoreAsTimePasses(t *testing.T) {
	fleettest.SuiteInBubbles(t, func(t *testing.T) fleettest.World {
		net := memnet.New()
		lis, err := net.Listen("10.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		mem := fleet.NewMemory(0)
		serveStore(t, lis, mem)
		open := func(host string) *registry.Fleet {
			reg := registry.Open(registry.Config{Addr: lis.Addr().String(), Caller: "checkout", Logger: quiet, Dial: net.From(host).Dial})
			t.Cleanup(func() { reg.Close() })
			return reg.Fleet()
		}
		return fleettest.World{Store: open("10.0.0.2"), Second: open("10.0.0.3"), Flush: func(*testing.T) { mem.Flush() },
			Pass: func(_ *testing.T, passed time.Duration) { <-time.After(passed) }}
	})
}

// TestAThousandWatchersSeeOneSwap: of one process over one stream, and of two hundred over their own.
func TestAThousandWatchersSeeOneSwap(t *testing.T) {
	n := startNode(t, node.Settings{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for _, processes := range []int{1, 200} {
		first := openFleet(t, n.grpc).Fleet()
		key := fmt.Sprint("orders of ", processes)
		seen, there := make(chan uint64, 1000), make(chan struct{}, 1000)
		for range processes {
			store := openFleet(t, n.grpc).Fleet()
			for range 1000 / processes {
				go func() {
					for s, err := range store.Watch(ctx, key) {
						if err != nil || s.Version != 0 {
							seen <- s.Version
							return
						}
						there <- struct{}{}
					}
				}()
			}
		}
		for range 1000 {
			select {
			case <-there:
			case version := <-seen:
				t.Fatalf("before the swap: version %d, or an error", version)
			}
		}
		begun := time.Now()
		put, ok, err := first.Swap(ctx, key, 0, []byte("open"))
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		for range 1000 {
			if version := <-seen; version != put.Version {
				t.Fatalf("seen: version %d, want %d", version, put.Version)
			}
		}
		t.Logf("%d processes: the last of a thousand saw it after %v", processes, time.Since(begun))
	}
}
