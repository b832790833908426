package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/server/internal/cli"
	"github.com/eiderhq/eider/server/internal/node"
	"github.com/eiderhq/eider/server/internal/outlook"
)

// What a drain took under load stands beside its bound in what `eider window --service` answers.
func TestTheWindowOfAServiceHasWhatItsDrainTook(t *testing.T) {
	n := startNode(t, node.Settings{})
	book := &ledgerOf{}
	a := startInstance(t, n.grpc, "orders", "a", book.handler("a", time.Millisecond))
	startInstance(t, n.grpc, "orders", "b", book.handler("b", time.Millisecond))
	l := startLoad(t, n.grpc, "orders", 4, 10*time.Millisecond, nil)
	l.more("a", 20)
	report := a.finish()
	window := func(args ...string) string {
		var out, errs strings.Builder
		p := cli.Process{Args: append([]string{"window", "--service", "orders", "--http", "http://" + n.http}, args...), Getenv: func(string) string { return "" }, Out: &out, Err: &errs}
		if code := p.Run(t.Context()); code != 0 {
			t.Fatalf("eider window --service orders: exit %d: %s", code, errs.String())
		}
		return out.String()
	}
	var live outlook.Live
	if err := json.Unmarshal([]byte(window("--json")), &live); err != nil {
		t.Fatal(err)
	}
	text := window()
	l.end(book)
	m := live.Measured
	if m.Drains != 1 || len(m.Pauses) != 1 || m.Pauses[0].ID != "a" || m.Pauses[0].Took <= 0 || m.Pauses[0].Took != m.Max || m.Pauses[0].Bound != live.Bound {
		t.Fatalf("a drain of %s (%v): measured %+v, bound %s", report.Pause, report, m, time.Duration(live.Bound))
	}
	if live.Fleet.Callers == 0 || live.Bound <= 0 || live.Recommend.Pause != live.Bound || live.Recommend.Sleep != 0 {
		t.Errorf("%d callers, bound %s, recommended: %+v", live.Fleet.Callers, time.Duration(live.Bound), live.Recommend)
	}
	for _, part := range []string{"Measured in 1 departure", "LAST DEPARTURES  TOOK", "BOUND  ENDED BY\n  a ", "Set: no sleep (the pause may last 8s, and its end is told), and a grace period of 30s"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(part), " ")) {
			t.Errorf("it doesn't say %q:\n%s", part, text)
		}
	}
	t.Logf("a drain took %s of %s", time.Duration(m.Max), time.Duration(live.Bound))
}
