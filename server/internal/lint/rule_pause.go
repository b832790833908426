package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider/window"
)

func graceBudget() Rule {
	return Rule{
		ID: "E001", Name: "grace-budget", Severity: Error,
		Title: "the pause and the program's shutdown deadline don't fit into the grace period",
		Why: `The grace period begins when the pod's deletion does, not when the program gets SIGTERM: the preStop hook spends it
first. What is left must hold the time in which the program finishes its requests, and 2 s for the kubelet. If it
doesn't, a slow request is cut by SIGKILL, and it's the slow ones that one notices.`,
		Example: `terminationGracePeriodSeconds: 22
containers:
- name: orders
  env:
  - {name: SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE, value: 20s}
  lifecycle:
    preStop: {sleep: {seconds: 5}}`,
		Patch:  `terminationGracePeriodSeconds: 27  # 5 s pause + 20 s deadline + 2 s margin`,
		Source: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination",
		check: func(_ *world, l *workload) (found []Finding) {
			grace, line := l.grace()
			for _, c := range l.containers {
				need := l.budget(c)
				room := window.Room{Whole: grace, Parts: need}
				if room.Short() == 0 {
					continue
				}
				f := l.here(line, fmt.Sprintf("container %s needs %s, but is killed after %s (%s)", c.name, tell(need), seconds(grace.Max), grace.Source),
					fmt.Sprintf("terminationGracePeriodSeconds: %d  # %s", wholeSeconds(need.Worst()+l.lacking(c)), ofPod))
				if l.assumes(c) && room.Short() <= springPhase {
					f[0].Severity = Warning
				}
				f[0].of = c
				found = append(found, f...)
			}
			return found
		},
	}
}

// assumes tells whether a container's deadline is Spring's default, which no manifest says.
func (l *workload) assumes(c *container) bool {
	_, stated := l.statedDeadline(c)
	_, known := l.deadlineOf(c)
	return known && !stated
}

// lacking is how much longer a hook is to take than it does, by other rules: one grace period satisfies them all.
func (l *workload) lacking(c *container) (more time.Duration) {
	p := l.pauseOf(c)
	if c != l.main || p.kind == pauseSelf || !l.elsewhere() {
		return 0
	}
	fault := ""
	if l.eureka() != nil && p.kind != pauseHTTP {
		fault, _ = l.untold(p)
	}
	if fault == "" && p.kind != pauseNone && (!p.known || p.length >= l.windowOf().Worst()) {
		return 0
	}
	if more = max(l.advised()-p.length, 0); l.registered {
		more += max(l.calling().Worst()-p.lasts(), 0)
	}
	return more
}

func noPause() Rule {
	return Rule{
		ID: "E002", Name: "no-pause", Severity: Error,
		Title: "the pod stops at once while callers still call it",
		Why: `Kubernetes takes the pod out of its Service and sends SIGTERM at the same time, and orders nothing. Whoever stops
listening on SIGTERM refuses what still arrives, graceful shutdown or not. Twenty callers of two replicas saw 26 to 32
failures in one restart, and with graceful shutdown alone still 3 to 19. A pause in which the pod goes on serving
closes the gap. A program that pauses by itself (with Eider it waits until its callers have let go) says so with
eider.dev/pauses: self.`,
		Example: `containers:
- name: orders
  ports: [{containerPort: 8080}]`,
		Patch: `containers:
- name: orders
  lifecycle:
    preStop: {sleep: {seconds: 5}}  # or, on the pods: annotations: {eider.dev/pauses: self}`,
		Source: "https://kubernetes.io/docs/tutorials/services/pods-and-endpoint-termination-flow/",
		check: func(_ *world, l *workload) []Finding {
			if l.pauseOf(l.main).kind != pauseNone || !l.elsewhere() {
				return nil
			}
			found := l.here(l.main.line(), fmt.Sprintf("container %s has no pause: it stops serving while callers still call it, for up to %s%s", l.main.name, tell(l.windowOf()), l.outlasting()),
				l.pausing(l.main, l.advised()))
			found[0].of = l.main
			if l.kind == "StatefulSet" {
				found[0].Severity = Warning // its clients often know one pod by name, and have connections of their own
			}
			return found
		},
	}
}

// pausing is what to write for a pause: the hook, what it needs of the program, and the grace period if that doesn't
// hold it.
func (l *workload) pausing(c *container, length time.Duration) string {
	var need window.Sum
	rows := []string{fmt.Sprintf("lifecycle: {preStop: {sleep: {seconds: %d}}}  # %s", wholeSeconds(length), ofContainer)}
	if length == leastPause {
		rows[0] += "; never less: 5 s lost nothing on a real node"
	}
	if c == l.main && l.registered {
		rows = l.telling(length)
		need = append(need, l.calling()...)
	}
	if c == l.main && l.spring {
		rows = append(rows, l.entries(l.settled()...))
	}
	rows = append(rows, l.holding(c, append(need, window.Fixed("pause", length, ""))))
	return joined(rows...)
}

// joined are the rows of a patch, without those that are none.
func joined(rows ...string) string {
	return strings.Join(slices.DeleteFunc(rows, func(row string) bool { return row == "" }), "\n")
}

// holding is the grace period to write for what comes before SIGTERM and a graceful shutdown after it, "" if there is one.
func (l *workload) holding(c *container, need window.Sum) string {
	if d, ok := l.gracefully(c); ok {
		need = append(need, d)
	}
	need = append(need, window.Fixed("margin", margin, ""))
	if grace, _ := l.grace(); need.Worst() <= grace.Max {
		return ""
	}
	return fmt.Sprintf("terminationGracePeriodSeconds: %d  # %s: %s", wholeSeconds(need.Worst()), ofPod, parts(need))
}

// Where the lines of a patch go, which is said in each: in the other's place Kubernetes ignores them.
const (
	ofContainer = "in the container"
	ofPod       = "in the pod's spec, beside containers"
	ofPods      = "in the metadata of the pods' template"
)

// pausesFor is how long a container is to pause by all rules; what callers don't call has none but its hook.
func (l *workload) pausesFor(c *container) time.Duration {
	if c != l.main || !l.elsewhere() {
		return leastPause
	}
	return l.advised()
}

// elsewhere tells whether there is another pod for callers to go to while one leaves. Without, a pause buys nothing.
func (l *workload) elsewhere() bool {
	switch {
	case l.rolls():
		return !l.allAtOnce()
	case l.kind == "StatefulSet":
		return l.replicas() > 1
	}
	return true
}

func hookNeedsShell() Rule {
	return Rule{
		ID: "E003", Name: "hook-cannot-run", Severity: Error,
		Title: "the hook runs a program that the image may not have",
		Why: `A preStop of exec runs a program of the image. In one without a shell or without sleep it fails, SIGTERM follows at
once, and nothing but an event FailedPreStopHook tells: 7 to 31 requests were lost in a restart that seemed to have a
pause. preStop.sleep (on by default since Kubernetes 1.30) is done by the kubelet and needs nothing. A hook that has to call
something needs what calls: Alpine has wget and no curl, Debian's slim images neither, Temurin's since Java 22 only wget.`,
		Example: `containers:
- name: orders
  image: gcr.io/distroless/java21-debian12
  lifecycle:
    preStop: {exec: {command: [sh, -c, sleep 15]}}`,
		Patch: `  lifecycle:
    preStop: {sleep: {seconds: 15}}`,
		Source: "https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/",
		check: func(_ *world, l *workload) (found []Finding) {
			for _, c := range l.containers {
				p := l.pauseOf(c)
				var message string
				severity := Error
				switch {
				case p.kind == pauseBroken:
					message = "has a preStop that Kubernetes doesn't run: it knows exec, httpGet and sleep"
				case p.fails(c) && strings.Contains(p.needs, " "):
					message = fmt.Sprintf("has a hook that runs a program called %q: a command is a list of words, with no shell to split it", short(p.needs))
				case p.fails(c):
					message = fmt.Sprintf("has a hook that runs %s, which the image %s lacks by its name: the hook fails and SIGTERM comes at once", p.needs, short(c.image))
				case slices.ContainsFunc(p.calls, func(call call) bool { return lacks(c, call.program) }):
					message = fmt.Sprintf("has a hook that runs %s, which the image %s lacks: nobody is called", p.calls[0].program, short(c.image))
				case alpine.MatchString(c.image) && slices.ContainsFunc(p.calls, func(call call) bool { return call.program == "curl" }):
					message, severity = fmt.Sprintf("has a hook that runs curl; Alpine, on which the image %s stands by its name, has wget and no curl, unless somebody has put it in", short(c.image)), Note
				case p.leans() && shellOf(c) == unknown && !slices.ContainsFunc(p.calls, call.toRegistry): // what tells a registry has to run something
					message, severity = fmt.Sprintf("has a hook that runs %s; whether the image %s has it can't be told from here", p.needs, short(c.image)), Note
				default:
					continue
				}
				f := l.here(p.line, "container "+c.name+" "+message, l.pausing(c, max(p.length, l.pausesFor(c))))
				f[0].Severity = severity
				found = append(found, f...)
			}
			return found
		},
	}
}

func pauseTooShort() Rule {
	return Rule{
		ID: "E004", Name: "pause-too-short", Severity: Error,
		Title: "the pause is over before the last caller has stopped calling",
		Why: `A pause helps only while it lasts: a caller that learns of the pod's end later finds a closed port. How late callers
learn is the window: the sum of what each cache and each interval between the pod and the caller may take at the
worst. eider window prints it, term by term; what it can't derive one declares with eider.dev/window.`,
		Example: `metadata:
  annotations: {eider.dev/window: 22s}  # what eider window says
spec:
  containers:
  - name: orders
    lifecycle:
      preStop: {sleep: {seconds: 5}}`,
		Patch: `      preStop: {sleep: {seconds: 24}}
  terminationGracePeriodSeconds: 46  # with a deadline of 20 s`,
		Source: "https://github.com/eiderhq/eider/blob/main/docs/window.md",
		check: func(_ *world, l *workload) []Finding {
			p, w := l.pauseOf(l.main), l.windowOf()
			if p.kind == pauseNone || !p.known || p.fails(l.main) || p.stopsAtOnce() || p.length >= w.Worst() || !l.elsewhere() {
				return nil
			}
			return l.here(p.line, fmt.Sprintf("container %s pauses for %s (%s), but callers may call it for %s%s", l.main.name, seconds(p.length), p.what, tell(w), l.outlasting()),
				l.pausing(l.main, l.advised()))
		},
	}
}
