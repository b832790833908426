package e2e

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// mortal is an instance that can end as a killed process does: every socket closes at once, without a word.
type mortal struct {
	reg  *registry.Registry
	srv  *http.Server
	addr string

	mu    sync.Mutex
	conns []net.Conn // to the registry
	dead  bool
}

func startMortal(t *testing.T, grpc, service, id string, h http.Handler) *mortal {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{srv: &http.Server{Handler: h}, addr: l.Addr().String()}
	m.reg = registry.Open(registry.Config{Addr: grpc, Caller: service + "-" + id, Logger: quiet, Dial: m.dial})
	served := make(chan struct{})
	go func() {
		defer close(served)
		m.srv.Serve(l)
	}()
	t.Cleanup(func() {
		m.kill()
		<-served
		m.reg.Close()
	})
	m.register(t, service, id, m.addr)
	return m
}

// register lists it, and waits until it is listed.
func (m *mortal) register(t *testing.T, service, id, addr string) {
	t.Helper()
	listing, err := m.reg.Register(registry.Registration{Service: service, ID: id, Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for s := range listing.Watch(ctx) {
		if s.Listed {
			return
		}
	}
	t.Fatalf("%s isn't listed: %v", id, listing.State())
}

func (m *mortal) dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && m.dead {
		c.Close()
		err = errors.New("the process is dead")
	}
	if err != nil {
		return nil, err
	}
	m.conns = append(m.conns, c)
	return c, nil
}

func (m *mortal) kill() {
	m.cut()
	m.srv.Close()
}

// cut closes its sockets to the registry.
func (m *mortal) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, c := range m.conns {
		c.Close()
	}
}

// An instance dies under POST load. What was on its way to it may fail, and is never sent twice; no request does that
// begins after its caller's connections there have ended, and evidence has it DEAD, not the end of a lease.
func TestU1ACrashFailsNoNewRequest(t *testing.T) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	startInstance(t, n.grpc, "orders", "a", book.handler("a", 5*time.Millisecond))
	startInstance(t, n.grpc, "orders", "b", book.handler("b", 5*time.Millisecond))
	m := startMortal(t, n.grpc, "orders", "m", book.handler("m", 5*time.Millisecond))
	observer := registry.Open(registry.Config{Addr: n.grpc, Logger: quiet})
	defer observer.Close()
	heard := make([]*obituary, 12)
	l := startLoadOver(t, n.grpc, "orders", len(heard), 5*time.Millisecond, func(i int) *http.Transport {
		heard[i] = &obituary{of: m.addr}
		return &http.Transport{DialContext: heard[i].dial}
	})
	l.more("m", 30)
	m.kill()
	killed := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	published := time.Duration(0)
	for v := range observer.Watch(ctx, "orders") {
		if v == nil {
			continue
		}
		if _, there := v.Find("m"); !there {
			published = time.Since(killed)
			if !slices.ContainsFunc(v.Gone, func(g eider.Gone) bool { return g.ID == "m" && g.Status == eider.Dead }) {
				t.Errorf("gone, but not DEAD: %+v", v.Gone)
			}
			break
		}
	}
	l.more("a", 100)
	l.rest()
	var cut []failure
	for _, f := range l.failures {
		if end := heard[f.caller(t)].wait(t); f.began.After(end) {
			t.Errorf("%s began %v after its connections there had ended, and failed: %v", f.id, f.began.Sub(end), f.err)
		} else if eider.KindOf(f.err) != eider.Unavailable {
			t.Errorf("%s: %v", f.id, f.err)
		} else {
			cut = append(cut, f)
		}
	}
	l.failures = nil
	l.end(book)
	if !slices.ContainsFunc(heard, func(o *obituary) bool { return !o.wait(t).IsZero() }) {
		t.Error("nobody had a connection to it: the test shows nothing")
	}
	if len(cut) > len(l.callers) || published == 0 || published > 5*time.Second {
		t.Errorf("%d cut in flight, DEAD published after %v", len(cut), published)
	}
	t.Logf("%d cut in flight, DEAD published after %v", len(cut), published.Round(time.Millisecond))
}
