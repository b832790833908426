package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTablesFitTheTerminal: what doesn't fit is cut off the last column, and nothing else is.
func TestTablesFitTheTerminal(t *testing.T) {
	bubble(t, func(w *world) {
		defer w.serve()()
		w.scene()
		w.env["NO_COLOR"], w.tty = "1", true
		_, whole, _ := w.eider("drains")
		for width := 66; width <= 200; width++ {
			w.width = width
			_, out, _ := w.eider("drains")
			lines := strings.Split(out, "\n")
			for i, full := range strings.Split(whole, "\n") {
				start, isCut := strings.CutSuffix(lines[i], "…")
				if n := utf8.RuneCountInString(lines[i]); n > width || isCut != (utf8.RuneCountInString(full) > width) || isCut && n != width || !strings.HasPrefix(full, start) {
					t.Fatalf("on %d columns %q became %q", width, full, lines[i])
				}
			}
		}
		w.width = 10
		if _, out, _ := w.eider("drains", "orders"); !strings.Contains(out, "orders/3  LEFT      40s ago    8s          2        the cap of ") {
			t.Errorf("too narrow for all but the last column:\n%s", out)
		}
		_, narrow, _ := w.eider("events")
		if w.tty = false; !strings.Contains(narrow, "silent for 5s and") {
			t.Errorf("events are cut:\n%s", narrow)
		}
		if _, out, _ := w.eider("drains"); out != whole {
			t.Errorf("cut without a terminal:\n%s", out)
		}
	})
}

// TestVersionIsToldThreeWays: as a command and as a flag, long and short, in both formats.
func TestVersionIsToldThreeWays(t *testing.T) {
	bubble(t, func(w *world) {
		for _, format := range []string{"table", "json"} {
			_, want, _ := w.eider("version", "-o", format)
			for _, flag := range []string{"--version", "-v"} {
				if code, got, errs := w.eider(flag, "-o", format); code != exitOK || got != want || !strings.Contains(got, "v0") {
					t.Errorf("eider %s -o %s: exit %d, %q, %s; want %q", flag, format, code, got, errs, want)
				}
			}
		}
	})
}
