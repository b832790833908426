package e2e

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// TestU3AHungInstanceIsTriedAndComesBack: an instance beats on while its requests hang. It is suspect soon, gets no
// request but trials, which are answered by somebody else, and is back when one is answered there.
func TestU3AHungInstanceIsTriedAndComesBack(t *testing.T) {
	n := startNode(t, node.Settings{Beat: 100 * time.Millisecond, Lease: 5 * time.Second})
	var hangs atomic.Bool
	var there atomic.Int64
	answer := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "paid") }
	startInstance(t, n.grpc, "orders", "a", http.HandlerFunc(answer))
	startInstance(t, n.grpc, "orders", "b", http.HandlerFunc(answer))
	startInstance(t, n.grpc, "orders", "h", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there.Add(1)
		if hangs.Load() {
			<-r.Context().Done()
			return
		}
		answer(w, r)
	}))
	reg := registry.Open(registry.Config{Addr: n.grpc, Logger: quiet})
	defer reg.Close()
	tr := &eiderhttp.Transport{Registry: reg, Slow: 100 * time.Millisecond, HeaderTimeout: time.Second}
	defer tr.Close()
	hc := &http.Client{Transport: tr, Timeout: patience}
	get := func() {
		t.Helper()
		resp, err := hc.Get("http://orders/")
		if err != nil {
			t.Fatalf("a GET is sent again: %v", err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	suspected := awaitSuspicion(t, n.grpc, "orders")
	// until calls until something is so.
	until := func(what string, so func() bool) {
		t.Helper()
		for begun := time.Now(); !so(); get() {
			if time.Since(begun) > patience {
				t.Fatalf("never: %s", what)
			}
		}
	}
	until("it is called", func() bool { return there.Load() > 0 })
	hangs.Store(true)
	until("it is suspect", func() bool { return suspected(eider.Wedged) })
	before := there.Load()
	until("it is tried", func() bool { return there.Load() > before+1 })
	if !suspected(eider.Wedged) {
		t.Error("it is cured, though it answered nobody")
	}
	hangs.Store(false)
	healed := time.Now()
	until("it is back", func() bool { return !suspected(eider.Wedged) })
	t.Logf("back %s after it had stopped hanging, called %d times meanwhile", time.Since(healed).Round(time.Millisecond), there.Load()-before)
}

// awaitSuspicion follows a service, and tells whether anybody of it is suspect for a reason.
func awaitSuspicion(t *testing.T, grpc, service string) func(eider.Suspicion) bool {
	t.Helper()
	observer := registry.Open(registry.Config{Addr: grpc, Logger: quiet})
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	var last atomic.Pointer[eider.View]
	go func() {
		defer close(done)
		for v, err := range observer.Watch(ctx, service) {
			if err == nil {
				last.Store(v)
			}
		}
	}()
	t.Cleanup(func() {
		end()
		<-done
		observer.Close()
	})
	return func(s eider.Suspicion) bool {
		v := last.Load()
		if v == nil {
			return false
		}
		for i := range v.Instances {
			if v.Instances[i].Suspicion.Has(s) {
				return true
			}
		}
		return false
	}
}
