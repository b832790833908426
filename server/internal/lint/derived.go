package lint

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eiderhq/eider/window"
)

// windowOf is how long callers still call a pod of this workload that leaves, derived once: many rules ask.
func (l *workload) windowOf() window.Sum {
	if l.window == nil {
		l.window = l.deriveWindow()
	}
	return l.window
}

func (l *workload) deriveWindow() window.Sum {
	if n := l.annotation("eider.dev/window"); n.ok() {
		if d, ok := duration(n.text(), time.Second); ok {
			return window.Sum{window.Fixed("window", d, l.noted("eider.dev/window", n))}
		}
	}
	if l.world.options.Window > 0 {
		return window.Sum{window.Fixed("window", l.world.options.Window, "--window")}
	}
	return window.Longest(kubernetes(), l.eureka())
}

// kubernetes is the way of an endpoint out of every node's rules.
func kubernetes() window.Sum { return planned("kubernetes", nil) }

// planned is a preset's window for an instance that says that it leaves, without the terms that take no time.
func planned(name string, set map[string]string) (sum window.Sum) {
	preset, err := window.Lookup(name)
	if err != nil {
		return nil // TestPresets
	}
	forecast, err := preset.Derive(set, window.Fleet{})
	if err != nil {
		return nil // a setting that a program wouldn't take either
	}
	for _, t := range forecast.Planned.Terms {
		if t.Max > 0 {
			t.Source = "" // a default, which the preset's docs explain
			sum = append(sum, t)
		}
	}
	return sum
}

// leastPause is what lost nothing on a real node, and the least that eider window advises.
const leastPause = 5 * time.Second

// advised is the pause for a window: as eider window has it, as long as the worst case and a margin, in whole seconds.
func advised(w window.Sum) time.Duration {
	return max((w.Worst() + margin + time.Second - 1).Truncate(time.Second), leastPause)
}

// advised is the pause that satisfies every rule: long enough for the window, and for a load balancer with a list or a
// health check of its own, unless somebody has said what the window is.
func (l *workload) advised() time.Duration {
	if l.pauses == 0 { // asked for by many rules
		l.pauses = l.advise()
	}
	return l.pauses
}

func (l *workload) advise() time.Duration {
	length := advised(l.windowOf())
	if l.declared() {
		return length
	}
	if f := l.direct(); f != nil {
		length = max(length, f.list.Max)
	}
	for _, s := range l.anchored() {
		length = max(length, advised(localWindow(s)))
	}
	return length
}

// outlasting says what has a pause be longer than the window asks: a load balancer in front, "" if none does.
func (l *workload) outlasting() string {
	length, why := advised(l.windowOf()), ""
	if l.declared() {
		return ""
	}
	if f := l.direct(); f != nil && f.list.Max > length {
		length, why = f.list.Max, fmt.Sprintf(", and the load balancer of %s, which sends to pods by their addresses, for longer: %s", f.title(), f.list)
	}
	for _, s := range l.anchored() {
		if w := localWindow(s); advised(w) > length {
			length, why = advised(w), fmt.Sprintf(", and the load balancer of %s for %s", s.title(), tell(w))
		}
	}
	return why
}

// tell writes a sum with its parts: "27s = preStop sleep 5s + the program's shutdown deadline 20s (SHUTDOWN_TIMEOUT, line 20) + margin 2s".
func tell(sum window.Sum) string {
	told := make([]string, len(sum))
	for i, t := range sum {
		told[i] = tellTerm(t)
	}
	return seconds(sum.Worst()) + " = " + strings.Join(told, " + ")
}

// parts writes a sum's terms without where they come from: "5s pause + 20s deadline".
func parts(sum window.Sum) string {
	told := make([]string, len(sum))
	for i, t := range sum {
		told[i] = t.Name + " " + seconds(t.Max)
	}
	return strings.Join(told, " + ")
}

func tellTerm(t window.Term) string {
	text := t.Name + " " + seconds(t.Max)
	if t.Source != "" {
		text += " (" + t.Source + ")"
	}
	return text
}

// seconds writes a duration as manifests have it.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }
