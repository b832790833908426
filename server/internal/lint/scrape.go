package lint

import "strings"

// scraped tells whether Prometheus asks the program's actuator, as annotations of its pods and Services say, or a monitor
// that was read. Whoever then writes a list of endpoints and leaves it out switches the metrics off.
func (l *workload) scraped() bool {
	const path = "prometheus.io/path"
	if asksSpring(l.annotation(path)) {
		return true
	}
	for _, s := range l.services {
		if asksSpring(s.annotation(path)) {
			return true
		}
	}
	for _, m := range l.world.monitors {
		if m.kind == "PodMonitor" && m.watches(l.template) {
			return true
		}
		for _, s := range l.services {
			if m.kind == "ServiceMonitor" && m.watches(s.node) {
				return true
			}
		}
	}
	return false
}

// asksSpring tells of a path that is the endpoint's, whatever stands before it: its own base, or the program's.
func asksSpring(path node) bool { return strings.HasSuffix(path.text(), "/prometheus") }

// asksSpring tells whether one of a monitor's endpoints is Spring's.
func (o *object) asksSpring() bool {
	for _, list := range []string{"endpoints", "podMetricsEndpoints"} {
		for at := range o.get("spec", list).each() {
			if asksSpring(at.get("path")) {
				return true
			}
		}
	}
	return false
}

// watches tells whether the labels of a monitor's selector are those of what it may watch; a monitor's namespaces aren't
// asked, since to name an endpoint too many costs less than one too few.
func (o *object) watches(thing node) bool {
	labels := thing.get("metadata", "labels")
	for key, value := range o.get("spec", "selector", "matchLabels").pairs() {
		if labels.get(key).text() != value.text() {
			return false
		}
	}
	return true
}
