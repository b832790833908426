package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

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
