//go:build linux

package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// kept is a store that is watched.
type kept struct {
	*registry.Fleet
	ctx    context.Context
	sights chan eider.FleetSight
	ended  chan error
}

func (k kept) watch() {
	go func() {
		for s, err := range k.Watch(k.ctx, "orders") {
			if err != nil {
				k.ended <- err
				return
			}
			k.sights <- s
		}
	}()
}

// keep opens a store whose record of orders has the version that is returned, and watches it.
func keep(t *testing.T, s *server) (kept, uint64) {
	t.Helper()
	reg := registry.Open(registry.Config{Addr: s.grpc, Logger: quiet})
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(func() { cancel(); reg.Close() })
	k := kept{reg.Fleet(), ctx, make(chan eider.FleetSight, 1), make(chan error, 1)}
	put, ok, err := k.Swap(ctx, "orders", 0, []byte("open"))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	k.watch()
	if s := <-k.sights; s.Version != put.Version {
		t.Fatalf("seen: %+v", s)
	}
	return k, put.Version
}

// A node that is stopped holds nobody beyond his context, whoever watches is told, and it goes on with what it had.
func TestTheStoreOfFleetBreakersIsStopped(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{})
	k, version := keep(t, s)
	s.freeze()
	for _, wait := range []time.Duration{10 * time.Millisecond, 250 * time.Millisecond} {
		short, cancel := context.WithTimeout(k.ctx, wait)
		begun := time.Now()
		_, err := k.Tell(short, "orders", "a", []byte("1"), false)
		took := time.Since(begun)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || took > patience/6 {
			t.Errorf("a stopped node was told for %v, with %v: %v", took, wait, err)
		}
	}
	if err := <-k.ended; eider.KindOf(err) != eider.Unavailable {
		t.Errorf("the watch of a stopped node ended with %v", err)
	}
	s.thaw()
	k.watch()
	if s := <-k.sights; s.Version != version {
		t.Errorf("a node that goes on has %+v, it had version %d", s, version)
	}
}

// A node that is killed and started anew has forgotten what it kept, and the same handle goes on.
func TestTheStoreOfFleetBreakersIsKilled(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{})
	k, version := keep(t, s)
	s.kill()
	if err := <-k.ended; eider.KindOf(err) != eider.Unavailable {
		t.Errorf("the watch of a killed node ended with %v", err)
	}
	if _, err := k.Tell(k.ctx, "orders", "a", []byte("1"), false); eider.KindOf(err) != eider.Unavailable {
		t.Errorf("a killed node was told: %v", err)
	}
	s.again(func(*node.Settings) {})
	eventually(t, "a node that was started anew", func() bool {
		s, err := k.Tell(k.ctx, "orders", "a", []byte("1"), true)
		return err == nil && s.Version == 0 && len(s.Counts) == 1
	})
	if seen, ok, err := k.Swap(k.ctx, "orders", version, []byte("closed")); ok || err != nil || seen.Version != 0 {
		t.Errorf("what was seen of the one before fits what its successor has: %v, %v, %+v", ok, err, seen)
	}
	k.watch()
	if s := <-k.sights; s.Version != 0 {
		t.Errorf("a node that was started anew shows %+v", s)
	}
}
