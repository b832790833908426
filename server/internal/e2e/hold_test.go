package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

// operate asks the node's HTTP port to change something, and reads the answer.
func (r *run) operate(method, path, body string, answer any) {
	r.t.Helper()
	req, err := http.NewRequest(method, "http://"+r.http+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s %s: %s, %v", method, path, resp.Status, err)
	}
}

// barrier waits until every caller has let go of an instance for a hold, and returns the drain.
func (r *run) barrier(hold uint64) eider.Drain {
	r.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(2 * time.Millisecond) {
		var list struct{ Drains []eider.Drain }
		r.operate("GET", "/v1/drains", "", &list)
		for _, d := range list.Drains {
			if d.Hold == hold && d.Reached {
				return d
			}
		}
	}
	r.t.Fatalf("no barrier of hold %d within %v", hold, patience)
	return eider.Drain{}
}

// watched is an instance whose requests and connections are counted as they come.
type watched struct {
	arrived, conns atomic.Int64
}

func (w *watched) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.arrived.Add(1)
		h.ServeHTTP(rw, r)
	})
}

func (w *watched) connections(srv *http.Server, _ *drain.Config) {
	srv.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			w.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			w.conns.Add(-1)
		}
	}
}

// An instance is held and released, again and again, under POST load: nothing fails, nothing is worked on twice, no
// request comes after the barrier, no connection is left; and released, it is called again.
func TestR7AHeldInstanceIsLeftAloneUnderLoad(t *testing.T) {
	for _, row := range []struct {
		name    string
		base    *http.Transport
		options []option
	}{{"HTTP1", nil, nil}, {"h2c", h2cBase(), []option{h2c}}} {
		t.Run(row.name, func(t *testing.T) { holdAndRelease(t, row.base, row.options) })
	}
}

func holdAndRelease(t *testing.T, base *http.Transport, options []option) {
	n := startNode(t, node.Settings{})
	book, a := &ledgerOf{}, &watched{}
	startInstance(t, n.grpc, "orders", "a", a.handler(book.handler("a", 10*time.Millisecond)), append(options, a.connections)...)
	for _, id := range []string{"b", "c"} {
		startInstance(t, n.grpc, "orders", id, book.handler(id, 10*time.Millisecond), options...)
	}
	l := startLoad(t, n.grpc, "orders", 12, 10*time.Millisecond, base)
	for round := range 3 {
		l.more("a", 20)
		var h eider.Held
		n.operate("POST", "/v1/holds", fmt.Sprintf(`{"service": "orders", "id": "a", "reason": "round %d"}`, round), &h)
		d := n.barrier(h.Count)
		arrived := a.arrived.Load()
		if d.Total != len(l.callers) || d.Open != 0 || d.Status != eider.Up {
			t.Errorf("round %d: %+v", round, d)
		}
		for _, m := range d.Members {
			if m.State != eider.LetGo {
				t.Errorf("round %d: %s", round, m)
			}
		}
		l.more("b", 200)
		if late := a.arrived.Load() - arrived; late > 0 {
			t.Errorf("round %d: %d requests came after the barrier", round, late)
		}
		if open := a.conns.Load(); open != 0 {
			t.Errorf("round %d: %d connections are open", round, open)
		}
		t.Logf("round %d: let go of after %v", round, d.Barrier.Round(time.Microsecond))
		n.operate("DELETE", "/v1/holds/orders/a", "", &h.Key)
	}
	l.more("a", 20)
	l.end(book)
	t.Logf("%d requests", l.calls.Load())
}
