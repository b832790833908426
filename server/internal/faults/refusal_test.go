//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// walled is a node behind a firewall that can be put up: it then refuses what the node dials.
type walled struct {
	grpc, http string
	up         atomic.Bool

	mu      sync.Mutex
	reached map[string]bool // addresses that accepted
}

func (w *walled) dial(ctx context.Context, address string) error {
	if w.up.Load() {
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		err = c.Close()
		w.mu.Lock()
		w.reached[address] = true
		w.mu.Unlock()
	}
	return err
}

func startWalled(t *testing.T) *walled {
	t.Helper()
	w := &walled{reached: map[string]bool{}}
	n, err := node.New(node.Config{Settings: node.Settings{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Fresh: true}, Logger: quiet, Dial: w.dial})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.grpc, w.http = n.Addrs().GRPC.String(), n.Addrs().HTTP.String()
	return w
}

// guest is an instance that can be cut off from the registry, and go on serving its callers.
type guest struct {
	id    string
	srv   *http.Server
	reg   *registry.Registry
	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

func (g *guest) dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && g.off {
		c.Close()
		err = errors.New("cut off")
	}
	if err == nil {
		g.conns = append(g.conns, c)
	}
	return c, err
}

func (g *guest) cutOff() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.off = true
	for _, c := range g.conns {
		c.Close()
	}
}

func startGuest(t *testing.T, grpc, id string) *guest {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{id: id, srv: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "orders/"+id) })}}
	g.reg = registry.Open(registry.Config{Addr: grpc, Caller: "guest-" + id, Logger: quiet, Dial: g.dial})
	served := make(chan struct{})
	go func() { defer close(served); g.srv.Serve(ln) }()
	t.Cleanup(func() {
		g.reg.Close()
		g.srv.Close()
		<-served
	})
	if _, err := g.reg.Register(registry.Registration{Service: "orders", ID: id, Address: ln.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	return g
}

// The node loses its way to twelve instances at once: their streams end and its dials are refused, while they
// serve their callers as before. It takes two for dead, as many as might well have died, and doubts itself for the
// rest: they stay, and are called. One of them that really dies is given up once a caller sees the same.
func TestMassRefusalsEndNobodyUntilACallerSeesTheSame(t *testing.T) {
	t.Parallel()
	const many = 12
	w := startWalled(t)
	s := &server{process: &process{t: t}, grpc: w.grpc, http: w.http}
	var guests []*guest
	for i := range many {
		guests = append(guests, startGuest(t, w.grpc, fmt.Sprintf("i%02d", i)))
	}
	eventually(t, "all listed", func() bool { return len(s.view("orders").Instances) == many })
	eventually(t, "check that all can be reached", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.reached) == many })
	ld := startLoad(t, w.grpc, "orders", 4)
	w.up.Store(true)
	for _, g := range guests {
		g.cutOff()
	}
	eventually(t, "mass refusal", func() bool { return len(s.events(eider.EventMassRefusal)) == 1 })
	listed := func() (ids []string) {
		v := s.view("orders")
		for i := range v.Instances {
			ids = append(ids, v.Instances[i].ID)
		}
		return ids
	}
	lapse(2 * time.Second) // well beyond the last dial and the time to attach again
	stay := listed()
	if len(stay) != many-2 || len(s.events(eider.EventDead)) != 2 {
		t.Fatalf("%d of %d stay: %v", len(stay), many, s.events(eider.EventDead))
	}
	before := ld.sum()
	ld.each(100)
	after := ld.sum()
	after.flawless(t, "orders")
	for _, id := range stay {
		if after.By[id] == before.By[id] {
			t.Errorf("%s, which stays and serves, isn't called any more", id)
		}
	}
	ld.rest() // else one of them could be cut off as that one dies
	// A caller without a recent success there sees a refusal: one that is new.
	i := slices.IndexFunc(guests, func(g *guest) bool { return g.id == stay[0] })
	guests[i].srv.Close()
	fresh := startLoad(t, w.grpc, "orders", 2)
	gone := s.happened(eider.EventDead, "orders", stay[0])
	if !strings.Contains(gone.Detail, "callers see the same") {
		t.Errorf("it is given up because %s", gone.Detail)
	}
	fresh.each(20)
	fresh.rest()
	fresh.sum().flawless(t, "the new ones")
	if now := listed(); len(now) != many-3 || slices.Contains(now, stay[0]) {
		t.Errorf("%v stay; of %v one died", now, stay)
	}
}
