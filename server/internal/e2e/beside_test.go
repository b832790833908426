package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

// startBeside starts a server that knows nothing of Eider, which is drained from beside.
func startBeside(t *testing.T, grpc, service, id string, h http.Handler, ended <-chan error, options ...option) *instance {
	t.Helper()
	return startServing(t, grpc, service, id, func(cfg *drain.Config) {
		for _, o := range options {
			o(nil, cfg)
		}
	}, func(ctx context.Context, cfg drain.Config) (drain.Report, error) {
		l := cfg.Listener
		cfg.Listener, cfg.Address = nil, l.Addr().String()
		srv := &http.Server{Handler: h}
		served := make(chan struct{})
		go func() { defer close(served); srv.Serve(l) }()
		finish := func(ctx context.Context) { srv.Shutdown(ctx); srv.Close(); <-served }
		defer finish(ctx) // a crash closes its sockets as well
		return drain.Beside(ctx, cfg, drain.Program{Ended: ended, Finish: finish})
	})
}

// A program that knows nothing of Eider is restarted under POST load, and Eider's callers lose nothing.
func TestBesideLosesNothingOfEidersCallers(t *testing.T) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	known := func(_ *http.Server, cfg *drain.Config) { cfg.Unknown = -1 }
	fleet := map[string]*instance{}
	start := func(id string) {
		fleet[id] = startBeside(t, n.grpc, "orders", id, book.handler(id, 10*time.Millisecond), nil, known)
	}
	ids := []string{"a", "b"}
	for _, id := range ids {
		start(id)
	}
	l := startLoad(t, n.grpc, "orders", 8, 10*time.Millisecond, nil)
	for range 2 {
		for _, id := range ids {
			report := fleet[id].finish()
			if report.EndedBy != drain.ByBarrier || report.Exit != drain.ExitClean || report.Waited != len(l.callers) || report.Open != 0 || !report.Left {
				t.Errorf("%s: %v", id, report)
			}
			start(id)
			l.more(id, 20)
		}
	}
	l.end(book)
}

// The node knows that callers may be unknown, before the leave and while it waits for them.
func TestBesideHasUnknownCallers(t *testing.T) {
	n := startNode(t, node.Settings{})
	a := startBeside(t, n.grpc, "orders", "a", http.NotFoundHandler(), nil, func(_ *http.Server, cfg *drain.Config) { cfg.Unknown = 300 * time.Millisecond })
	n.tells(t, "orders", "unknown callers", func(e eider.Event) bool {
		return e.Kind == eider.EventCallerJoined && e.Caller == string(eider.UnknownCallers)
	})
	report := a.finish()
	if report.EndedBy != drain.ByBarrier || report.Pause < 300*time.Millisecond || report.Waited != 1 || len(report.Members) != 1 || report.Members[0].Kind != eider.UnknownCallers {
		t.Errorf("%+v", report)
	}
}

// A program crashes: its listing is left behind, and as the handle closes the node finds the port shut.
func TestBesideACrashIsDeadAtOnce(t *testing.T) {
	n := startNode(t, node.Settings{})
	ended := make(chan error, 1)
	a := startBeside(t, n.grpc, "orders", "a", http.NotFoundHandler(), ended)
	if nc, err := net.Dial("tcp", a.addr); err != nil {
		t.Fatal(err)
	} else {
		nc.Close()
	}
	crash := errors.New("exit status 3")
	ended <- crash
	a.await("exit", a.ended)
	if !errors.Is(a.err, crash) {
		t.Errorf("it returned %v", a.err)
	}
	a.err = nil // as it shall be
	for _, e := range n.tells(t, "orders", "death", func(e eider.Event) bool { return e.Kind == eider.EventDead }) {
		if e.Kind == eider.EventLeaving || e.Kind == eider.EventLeft || e.Kind == eider.EventLapsed {
			t.Errorf("a crash is found dead, it neither leaves nor lapses: %v", e)
		}
	}
}

// tells waits until the node tells something of a service, and returns all that it has told.
func (r *run) tells(t *testing.T, service, what string, is func(eider.Event) bool) []eider.Event {
	t.Helper()
	for began := time.Now(); ; {
		events := r.events(t, service)
		if slices.ContainsFunc(events, is) {
			t.Logf("%s told after %s", what, time.Since(began).Round(time.Millisecond))
			return events
		}
		if time.Since(began) > patience {
			t.Fatalf("the node tells of no %s: %v", what, events)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// events are what the node tells of a service.
func (r *run) events(t *testing.T, service string) []eider.Event {
	t.Helper()
	resp, err := http.Get("http://" + r.http + "/v1/events?service=" + service)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var page struct {
		Events []eider.Event `json:"events"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	return page.Events
}
