package lint

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

func refusedNumber() Rule {
	return Rule{
		ID: "E022", Name: "refused-number", Severity: Error,
		Title: "a number of seconds or of pods is none that Kubernetes takes as it is written",
		Why: `Times of pods are whole seconds, and numbers: an API server refuses 60.5, 1m and "60" in quotes, and negative numbers too,
so that a rollout doesn't happen or what ran before goes on. One of them it takes for another: of a negative
terminationGracePeriodSeconds it makes 1, with which everything is killed at once. The other rules go on with the number that
was meant, if one sees it, as if it weren't there if one doesn't.`,
		Example: `terminationGracePeriodSeconds: 60.5
containers:
- name: orders
  lifecycle:
    preStop: {sleep: {seconds: 15s}}`,
		Patch: `terminationGracePeriodSeconds: 61
containers:
- name: orders
  lifecycle:
    preStop: {sleep: {seconds: 15}}`,
		Source: "https://github.com/kubernetes/kubernetes/pull/115606",
		check: func(_ *world, l *workload) (found []Finding) {
			complain := func(in node, f field, of string) {
				n := in.get(f.name)
				if fault := f.fault(n); fault != "" && len(found) < maxComplaints {
					found = append(found, l.here(n.line(), fmt.Sprintf("%s of %s is %s", f.name, of, fault), f.instead(n))...)
				}
			}
			for _, f := range []field{{"replicas", math.MaxInt32, 0, 2}, {"minReadySeconds", math.MaxInt32, 0, 0}} {
				complain(l.get("spec"), f, l.title())
			}
			complain(l.pod, field{graceKey, math.MaxInt64, 0, wholeSeconds(l.needed())}, "the pods")
			for _, list := range []string{"containers", "initContainers"} {
				for c := range l.pod.get(list).each() {
					of := "container " + short(c.get("name").text())
					complain(c.get("lifecycle", "preStop", "sleep"), field{"seconds", math.MaxInt64, 0, wholeSeconds(leastPause)}, "the preStop sleep of "+of)
					for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
						for _, f := range probed {
							complain(c.get(name), f, "the "+name+" of "+of)
						}
					}
				}
			}
			return found
		},
	}
}

const graceKey = "terminationGracePeriodSeconds"

// field is a whole number of Kubernetes' API: how it is called, the most and the least that it may be, and what it
// mostly is.
type field struct {
	name        string
	most, least int
	mostly      int
}

// probed are those of a probe, with their defaults.
var probed = []field{
	{"initialDelaySeconds", math.MaxInt32, 0, 0}, {"periodSeconds", math.MaxInt32, 0, 10}, {"timeoutSeconds", math.MaxInt32, 0, 1},
	{"successThreshold", math.MaxInt32, 0, 1}, {"failureThreshold", math.MaxInt32, 0, 3}, {graceKey, math.MaxInt64, 1, 30},
}

// fault says why an API server doesn't take a number, "" if it does.
func (f field) fault(n node) string {
	i, whole := n.integer()
	text := short(n.text())
	_, err := strconv.ParseFloat(text, 64)
	switch {
	case !n.ok():
		return ""
	case whole && i < 0 && f.name == graceKey && f.least == 0:
		return text + ", which Kubernetes takes for 1: a second after it is told to end everything is killed"
	case whole && (i < f.least || i > f.most):
		return fmt.Sprintf("%s, which isn't from %d to %d: Kubernetes refuses it", text, f.least, f.most)
	case whole:
		return ""
	case err == nil && n.ShortTag() == "!!str":
		return fmt.Sprintf("%q in quotes, a text and no number: Kubernetes refuses it", text)
	}
	return fmt.Sprintf("%q, which is no whole number: Kubernetes refuses it", text)
}

// instead is what to write: the number that was meant, if one sees it.
func (f field) instead(n node) string {
	i, ok := n.meant()
	if !ok || i < f.least || i > f.most {
		i = f.mostly
	}
	return f.name + ": " + strconv.Itoa(i)
}

// needed is the grace period that the pods need, as the other rules have it.
func (l *workload) needed() time.Duration {
	longest := springPhase // which is Kubernetes' default too
	for _, c := range l.containers {
		longest = max(longest, l.budget(c).Worst()+l.lacking(c))
	}
	return longest
}
