package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// sharer is a process that shares the breaker of the service orders with others.
type sharer struct {
	t      *testing.T
	hc     *http.Client
	with   atomic.Bool // it goes by the fleet's breaker
	state  atomic.Uint32
	turned atomic.Int64 // requests turned away
}

func newSharer(t *testing.T, grpc string, i int) *sharer {
	s := &sharer{t: t}
	set := &fleet.Config{Report: 100 * time.Millisecond, Poll: 200 * time.Millisecond, Retry: 100 * time.Millisecond, Wait: patience / 4,
		OpenFor: 300 * time.Millisecond, MaxOpen: 300 * time.Millisecond, Lease: time.Minute, Ramp: 100 * time.Millisecond,
		OnEvent: func(ev fleet.Event) {
			s.state.Store(uint32(ev.To))
			s.with.Store(ev.Parted == nil)
		}}
	reg := registry.Open(registry.Config{Addr: grpc, Caller: fmt.Sprint("checkout-", i), Logger: quiet})
	transport := &eiderhttp.Transport{Registry: reg, Fleet: set}
	t.Cleanup(func() {
		transport.Close()
		reg.Close()
	})
	s.hc = &http.Client{Transport: transport, Timeout: patience}
	return s
}

// asks sends a request, and returns the status of its answer; 0 if it was turned away.
func (s *sharer) asks() int {
	resp, err := s.hc.Get("http://orders/")
	switch {
	case err == nil:
		resp.Body.Close()
		return resp.StatusCode
	case errors.Is(err, breaker.ErrRejected):
		s.turned.Add(1)
		<-time.After(time.Millisecond)
	default:
		s.t.Errorf("got %v", err)
	}
	return 0
}

func (s *sharer) is(want breaker.State) bool {
	return s.with.Load() && breaker.State(s.state.Load()) == want
}

// each has all of them do something until it is done for all.
func each(t *testing.T, what string, all []*sharer, done func(*sharer) bool) {
	t.Helper()
	var missing atomic.Int64
	var running sync.WaitGroup
	for _, s := range all {
		running.Go(func() {
			for begun := time.Now(); !done(s); {
				if time.Since(begun) > patience {
					missing.Add(1)
					return
				}
			}
		})
	}
	running.Wait()
	if n := missing.Load(); n > 0 {
		t.Errorf("%d of %d never %s", n, len(all), what)
	}
}

// TestAFleetsBreakerOverTheRegistry: three processes open together, one request of one of them tries, all are let in again; and when
// the registry is gone nobody is turned away because of it.
func TestAFleetsBreakerOverTheRegistry(t *testing.T) {
	n := startNode(t, node.Settings{})
	var ill, held atomic.Bool
	var came atomic.Int64
	answers := make(chan struct{})
	startInstance(t, n.grpc, "orders", "1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came.Add(1)
		switch {
		case held.Load():
			select {
			case <-answers:
			case <-time.After(patience):
			}
		case ill.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	var all []*sharer
	for i := range 3 {
		all = append(all, newSharer(t, n.grpc, i))
	}
	each(t, "joined", all, func(s *sharer) bool { return s.asks() == 200 && s.is(breaker.Closed) })

	ill.Store(true)
	each(t, "opened", all, func(s *sharer) bool { s.asks(); return s.with.Load() && !s.is(breaker.Closed) })
	held.Store(true)
	came.Store(0)
	trying := make(chan struct{})
	go func() {
		defer close(trying)
		each(t, "let in again", all, func(s *sharer) bool { return s.asks() == 200 })
	}()
	oneTries(t, all, &came)
	ill.Store(false)
	held.Store(false)
	close(answers)
	<-trying
	each(t, "closed", all, func(s *sharer) bool { s.asks(); return s.is(breaker.Closed) })

	for _, s := range all {
		s.turned.Store(0)
	}
	n.stop()
	each(t, "parted", all, func(s *sharer) bool { return s.asks() == 200 && !s.with.Load() })
	startNode(t, node.Settings{GRPC: n.grpc})
	each(t, "joined again", all, func(s *sharer) bool { return s.asks() == 200 && s.is(breaker.Closed) })
	for _, s := range all {
		if n := s.turned.Load(); n != 0 {
			t.Errorf("%d requests were turned away because of the registry", n)
		}
	}
}

// oneTries waits for the one request that tries, and until everybody else has been turned away often enough to have made another.
func oneTries(t *testing.T, all []*sharer, came *atomic.Int64) {
	t.Helper()
	for begun := time.Now(); came.Load() == 0; <-time.After(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("nobody tries")
		}
	}
	var before []int64
	for _, s := range all {
		before = append(before, s.turned.Load())
	}
	turned := 0
	for begun := time.Now(); turned < 2; <-time.After(time.Millisecond) { // the third one's only caller is the trial
		if turned = 0; time.Since(begun) > patience {
			t.Fatal("nobody is turned away")
		}
		for i, s := range all {
			if s.turned.Load() >= before[i]+20 {
				turned++
			}
		}
	}
	if n := came.Load(); n != 1 {
		t.Errorf("%d requests have tried at once", n)
	}
}
