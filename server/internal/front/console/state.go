package console

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// Bounds on what metrics may grow to: services come from strangers.
const (
	maxLabelled = 200      // services with a label of their own
	otherLabel  = "_other" // the rest together; no service can be called so
)

// state answers a scrape with what the node knows at that moment.
type state struct {
	reg replica.Reader

	info, start, ready, complete, void, bound  *prometheus.Desc
	services, instances, callers, changes      *prometheus.Desc
	behind, disconnected, drains, drainWaiting *prometheus.Desc
	holds, held, holdWaiting, window           *prometheus.Desc

	mu       sync.Mutex
	labelled map[string]bool // keeps its label until the node forgets it, or counters would jump
}

func newState(reg replica.Reader) *state {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("eider_"+name, help, labels, nil)
	}
	return &state{reg: reg, labelled: map[string]bool{},
		info:         desc("node_info", "1, labelled with the node's name and stance.", "node", "stance"),
		start:        desc("node_start_time_seconds", "When this node run began, in seconds since 1970."),
		ready:        desc("node_ready", "1 when the node serves, else 0."),
		complete:     desc("node_complete", "1 when views hold everybody, 0 while the node is cold."),
		void:         desc("node_void_reasons", "Reasons that void the node's bounds now."),
		bound:        desc("drain_bound_seconds", "A drain begun now pauses no longer than this."),
		services:     desc("services", "Services that the node lists: with an instance or a caller, or ended within a day."),
		instances:    desc("instances", "Listed instances by service and state: up, suspect (UP, but doubted), starting, down, draining. A service that has ended stays at 0 for a day.", "service", "state"),
		callers:      desc("callers", "Callers by the service that they follow.", "service"),
		changes:      desc("view_changes_total", "Published changes of a service's view in this node run.", "service"),
		behind:       desc("callers_behind", "Callers that haven't applied the newest view of the service that they follow.", "service"),
		disconnected: desc("callers_disconnected", "Native callers without a stream to the node, remembered for drains."),
		drains:       desc("drains", "Running drains by stage: waiting for callers, finishing what is in flight.", "stage"),
		drainWaiting: desc("drain_waiting_callers", "Callers that running drains wait for."),
		holds:        desc("holds", "Keys that an operator holds, also those of which nobody is listed."),
		held:         desc("instances_held", "Listed instances that an operator holds, whatever their state, by service.", "service"),
		window:       desc("window_seconds", "For how long a departed instance may still be called, at the worst, by service and path: planned, crash (a lost host), suspect (a lost host, until callers prefer others). The longest of the others is service=\"_other\".", "service", "path"),
		holdWaiting:  desc("hold_waiting_callers", "Callers that haven't let go of a held instance yet."),
	}
}

// Describe implements [prometheus.Collector].
func (s *state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.info, s.start, s.ready, s.complete, s.void, s.bound, s.services, s.instances,
		s.callers, s.changes, s.behind, s.disconnected, s.drains, s.drainWaiting, s.holds, s.held, s.holdWaiting, s.window} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *state) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	node := s.reg.Node()
	gauge(s.info, 1, node.Name, node.Stance)
	if !node.Since.IsZero() {
		gauge(s.start, float64(node.Since.UnixMilli())/1000)
	}
	gauge(s.ready, truth(node.Ready))
	gauge(s.complete, truth(node.Complete))
	gauge(s.void, float64(len(node.Void)))
	gauge(s.bound, node.Bound.Seconds())
	gauge(s.holds, float64(node.Holds))

	all := s.reg.Services()
	gauge(s.services, float64(len(all)))
	own := s.labels(all)
	for path, by := range s.windows(all, own) {
		for service, d := range by {
			gauge(s.window, d.Seconds(), service, path)
		}
	}
	for _, one := range fold(all, own) {
		gauge(s.instances, float64(one.Up), one.Service, "up")
		gauge(s.instances, float64(one.Suspect), one.Service, "suspect")
		gauge(s.instances, float64(one.Starting), one.Service, "starting")
		gauge(s.instances, float64(one.Down), one.Service, "down")
		gauge(s.instances, float64(one.Draining), one.Service, "draining")
		gauge(s.held, float64(one.Held), one.Service)
		gauge(s.callers, float64(one.Callers), one.Service)
		gauge(s.behind, float64(one.Behind), one.Service)
		ch <- prometheus.MustNewConstMetric(s.changes, prometheus.CounterValue, float64(one.Cursor.Number), one.Service)
	}

	var disconnected, waiting, finishing, open, holding float64
	for _, caller := range s.reg.Callers("") {
		disconnected += truth(!caller.Stream && caller.Kind == eider.Native)
	}
	for _, d := range s.reg.Drains("") {
		if d.Over {
			continue
		}
		if d.Kind == eider.HoldDrain {
			holding += float64(d.Open)
			continue
		}
		waiting += truth(!d.Reached)
		finishing += truth(d.Reached)
		open += float64(d.Open)
	}
	gauge(s.disconnected, disconnected)
	gauge(s.drains, waiting, "waiting")
	gauge(s.drains, finishing, "finishing")
	gauge(s.drainWaiting, open)
	gauge(s.holdWaiting, holding)
}

// labels returns the services that have a label of their own. Who has one keeps it as long as the node knows the
// service.
func (s *state) labels(all []eider.Summary) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[string]bool, len(all))
	for i := range all {
		there[all[i].Service] = true
	}
	maps.DeleteFunc(s.labelled, func(name string, _ bool) bool { return !there[name] })
	for i := range all {
		if len(s.labelled) < maxLabelled {
			s.labelled[all[i].Service] = true
		}
	}
	return maps.Clone(s.labelled)
}

// fold returns those services with their labels, and the sum of the others as one more.
func fold(all []eider.Summary, own map[string]bool) []eider.Summary {
	var out []eider.Summary
	other := eider.Summary{Service: otherLabel}
	for _, one := range all {
		if own[one.Service] {
			out = append(out, one)
			continue
		}
		other.Up += one.Up
		other.Suspect += one.Suspect
		other.Starting += one.Starting
		other.Down += one.Down
		other.Draining += one.Draining
		other.Held += one.Held
		other.Callers += one.Callers
		other.Behind += one.Behind
		other.Cursor.Number += one.Cursor.Number
	}
	if len(all) > len(out) {
		out = append(out, other)
	}
	return out
}

// windows returns each path's worst case by service; of those without a label the longest, since a sum of windows
// means nothing.
func (s *state) windows(all []eider.Summary, own map[string]bool) map[string]map[string]time.Duration {
	out := map[string]map[string]time.Duration{"planned": {}, "crash": {}, "suspect": {}}
	for i := range all {
		t, known := s.reg.Timing(all[i].Service)
		if !known {
			continue // forgotten since
		}
		name := otherLabel
		if own[t.Service] {
			name = t.Service
		}
		for path, d := range map[string]time.Duration{"planned": t.Bound, "crash": t.Lease + t.Batch, "suspect": t.SuspectAfter + t.Batch} {
			out[path][name] = max(out[path][name], d)
		}
	}
	return out
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
