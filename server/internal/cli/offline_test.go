package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// TestWindowOfAService is asked of the registry, with the errors of every question.
func TestWindowOfAService(t *testing.T) {
	bubble(t, func(w *world) {
		w.story("window-away.txt", "window --service orders")
		defer w.serve()()
		w.scene()
		w.reg.SetTiming(eider.Timing{Service: "orders", Beat: 2 * time.Second, Lease: 20 * time.Second, SuspectAfter: 4500 * time.Millisecond, Evidence: 300 * time.Millisecond,
			Reattach: time.Second, Batch: 5 * time.Millisecond, Cap: 8 * time.Second, Bound: 8 * time.Second})
		w.story("window-service.txt", "window --service ORDERS", "window --service ordes", "window --service orders --preset eureka")
		if _, out, _ := w.eider("__complete", "window", "--service", "o"); !strings.HasPrefix(out, "orders\n") {
			t.Errorf("--service isn't completed: %s", out)
		}
		code, out, errs := w.eider("window", "--service", "orders", "--json")
		var answer struct {
			Service  string
			Planned  struct{ Terms []struct{ Name string } }
			Measured struct{ Drains int }
		}
		if err := json.Unmarshal([]byte(out), &answer); code != exitOK || err != nil || answer.Service != "orders" || len(answer.Planned.Terms) == 0 || answer.Measured.Drains == 0 {
			t.Errorf("%d, %v, %+v: %s", code, err, answer, errs)
		}
	})
}

// TestWindowNeedsNoRegistry: there is none in this world; what is asked wrongly ends with 2, and JSON comes by either flag.
func TestWindowNeedsNoRegistry(t *testing.T) {
	bubble(t, func(w *world) {
		if code, out, errs := w.eider("window"); code != exitOK || !strings.Contains(out, "eureka-textbook") || errs != "" {
			t.Errorf("%d: %s%s", code, out, errs)
		}
		for _, args := range [][]string{{"window", "--preset", "eureka", "--json"}, {"window", "-o", "json", "--preset", "eureka"}} {
			code, out, errs := w.eider(args...)
			var answer struct {
				Crash struct {
					Worst float64 `json:"worst_s"`
				}
			}
			if err := json.Unmarshal([]byte(out), &answer); code != exitOK || err != nil || answer.Crash.Worst != 335 {
				t.Errorf("eider %v: %d, %v, %+v: %s", args, code, err, answer, errs)
			}
		}
		w.story("window.txt", "window --preset eurka --callers none --lost 0", "window eureka", "window --presett eureka", "window --preset eureka --svg /no/such/folder/x.svg",
			"window --rps 500 --latency 50ms --pool 200")
		for word, args := range map[string][]string{"eureka-netflix\t": {"--preset", ""}, "client-cache=\t": {"--preset", "eureka", "--set", ""}, "lease=\t": {"--preset", "eureka", "--what-if", ""}} {
			if _, out, _ := w.eider(append([]string{"__complete", "window"}, args...)...); !strings.Contains("\n"+out, "\n"+word) {
				t.Errorf("%v isn't completed by %q: %s", args, word, out)
			}
		}
		w.tty, w.width = true, 100
		if _, out, _ := w.eider("window", "--preset", "etcd"); !strings.Contains(out, "\x1b[") {
			t.Errorf("no colours on a terminal: %q", out)
		}
		w.env["NO_COLOR"] = "1"
		if _, out, _ := w.eider("window", "--preset", "etcd"); strings.Contains(out, "\x1b[") {
			t.Errorf("NO_COLOR is set, and there are colours: %q", out)
		}
	})
}
