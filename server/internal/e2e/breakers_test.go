package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/cli"
	"github.com/eiderhq/eider/server/internal/node"
)

// killable is the network of a process that can be killed: its connections end, and it makes no other.
type killable struct {
	mu    sync.Mutex
	conns []net.Conn
	dead  bool
}

func (m *killable) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && m.dead {
		conn.Close()
		return nil, net.ErrClosed
	}
	m.conns = append(m.conns, conn)
	return conn, err
}

func (m *killable) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, conn := range m.conns {
		conn.Close()
	}
}

// TestBreakersAreSeen: what a caller's breaker says reaches whoever asks, and is gone when the caller takes it back, or
// is.
func TestBreakersAreSeen(t *testing.T) {
	n := startNode(t, node.Settings{})
	serves := registry.Open(registry.Config{Addr: n.grpc, Logger: quiet})
	defer serves.Close()
	if _, err := serves.Register(registry.Registration{Service: "orders", ID: "a", Address: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	m := &killable{}
	reg := registry.Open(registry.Config{Addr: n.grpc, Caller: "checkout", Dial: m.dial, Logger: quiet})
	defer reg.Close()
	sub, err := reg.Follow("orders")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var in *eider.Instance
	for in == nil {
		u, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if u.View != nil {
			in, _ = u.View.Find("a")
		}
	}
	says := func(state eider.BreakerState) {
		sub.Verdicts(eider.Verdict{Key: in.Key, Incarnation: in.Incarnation, Breaker: eider.Breaker{State: state, Rule: eider.BreakerSlowRate, Count: 7, Of: 10,
			Since: time.Now().Add(-time.Hour), Retry: time.Now().Add(time.Hour)}})
	}
	shows := n.shows(t)
	shows("breakers orders", "Every breaker is closed, as far as 1 caller of orders tells.")
	says(eider.BreakerOpen)
	shows("breakers orders", "a open 1 of 1 7 of 10 calls were slow 1h0", "in 59m", reg.Caller())
	shows("events", "breaker open orders/a UP "+reg.Caller()+": 7 of 10 calls were slow")
	says(eider.BreakerClosed)
	shows("breakers orders", "Every breaker is closed")
	says(eider.BreakerHalfOpen)
	shows("breakers", "orders a half-open 1 of 1")
	m.kill()
	shows("breakers orders", "nobody tells of a breaker")
}

// TestATransportsBreakersAreSeen: from an answer of 503 in an instance to the words on a terminal, and back.
func TestATransportsBreakersAreSeen(t *testing.T) {
	n := startNode(t, node.Settings{})
	var ill atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if ill.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	serves := registry.Open(registry.Config{Addr: n.grpc, Logger: quiet})
	defer serves.Close()
	if _, err := serves.Register(registry.Registration{Service: "orders", ID: "a", Address: srv.Listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	reg := registry.Open(registry.Config{Addr: n.grpc, Caller: "checkout", Logger: quiet})
	defer reg.Close()
	transport := &eiderhttp.Transport{Registry: reg}
	defer transport.Close()
	hc := &http.Client{Transport: transport, Timeout: patience}
	calls := func(code int) (got bool) {
		resp, err := hc.Get("http://orders/")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == code
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for begun := time.Now(); !ok(); <-time.After(10 * time.Millisecond) {
			if time.Since(begun) > patience {
				t.Fatalf("never %s", what)
			}
		}
	}
	shows := n.shows(t)
	until("answered", func() bool { return calls(http.StatusOK) })
	shows("breakers orders", "Every breaker is closed, as far as 1 caller of orders tells.")
	ill.Store(true)
	for range 2 {
		until("answered by 503", func() bool { return calls(http.StatusServiceUnavailable) })
	}
	shows("breakers orders", "a open 1 of 1 2 calls in a row failed", reg.Caller())
	ill.Store(false)
	until("closed again", func() bool {
		calls(http.StatusOK)
		return strings.Contains(n.eider(t, "breakers", "orders"), "Every breaker is closed")
	})
}

// shows waits until a command says all of some words, whatever blanks are between them.
func (r *run) shows(t *testing.T) func(what string, parts ...string) {
	return func(what string, parts ...string) {
		t.Helper()
		text := ""
		for begun := time.Now(); time.Since(begun) < patience; <-time.After(10 * time.Millisecond) {
			text = strings.Join(strings.Fields(r.eider(t, strings.Fields(what)...)), " ")
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
				return
			}
		}
		t.Fatalf("eider %s never said %q:\n%s", what, parts, text)
	}
}

// eider runs a command against the node and returns what it prints.
func (r *run) eider(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	p := cli.Process{Args: append(args, "--http", "http://"+r.http), Getenv: func(string) string { return "" }, Out: &out, Err: &errs}
	if code := p.Run(t.Context()); code != 0 {
		t.Fatalf("eider %s: exit %d: %s", fmt.Sprint(args), code, errs.String())
	}
	return out.String()
}
