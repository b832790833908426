package lint

import "strings"

// An Argo Rollout has the pods of a Deployment and a strategy of its own (argoproj.github.io/argo-rollouts,
// features/specification); instead of a template it may name a Deployment whose template it takes (workloadRef), and
// whose pods it then rolls. OpenKruise's CloneSet is a Deployment but for its strategy (openkruise.io, user-manuals).

// argo tells of such a Rollout; others have the name of a kind too.
func (o *object) argo() bool {
	return o.kind == "Rollout" && strings.HasPrefix(o.get("apiVersion").text(), "argoproj.io/")
}

// refers is the place of the workload that a Rollout takes its pods from.
func (o *object) refers() (place, bool) {
	ref := o.get("spec", "workloadRef")
	return place{ref.get("kind").text(), o.namespace, ref.get("name").text()}, o.argo() && ref.ok()
}

// rolls tells whether new pods come beside the old ones, which then go.
func (l *workload) rolls() bool {
	return l.rolled.kind == "Deployment" || l.rolled.kind == "Rollout" || l.rolled.kind == "CloneSet"
}

// strategy is where the bounds of a rollout stand, and what they are unless they do.
func (l *workload) strategy() (bounds node, key, unavailable, surge string) {
	switch spec := l.rolled.get("spec"); l.rolled.kind {
	case "Rollout":
		return spec.get("strategy", "canary"), "strategy", "25%", "25%"
	case "CloneSet":
		return spec.get("updateStrategy"), "updateStrategy", "20%", "0"
	default:
		return spec.get("strategy", "rollingUpdate"), "strategy", "25%", "25%"
	}
}

// allAtOnce tells of a rollout that takes every pod away before a new one serves.
func (l *workload) allAtOnce() bool {
	if l.recreates() {
		return true
	}
	if l.rolled.get("spec", "strategy", "blueGreen").ok() || l.rolled.get("spec", "strategy", "canary", "trafficRouting").ok() {
		return false // all new ones are there before the first old one goes
	}
	bounds, _, unavailable, surge := l.strategy()
	replicas := l.replicas()
	more := share(bounds.get("maxSurge"), replicas, true, surge)
	// A CloneSet rounds up what may be missing, unless it has more for it meanwhile.
	gone := share(bounds.get("maxUnavailable"), replicas, l.rolled.kind == "CloneSet" && more == 0, unavailable)
	if gone == 0 && more == 0 {
		gone = 1 // what Kubernetes makes of two zeros
	}
	return replicas > 0 && gone >= replicas
}

// recreates tells of a Deployment whose rollout is an outage because somebody wants it so.
func (l *workload) recreates() bool {
	return l.rolled.kind == "Deployment" && l.rolled.get("spec", "strategy", "type").text() == "Recreate"
}
