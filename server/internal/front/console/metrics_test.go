package console

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/front/console/stage"
)

// scrape returns the page of metrics, but for those of Go and the process.
func scrape(h http.Handler) string {
	var own []string
	for line := range strings.Lines(ask(h, "/metrics").Body.String()) {
		if !regexp.MustCompile(`^(# (HELP|TYPE) )?(go|process|promhttp)_`).MatchString(line) {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extra := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "eider_native_streams", Help: "Streams."}, func() float64 { return 7 })
		h := New(scene(), Config{Version: "v0", Collectors: []prometheus.Collector{extra}, Logger: quiet()})
		ask(h, "/v1/services")
		ask(h, "/v1/services/nobody")
		ask(h, "/somewhere/else")
		text := scrape(h)
		golden(t, "metrics.txt", []byte(regexp.MustCompile(`goversion="[^"]*"`).ReplaceAllString(text, `goversion="go"`)))
		problems, err := promlint.New(bytes.NewBufferString(text)).Lint()
		for _, problem := range problems {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// TestServicesAreFolded: strangers name services, so labels are bounded; who has one keeps it, and the sums
// are those of all.
func TestServicesAreFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := stage.New(eider.Node{})
		add := func(name string) {
			reg.SetView(&eider.View{Service: name, Cursor: eider.Cursor{Number: 2}, Instances: []eider.Instance{instance(name, "1", eider.Up, 0)}})
			reg.SetTiming(eider.Timing{Service: name, Bound: 8 * time.Second})
		}
		for i := range 300 {
			add(fmt.Sprintf("s%03d", i))
		}
		h := New(reg, Config{Logger: quiet()})
		check := func(labels, other int) {
			t.Helper()
			text := scrape(h)
			up := regexp.MustCompile(`(?m)^eider_instances\{service="([^"]*)",state="up"\} (\d+)$`).FindAllStringSubmatch(text, -1)
			if len(up) != labels || !strings.Contains(text, fmt.Sprintf("eider_instances{service=%q,state=\"up\"} %d\n", otherLabel, other)) ||
				!strings.Contains(text, fmt.Sprintf("eider_view_changes_total{service=%q} %d\n", otherLabel, 2*other)) {
				t.Errorf("%d labels; want %d, and %d instances in %s", len(up), labels, other, otherLabel)
			}
			if line := fmt.Sprintf("eider_window_seconds{path=\"planned\",service=%q} 8\n", otherLabel); !strings.Contains(text, line) {
				t.Errorf("lacks %s: the longest of them, for a sum of windows means nothing", line)
			}
			if !strings.Contains(text, `service="s199",state="up"`) {
				t.Error("s199 has lost its label")
			}
		}
		check(maxLabelled+1, 100)
		add("a-new-one-that-sorts-first")
		check(maxLabelled+1, 101)
		if eider.CheckService(otherLabel) == nil {
			t.Errorf("a service may be called %s", otherLabel)
		}
	})
}

// TestEventsAreCounted once each, however often and however late one scrapes; another node run begins anew.
func TestEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := stage.New(eider.Node{Run: 1})
		h := New(reg, Config{Logger: quiet()})
		tell := func(n int, kind eider.EventKind) {
			for range n {
				reg.Tell(eider.Event{Kind: kind})
			}
		}
		want := func(lines ...string) {
			t.Helper()
			got := regexp.MustCompile(`(?m)^eider_events_total.* [1-9].*$`).FindAllString(scrape(h), -1)
			slices.Sort(got)
			if !slices.Equal(got, lines) {
				t.Errorf("%q, want %q", got, lines)
			}
		}
		want()
		tell(3, eider.EventStatus)
		want(`eider_events_total{kind="status"} 3`)
		want(`eider_events_total{kind="status"} 3`)
		reg.Keep(2)
		tell(5, eider.EventStreamEnded)
		want(`eider_events_total{kind="status"} 3`, `eider_events_total{kind="stream ended"} 2`, `eider_events_total{kind="unread"} 3`)
		reg.SetNode(eider.Node{Run: 2})
		want(`eider_events_total{kind="stream ended"} 2`, `eider_events_total{kind="unread"} 6`)
	})
}

// TestPausesAreObserved once each, by what ended them.
func TestPausesAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := scene() // one pause of 12ms has ended
		h := New(reg, Config{Logger: quiet()})
		want := func(letGo, capped int) {
			t.Helper()
			text := scrape(h)
			for how, n := range map[string]int{endedByLetGo: letGo, endedByCap: capped} {
				if line := fmt.Sprintf("eider_drain_pause_seconds_count{ended=%q} %d\n", how, n); !strings.Contains(text, line) {
					t.Errorf("lacks %s", line)
				}
			}
		}
		want(1, 0)
		want(1, 0)
		dep := eider.Departure{Key: eider.Key{Service: "orders", ID: "5"}, Incarnation: nonce(5)}
		reg.SetDrains(eider.Drain{Departure: dep, Reached: true, Barrier: 8 * time.Second, Status: eider.Left, Total: 1,
			Members: []eider.Member{{Caller: "web", State: eider.Capped, Settled: 8 * time.Second}}})
		reg.Tell(eider.Event{Kind: eider.EventBarrier, Service: "orders", ID: "5", Incarnation: nonce(5)})
		reg.Tell(eider.Event{Kind: eider.EventBarrier, Service: "orders", ID: "forgotten", Incarnation: nonce(6)})
		want(1, 1)
		if text := scrape(h); !strings.Contains(text, `eider_drain_pause_seconds_sum{ended="capped"} 8`+"\n") {
			t.Error("the capped pause isn't 8s")
		}
	})
}

// TestExceededWindowsAreCounted: one that a cap ends isn't, one that its node ends seconds late is.
func TestExceededWindowsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for barrier, want := range map[time.Duration]string{8010 * time.Millisecond: "0", 9 * time.Second: "0", 9700 * time.Millisecond: "1"} {
			reg := stage.New(eider.Node{Run: 1})
			dep := eider.Departure{Key: eider.Key{Service: "orders", ID: "5"}, Incarnation: nonce(5)}
			reg.SetDrains(eider.Drain{Departure: dep, Reached: true, Bound: 8 * time.Second, Barrier: barrier, Status: eider.Left})
			reg.Tell(eider.Event{Kind: eider.EventBarrier, Service: "orders", ID: "5", Incarnation: nonce(5)})
			h := New(reg, Config{Logger: quiet()})
			for range 2 {
				if text := scrape(h); !strings.Contains(text, "eider_windows_exceeded_total "+want+"\n") {
					t.Errorf("a pause of %s under a bound of 8s: the counter isn't %s", barrier, want)
				}
			}
		}
	})
}

// FuzzRequests: whatever is asked for, the answer is JSON (or metrics, or 304), within bounds, and no 500.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][2]string{{"/v1/services", "limit=1&after=a"}, {"/v1/services/orders", "after=%00"}, {"/v1/events", "after=abc-1"}, {"/v1/events", "last=3&service=orders"},
		{"/v1/sd", "port=metrics"}, {"/v1/callers", "after=orders/x"}, {"/v1/breakers", "service=orders&after=%2f"}, {"/v1/drains", "service=%2e"}, {"/", "?"}, {"//", ""}, {"/v1/services/a/b", ""}, {"", ""}, {"no-slash", "0"}, {"/v1/services/\xff", "\xff"}} {
		f.Add(seed[0], seed[1])
	}
	h := New(scene(), Config{Logger: quiet()})
	f.Fuzz(func(t *testing.T, path, query string) {
		w := ask(h, strings.ReplaceAll(path, "?", "")+"?"+query)
		switch {
		case w.Code >= 500, w.Body.Len() > 1<<20:
			t.Errorf("GET %q ? %q: status %d, %d bytes", path, query, w.Code, w.Body.Len())
		case path == "/metrics" || w.Code == 304:
		case w.Header().Get("Content-Type") != "application/json":
			t.Errorf("GET %q ? %q: status %d, type %q", path, query, w.Code, w.Header().Get("Content-Type"))
		}
	})
}
