package lint

import (
	"fmt"
	"time"

	"github.com/eiderhq/eider/window"
)

func noReadiness() Rule {
	return Rule{
		ID: "E005", Name: "no-readiness", Severity: Warning,
		Title: "callers are sent to the pod before its program listens",
		Why: `Without a readinessProbe a pod is ready as soon as its containers run. Kubernetes then lists it, and takes the next old
pod away, while the program still reads its configuration: whoever is sent there is refused. The departure of one pod is
only as harmless as the arrival of its successor.`,
		Example: `containers:
- name: orders
  ports: [{containerPort: 8080}]`,
		Patch: `  readinessProbe:
    httpGet: {path: /ready, port: 8080}
    periodSeconds: 2`,
		Source: "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/#readiness-probe",
		check: func(_ *world, l *workload) []Finding {
			gated := l.pod.get("readinessGates").ok() // what decides then isn't in the manifest
			if l.main.get("readinessProbe").ok() || gated || len(l.services) == 0 && l.registered {
				return nil
			}
			return l.here(l.main.line(), fmt.Sprintf("container %s has no readinessProbe: callers are sent to it before it listens", l.main.name),
				"readinessProbe: {httpGet: {path: /ready, port: "+portOf(l.main)+"}, periodSeconds: 2}")
		},
	}
}

// portOf is a port to write into a patch.
func portOf(c *container) string {
	for port := range c.get("ports").each() {
		if n := port.get("containerPort").text(); n != "" {
			return short(n)
		}
	}
	return "8080"
}

// tolerable is how long a pod that hangs may be sent to: Kubernetes' defaults, doubled.
const tolerable = 62 * time.Second

func lateReadiness() Rule {
	return Rule{
		ID: "E006", Name: "late-readiness", Severity: Warning,
		Title: "a pod that hangs is called for minutes",
		Why: `A pod that can't answer any more leaves its Service when its readinessProbe has failed failureThreshold times in a row,
once in periodSeconds. Until then, and for the time that one probe takes, every caller's share of requests goes to it:
33 s by the defaults of 10 s and 3. Longer than a minute is an outage of its own.`,
		Example: `readinessProbe:
  httpGet: {path: /ready, port: 8080}
  periodSeconds: 30
  failureThreshold: 5`,
		Patch: `readinessProbe:
  httpGet: {path: /ready, port: 8080}
  periodSeconds: 5
  failureThreshold: 3`,
		Source: "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#configure-probes",
		check: func(_ *world, l *workload) []Finding {
			probe := l.main.get("readinessProbe")
			if !probe.ok() {
				return nil
			}
			period, threshold, timeout := number(probe.get("periodSeconds"), 10), number(probe.get("failureThreshold"), 3), number(probe.get("timeoutSeconds"), 1)
			late := window.Sum{{Max: failing(period, threshold)}, {Max: time.Duration(timeout) * time.Second}}.Worst()
			if late <= tolerable {
				return nil
			}
			return l.here(l.main.keyLine("readinessProbe"), fmt.Sprintf("container %s is called for up to %s after it hangs: %d probes, %d s apart, of up to %d s",
				l.main.name, seconds(late), threshold, period, timeout), "periodSeconds: 5\nfailureThreshold: 3")
		},
	}
}

// failing is how long a probe takes to fail so many times, at most what is longer than any grace period.
func failing(period, threshold int) time.Duration {
	return time.Duration(min(period*threshold, int(most.Seconds()))) * time.Second
}

// number is a whole number above 0, or what Kubernetes takes if there is none.
func number(n node, otherwise int) int {
	if i, ok := n.whole(); ok && i > 0 {
		return min(i, 1_000_000)
	}
	return otherwise
}
