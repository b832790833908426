package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

func h2c(srv *http.Server, _ *drain.Config) {
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetUnencryptedHTTP2(true)
}

func h2cBase() *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: p}
}

// Every instance is restarted, one at a time and without surge, again and again, under POST load: not one request
// fails, none is worked on twice, and each pause ends when the last caller has let go.
func TestS8RollingRestartsUnderPOSTLoseNothing(t *testing.T) {
	for _, row := range []struct {
		name    string
		base    *http.Transport
		options []option
	}{{"HTTP1", nil, nil}, {"h2c", h2cBase(), []option{h2c}}} {
		t.Run(row.name, func(t *testing.T) { rollout(t, row.base, row.options) })
	}
}

func rollout(t *testing.T, base *http.Transport, options []option) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	fleet := map[string]*instance{}
	start := func(id string) {
		fleet[id] = startInstance(t, n.grpc, "orders", id, book.handler(id, 10*time.Millisecond), options...)
	}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		start(id)
	}
	l := startLoad(t, n.grpc, "orders", 12, 10*time.Millisecond, base)
	for round := range 2 {
		for _, id := range ids {
			report := fleet[id].finish()
			if report.EndedBy != drain.ByBarrier || report.Exit != drain.ExitClean || report.Waited != len(l.callers) || report.Open != 0 {
				t.Errorf("round %d, %s: %v", round, id, report)
			}
			t.Logf("%s: pause %v, took %v, %d requests served after the leave", id, report.Pause.Round(time.Millisecond), report.Took.Round(time.Millisecond), report.ServedAfterLeave)
			start(id)
			l.more(id, 20)
		}
	}
	l.end(book)
	t.Logf("%d requests, %d restarts", l.calls.Load(), 2*len(ids))
}

// The registry is gone as an instance leaves: its callers learn it from the answers, turn away, and nothing fails,
// neither during the pause, which is then the bound, nor after it.
func TestS7LeavingIsLearntInBandWhileTheRegistryIsAway(t *testing.T) {
	n := startNode(t, node.Settings{Cap: time.Second})
	book := &ledgerOf{}
	a := startInstance(t, n.grpc, "orders", "a", book.handler("a", 5*time.Millisecond))
	startInstance(t, n.grpc, "orders", "b", book.handler("b", 5*time.Millisecond))
	l := startLoad(t, n.grpc, "orders", 8, 10*time.Millisecond, nil)
	l.more("a", 20)
	l.more("b", 20)
	n.stop()
	began := time.Now()
	a.leave()
	// Each caller that still picks a hears of it with the answer: within a few calls nobody does.
	l.more("b", 200)
	l.mu.Lock()
	last := l.last["a"]
	l.mu.Unlock()
	report := a.finish()
	l.more("b", 50)
	l.end(book)
	if report.EndedBy != drain.ByBound || report.Heard || report.Exit == drain.ExitInterrupted {
		t.Errorf("%v", report)
	}
	if report.ServedAfterLeave > 4*len(l.callers) {
		t.Errorf("%d requests came after the leave from %d callers that had been told", report.ServedAfterLeave, len(l.callers))
	}
	t.Logf("the last answer of a came %v after the leave, its pause was %v, %d requests served after the leave", last.Sub(began).Round(time.Millisecond), report.Pause, report.ServedAfterLeave)
}

// The last instance leaves: its callers have no alternative, say so, and go on calling it until its cap; nothing
// fails while it serves.
func TestDrainOfTheLastInstanceServesUntilItsCap(t *testing.T) {
	const longest = 5 * time.Second // a hundred answers fit into it on a machine that is busy with other things too
	n := startNode(t, node.Settings{Cap: longest})
	book := &ledgerOf{}
	a := startInstance(t, n.grpc, "orders", "a", book.handler("a", time.Millisecond))
	l := startLoad(t, n.grpc, "orders", 4, 5*time.Millisecond, nil)
	a.leave()
	l.more("a", 100)
	l.rest() // before the cap: after it nobody is left to call
	report := a.finish()
	l.end(book)
	if report.Pause < longest-100*time.Millisecond || report.Waited != 4 {
		t.Errorf("%v", report)
	}
	for _, m := range report.Members {
		if m.State != eider.Capped && m.State != eider.NoAlternative {
			t.Errorf("%v; want it to have had no alternative", m)
		}
	}
}

// An alternative that comes up during the pause ends it, and the callers that had none move there without a loss.
func TestDrainOfTheLastInstanceEndsWithAnAlternative(t *testing.T) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	a := startInstance(t, n.grpc, "orders", "a", book.handler("a", time.Millisecond))
	l := startLoad(t, n.grpc, "orders", 4, 5*time.Millisecond, nil)
	a.leave()
	l.more("a", 50)
	startInstance(t, n.grpc, "orders", "b", book.handler("b", time.Millisecond))
	report := a.finish()
	l.more("b", 50)
	l.end(book)
	if report.EndedBy != drain.ByBarrier || report.Open != 0 || report.Exit != drain.ExitClean {
		t.Errorf("%v", report)
	}
}

// Who subscribes after the leave owes a let-go like any other: the pause waits for it.
func TestACallerThatSubscribesAfterTheLeaveIsWaitedFor(t *testing.T) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	a := startInstance(t, n.grpc, "orders", "a", book.handler("a", time.Millisecond))
	l := startLoad(t, n.grpc, "orders", 2, 5*time.Millisecond, nil)
	a.leave()
	l.more("a", 50) // they have no alternative, so the drain goes on
	late := startLoad(t, n.grpc, "orders", 1, 5*time.Millisecond, nil)
	late.more("a", 10)
	startInstance(t, n.grpc, "orders", "b", book.handler("b", time.Millisecond))
	report := a.finish()
	for _, l := range []*load[*caller]{l, late} {
		l.more("b", 20)
	}
	l.end(&ledgerOf{})
	late.end(&ledgerOf{})
	if report.EndedBy != drain.ByBarrier || report.Waited != 3 || report.Open != 0 {
		t.Errorf("%v", report)
	}
	found := false
	for _, m := range report.Members {
		found = found || m.Caller == late.callers[0].reg.Caller() && m.State == eider.LetGo
	}
	if !found {
		t.Errorf("the late caller %s isn't among %v", late.callers[0].reg.Caller(), report.Members)
	}
}

// Two services swap a port behind the back of a caller that hears no news: no request is answered by the wrong one.
func TestR16TwoServicesSwapAPortUnheard(t *testing.T) {
	old, next := startNode(t, node.Settings{Cap: 100 * time.Millisecond}), startNode(t, node.Settings{})
	book := &ledgerOf{}
	orders := startInstance(t, old.grpc, "orders", "1", book.handler("orders/1", 0))
	stock := startInstance(t, old.grpc, "stock", "1", book.handler("stock/1", 0))
	startInstance(t, old.grpc, "orders", "2", book.handler("orders/2", 0))
	startInstance(t, old.grpc, "stock", "2", book.handler("stock/2", 0))
	c := newCaller(t, old.grpc, "caller", nil)
	ask := func(k int, service string) string {
		t.Helper()
		who, err := c.post(t.Context(), service, fmt.Sprint(service, k))
		if err != nil {
			t.Fatal(err)
		}
		return who
	}
	for _, service := range []string{"orders", "stock"} { // both are known
		for k := 0; ask(k, service) != service+"/1"; k++ {
		}
	}
	t.Cleanup(c.close)
	old.stop()
	orders.leave()
	stock.leave()
	orders.finish()
	stock.finish()
	startInstance(t, next.grpc, "stock", "1", book.handler("stock/1 anew", 0), at(t, orders.addr))
	startInstance(t, next.grpc, "orders", "1", book.handler("orders/1 anew", 0), at(t, stock.addr))
	for k := range 40 {
		for _, service := range []string{"orders", "stock"} {
			if who := ask(1000+k, service); who != service+"/2" {
				t.Fatalf("a request for %s was answered by %s", service, who)
			}
		}
	}
}
