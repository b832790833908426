package lint

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/eiderhq/eider/window"
)

// grace is terminationGracePeriodSeconds, 30 s unless set, and the line where it stands or would.
func (l *workload) grace() (window.Term, int) {
	n := l.pod.get(graceKey)
	if seconds, ok := n.meant(); ok {
		if seconds < 0 {
			seconds = 1 // as Kubernetes has it
		}
		return window.Fixed("grace period", time.Duration(min(seconds, int(most.Seconds())))*time.Second, graceKey), n.line()
	}
	return window.Fixed("grace period", 30*time.Second, "Kubernetes' default"), l.podLine()
}

// podLine is where a pod's spec begins.
func (l *workload) podLine() int { return l.template.keyLine("spec") }

// margin is what the kubelet gets: it needs time of its own between a hook and a kill.
const margin = 2 * time.Second

// deadlines are settings of programs that say how long they finish requests in flight after SIGTERM.
var deadlines = []knob{
	{"spring.lifecycle.timeout-per-shutdown-phase", time.Millisecond},
	{"quarkus.shutdown.timeout", time.Second},
	{"kc.shutdown.timeout", time.Second},
	{"DOTNET_SHUTDOWNTIMEOUTSECONDS", time.Second},
	{"ASPNETCORE_SHUTDOWNTIMEOUTSECONDS", time.Second},
	{"graceful-timeout", time.Second},          // gunicorn
	{"timeout-graceful-shutdown", time.Second}, // uvicorn
	{"SHUTDOWN_TIMEOUT", time.Second},
	{"SHUTDOWN_TIMEOUT_SECONDS", time.Second},
	{"SHUTDOWN_TIMEOUT_MS", time.Millisecond},
	{"GRACEFUL_SHUTDOWN_TIMEOUT", time.Second},
	{"GRACEFUL_SHUTDOWN_TIMEOUT_SECONDS", time.Second},
	{"GRACEFUL_SHUTDOWN_TIMEOUT_MS", time.Millisecond},
	{"SHUTDOWN_GRACE_PERIOD", time.Second},
	{"SHUTDOWN_GRACE_PERIOD_SECONDS", time.Second},
	{"SHUTDOWN_DEADLINE", time.Second},
	{"SHUTDOWN_DEADLINE_SECONDS", time.Second},
	{"DRAIN_TIMEOUT", time.Second},
	{"DRAIN_TIMEOUT_SECONDS", time.Second},
}

// deadlineOf is how long the program finishes what it has in flight: as the manifest says, or else Spring's default,
// which holds without a word in it.
func (l *workload) deadlineOf(c *container) (window.Term, bool) {
	if c.immediate() {
		if n := l.annotation("eider.dev/shutdown-deadline"); !n.ok() || c != l.main {
			return window.Term{}, false
		}
	}
	return l.gracefully(c)
}

// immediate tells of a program that is told to finish nothing.
func (c *container) immediate() bool {
	return strings.EqualFold(c.settings.get("server.shutdown").value, "immediate")
}

// gracefully is the same of one that isn't, or isn't any more.
func (l *workload) gracefully(c *container) (window.Term, bool) {
	if d, ok := l.statedDeadline(c); ok {
		return d, true
	}
	if c == l.main && l.spring || c.immediate() {
		return window.Fixed("Spring's shutdown phase", springPhase, "its default since Spring Boot 3.4"), true
	}
	return window.Term{}, false
}

// springPhase is spring.lifecycle.timeout-per-shutdown-phase unless set.
const springPhase = 30 * time.Second

// statedDeadline is what the manifest says of it.
func (l *workload) statedDeadline(c *container) (window.Term, bool) {
	if n := l.annotation("eider.dev/shutdown-deadline"); n.ok() && c == l.main {
		if d, ok := duration(n.text(), time.Second); ok {
			return window.Fixed("the program's shutdown deadline", d, l.noted("eider.dev/shutdown-deadline", n)), true
		}
	}
	for _, k := range deadlines {
		s := c.settings.get(k.name)
		if d, ok := s.duration(k.unit); ok {
			return window.Fixed("the program's shutdown deadline", d, l.at(s)), true
		}
	}
	if s := c.settings[0].ending("gracetimeout"); s.ok() && !s.is("requestacceptgracetimeout") { // Traefik
		if d, ok := s.duration(time.Second); ok {
			return window.Fixed("the program's shutdown deadline", d, l.at(s)), true
		}
	}
	if s := c.settings.get("server.shutdown"); strings.EqualFold(s.value, "graceful") {
		return window.Fixed("Spring's shutdown phase", springPhase, "its default, as "+l.at(s)+" is graceful"), true
	}
	return window.Term{}, false
}

// at names a setting with its line, and its file if it is another, so that one finds it.
func (l *workload) at(s setting) string {
	switch {
	case s.line == 0:
		return s.name
	case s.file != l.file.name:
		return fmt.Sprintf("%s, %s:%d", s.name, s.file, s.line)
	}
	return fmt.Sprintf("%s, line %d", s.name, s.line)
}

// noted names an annotation of the workload.
func (l *workload) noted(name string, n node) string {
	return l.at(setting{name: name, file: l.file.name, line: n.line()})
}

// budget is what a container needs between the beginning of the pod's end and its kill.
func (l *workload) budget(c *container) window.Sum {
	var sum window.Sum
	if p := l.pauseOf(c); p.known && !p.fails(c) {
		sum = append(sum, window.Fixed(p.what, p.length, ""))
	}
	if lasts := l.pauseOf(c).lasts(); lasts > 0 {
		sum = append(sum, window.Fixed("its calls", lasts, ""))
	}
	// A program that drains with Eider says in one number what it needs, margin included.
	if s := c.settings.get("EIDER_GRACE", "EIDER_ADDR"); s.ok() {
		d, ok := c.settings.get("EIDER_GRACE").duration(time.Second)
		if !ok {
			return append(sum, window.Fixed("Eider's grace", 30*time.Second, "EIDER_GRACE's default"))
		}
		return append(sum, window.Fixed("Eider's grace", d, l.at(s)))
	}
	if d, ok := l.deadlineOf(c); ok {
		sum = append(sum, d)
	}
	if len(sum) == 0 {
		return nil
	}
	return append(sum, window.Fixed("margin", margin, ""))
}

// wholeSeconds rounds up, as the fields of Kubernetes are whole.
func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
