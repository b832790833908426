package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/eidergrpc"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// Every gRPC instance is restarted, one at a time and without surge, again and again, under unary calls and under
// streams: nothing fails, nothing is worked on twice, and each pause ends when the last caller has let go.
func TestRollingRestartsUnderGRPCLoseNothing(t *testing.T) {
	for name, streams := range map[string]bool{"unary": false, "streams": true} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, node.Settings{})
			book := &ledgerOf{}
			fleet := map[string]*instance{}
			start := func(id string) {
				fleet[id] = startTill(t, n.grpc, id, &till{name: id, takes: 5 * time.Millisecond, book: book})
			}
			ids := []string{"a", "b", "c"}
			for _, id := range ids {
				start(id)
			}
			l := startPayers(t, 8, func(i int) *payer {
				return newPayer(t, n.grpc, fmt.Sprint("payer", i), eidergrpc.Config{})
			}, streams)
			for round := range 2 {
				for _, id := range ids {
					report := fleet[id].finish()
					if report.EndedBy != drain.ByBarrier || report.Exit != drain.ExitClean || report.Waited != len(l.callers) || report.Open != 0 || report.Pause > 5*time.Second {
						t.Errorf("round %d, %s: %v", round, id, report)
					}
					t.Logf("%s: pause %v, took %v, %d calls served after the leave", id, report.Pause.Round(time.Millisecond), report.Took.Round(time.Millisecond), report.ServedAfterLeave)
					start(id)
					l.more(id, 20)
				}
			}
			l.end(book)
			t.Logf("%d calls, %d restarts", l.calls.Load(), 2*len(ids))
		})
	}
}

// An instance dies under gRPC load. What was on its way to it may fail; no call does that begins after its channel has
// heard of the end, and nothing is worked on twice.
func TestU1ACrashFailsNoNewGRPCCall(t *testing.T) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	startTill(t, n.grpc, "a", &till{name: "a", takes: 5 * time.Millisecond, book: book})
	startTill(t, n.grpc, "b", &till{name: "b", takes: 5 * time.Millisecond, book: book})
	addr, kill := startMortalTill(t, n.grpc, "m", &till{name: "m", takes: 5 * time.Millisecond, book: book})
	heard := make([]*obituary, 8)
	l := startPayers(t, len(heard), func(i int) *payer {
		heard[i] = &obituary{of: addr}
		return newPayer(t, n.grpc, fmt.Sprint("payer", i), eidergrpc.Config{}, grpc.WithStatsHandler(heard[i]))
	}, false)
	l.more("m", 30)
	kill()
	killed := time.Now()
	l.more("a", 100)
	l.rest()
	cut := make([]int, len(heard))
	for _, f := range l.failures {
		i := f.caller(t)
		if end := heard[i].wait(t); f.began.After(end) {
			t.Errorf("%s began %v after its channel had heard of the crash, and failed: %v", f.id, f.began.Sub(end), f.err)
		} else if status.Code(f.err) != codes.Unavailable {
			t.Errorf("%s: %v", f.id, f.err)
		}
		cut[i]++
	}
	l.failures = nil
	l.end(book)
	if slices.Max(cut) > 1 {
		t.Errorf("of one caller, which makes one call at a time, more than one was cut: %v", cut)
	}
	var last time.Duration
	for _, h := range heard {
		last = max(last, h.wait(t).Sub(killed))
	}
	t.Logf("cut in flight of each caller: %v; the last heard of it after %v", cut, last)
}

// startMortalTill starts an instance whose process can be killed: every socket of it closes at once, without a word.
func startMortalTill(t *testing.T, node, id string, l *till) (addr string, kill func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{}
	m.reg = registry.Open(registry.Config{Addr: node, Caller: "till-" + id, Logger: quiet, Dial: m.dial})
	srv := grpc.NewServer()
	srv.RegisterService(&tillDesc, l)
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.Serve(ln)
	}()
	kill = func() {
		m.cut()
		srv.Stop()
	}
	t.Cleanup(func() {
		kill()
		<-served
		m.reg.Close()
	})
	m.register(t, "till", id, ln.Addr().String())
	return ln.Addr().String(), kill
}

// A held instance is let go of by gRPC callers too: not one call comes after the barrier, and once it is released it is
// called again, on a connection of its own.
func TestR7AHeldGRPCInstanceIsLeftAlone(t *testing.T) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	for _, id := range []string{"a", "b"} {
		startTill(t, n.grpc, id, &till{name: id, takes: 5 * time.Millisecond, book: book})
	}
	l := startPayers(t, 4, func(i int) *payer {
		return newPayer(t, n.grpc, fmt.Sprint("payer", i), eidergrpc.Config{})
	}, false)
	for range 2 {
		l.more("a", 10)
		var h eider.Held
		n.operate("POST", "/v1/holds", `{"service": "till", "id": "a"}`, &h)
		if d := n.barrier(h.Count); d.Total != len(l.callers) || d.Open != 0 {
			t.Errorf("%+v", d)
		}
		l.more("b", 10) // whatever a has begun is answered by then
		l.mu.Lock()
		from := l.by["a"]
		l.mu.Unlock()
		l.more("b", 100)
		l.mu.Lock()
		late := l.by["a"] - from
		l.mu.Unlock()
		if late > int64(len(l.callers)) {
			t.Errorf("%d answers of a after the barrier", late)
		}
		n.operate("DELETE", "/v1/holds/till/a", "", &h.Key)
	}
	l.more("a", 10)
	l.end(book)
}

// Who calls by plain gRPC, over addresses that somebody gave it, is an unknown caller: it is waited for by the clock,
// named, and loses nothing, since GOAWAY comes only at the end of the pause.
func TestPlainGRPCCallersSurviveADrainAndAreNamed(t *testing.T) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	unknown := func(cfg *drain.Config) { cfg.Unknown = time.Second }
	a := startTill(t, n.grpc, "a", &till{name: "a", takes: 5 * time.Millisecond, book: book}, unknown)
	b := startTill(t, n.grpc, "b", &till{name: "b", takes: 5 * time.Millisecond, book: book}, unknown)
	l := startPayers(t, 4, func(int) *payer {
		r := manual.NewBuilderWithScheme("given")
		r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{
			{Addresses: []resolver.Address{{Addr: a.addr}}}, {Addresses: []resolver.Address{{Addr: b.addr}}}}})
		cc, err := grpc.NewClient("given:///till", grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return &payer{cc: cc}
	}, false)
	l.more("a", 50)
	report := a.finish()
	l.more("b", 50)
	l.end(book)
	if report.Pause < 900*time.Millisecond || report.Exit != drain.ExitClean || report.ServedBy[""] == 0 {
		t.Errorf("%v", report)
	}
	named := false
	for _, m := range report.Members {
		named = named || m.Kind == "unknown"
	}
	if !named {
		t.Errorf("the report names no unknown caller: %v", report)
	}
}

// Health checks make no unknown caller: whoever is only looked at leaves at once.
func TestHealthChecksOfGRPCAreNoCallers(t *testing.T) {
	n := startNode(t, node.Settings{})
	a := startTill(t, n.grpc, "a", &till{name: "a", book: &ledgerOf{}})
	cc, err := grpc.NewClient(a.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	checkHealth(t, cc)
	if report := a.finish(); report.Pause > time.Second || report.Waited != 0 {
		t.Errorf("%v", report)
	}
}

// Another till has taken the address over: calls for the one from before are answered by neither, and go elsewhere.
func TestR16AGRPCAddressChangesHandsUnheard(t *testing.T) {
	old, next := startNode(t, node.Settings{Cap: 100 * time.Millisecond}), startNode(t, node.Settings{})
	book := &ledgerOf{}
	one := startTill(t, old.grpc, "1", &till{name: "1", book: book})
	startTill(t, old.grpc, "2", &till{name: "2", book: book})
	c := newPayer(t, old.grpc, "payer", eidergrpc.Config{})
	ask := func(k int) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		who, err := c.pay(ctx, fmt.Sprint(k))
		if err != nil {
			t.Fatal(err)
		}
		return who
	}
	for k := 0; ask(k) != "1"; k++ {
	}
	old.stop()
	addr := one.addr
	one.leave()
	one.finish()
	startTill(t, next.grpc, "1", &till{name: "1 anew", book: book}, func(cfg *drain.Config) {
		cfg.Listener.Close()
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listener = l
	})
	for k := range 40 {
		if who := ask(1000 + k); who != "2" {
			t.Fatalf("a call for the one before was answered by %s", who)
		}
	}
}
