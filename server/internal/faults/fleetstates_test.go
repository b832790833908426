//go:build linux

package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// shared is one key, with callers that share a breaker by it, each with a connection of its own.
type shared struct {
	state   breaker.State
	store   *registry.Fleet
	callers []*fleet.Breaker
}

func good(context.Context) error { return nil }

// share brings callers to a state: it is written as another caller would write it.
func share(t *testing.T, s *server, state breaker.State) *shared {
	t.Helper()
	sh := &shared{state: state}
	key := "orders, " + state.String()
	for i := range 3 {
		reg := registry.Open(registry.Config{Addr: s.grpc, Caller: fmt.Sprint("checkout", i), Logger: quiet})
		sh.store = reg.Fleet()
		b, err := fleet.New(fleet.Config{Store: sh.store, Key: key, Poll: time.Second, Local: breaker.Config{Consecutive: 5}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(); reg.Close() })
		sh.callers = append(sh.callers, b)
		if err := b.Do(t.Context(), good); err != nil {
			t.Fatal(err)
		}
	}
	sh.await(t, "together", func(s fleet.Snapshot) bool { return !s.Alone })
	seen, err := sh.store.Tell(t.Context(), key, "another", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := fleet.Read(seen)
	if err != nil {
		t.Fatal(err)
	}
	r.Epoch, r.Generation, r.State, r.For = max(r.Epoch, 1), r.Generation+1, state, 10*time.Minute
	switch state {
	case breaker.Closed:
		r.For = 0
	case breaker.HalfOpen:
		r.Holder, r.Token = "another", 7
	}
	if _, ok, err := sh.store.Swap(t.Context(), key, seen.Version, r.Bytes()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	sh.await(t, state.String(), func(s fleet.Snapshot) bool { return s.State == state && s.Generation == r.Generation })
	return sh
}

func (sh *shared) await(t *testing.T, what string, ok func(fleet.Snapshot) bool) {
	t.Helper()
	for i, b := range sh.callers {
		eventually(t, fmt.Sprintf("caller %d of the key that was %s: %s", i, sh.state, what), func() bool { return ok(b.Snapshot()) })
	}
}

// The node that keeps shared breakers is killed and started anew, or stopped and goes on, in each of their states: every
// caller is on its own breaker, no call is rejected for it, and all of them are together again.
func TestStoreFaultsRejectNobody(t *testing.T) {
	for name, row := range map[string]struct {
		ill  func(*server)
		well func(*server)
	}{
		"killed":  {func(s *server) { s.kill() }, func(s *server) { s.again(func(*node.Settings) {}) }},
		"stopped": {func(s *server) { s.freeze() }, func(s *server) { s.thaw() }},
	} {
		t.Run(name, func(t *testing.T) {
			s := startNode(t, node.Settings{})
			var all []*shared
			for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.Ramping} {
				all = append(all, share(t, s, state))
			}
			ctx, stop := context.WithCancel(t.Context())
			var calls, rejected atomic.Int64
			var load sync.WaitGroup
			for _, b := range all[0].callers { // a breaker that is closed lets every call through, before, while and after
				load.Go(func() {
					for ; ctx.Err() == nil; lapse(time.Millisecond) {
						calls.Add(1)
						if b.Do(t.Context(), good) != nil {
							rejected.Add(1)
						}
					}
				})
			}
			row.ill(s)
			for _, sh := range all {
				sh.await(t, "on its own", func(s fleet.Snapshot) bool { return s.Alone && s.Why != nil })
				for _, b := range sh.callers {
					for range 100 {
						calls.Add(1)
						if err := b.Do(t.Context(), good); err != nil {
							rejected.Add(1)
							t.Logf("it was %s: %v", sh.state, err)
						}
					}
				}
			}
			row.well(s)
			for _, sh := range all {
				sh.await(t, "together again", func(s fleet.Snapshot) bool { return !s.Alone })
			}
			stop()
			load.Wait()
			if n := rejected.Load(); n != 0 {
				t.Errorf("%d of %d calls were rejected because of the store", n, calls.Load())
			}
			t.Logf("%d calls, %d rejected because of the store", calls.Load(), rejected.Load())
		})
	}
}
