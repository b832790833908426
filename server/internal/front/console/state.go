package console

import (
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
	breakers, tripped, opened                  *prometheus.Desc

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
		breakers:     desc("breakers", "Callers' circuit breakers of listed instances by the instance's service and state: open, half-open, ramping, by hand (forced open, forced closed, metrics only). Those that are closed aren't counted.", "service", "state"),
		tripped:      desc("instances_tripped", "Listed instances of which some caller's circuit breaker turns calls away, by service.", "service"),
		opened:       desc("breakers_opened_total", "Times that a caller has told that its circuit breaker of an instance has opened, by the instance's service.", "service"),
		holdWaiting:  desc("hold_waiting_callers", "Callers that haven't let go of a held instance yet."),
	}
}

// Describe implements [prometheus.Collector].
func (s *state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.info, s.start, s.ready, s.complete, s.void, s.bound, s.services, s.instances,
		s.callers, s.changes, s.behind, s.disconnected, s.drains, s.drainWaiting, s.holds, s.held, s.holdWaiting, s.window, s.breakers, s.tripped, s.opened} {
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

	services, number, away := s.glance()
	gauge(s.services, float64(number))
	gauge(s.disconnected, float64(away))
	for _, one := range services {
		gauge(s.window, one.planned.Seconds(), one.Service, "planned")
		gauge(s.window, one.crash.Seconds(), one.Service, "crash")
		gauge(s.window, one.suspect.Seconds(), one.Service, "suspect")
		gauge(s.instances, float64(one.Up), one.Service, "up")
		gauge(s.instances, float64(one.Suspect), one.Service, "suspect")
		gauge(s.instances, float64(one.Starting), one.Service, "starting")
		gauge(s.instances, float64(one.Down), one.Service, "down")
		gauge(s.instances, float64(one.Draining), one.Service, "draining")
		gauge(s.held, float64(one.Held), one.Service)
		gauge(s.callers, float64(one.Callers), one.Service)
		gauge(s.behind, float64(one.Behind), one.Service)
		gauge(s.tripped, float64(one.tripped.Instances), one.Service)
		gauge(s.breakers, float64(one.tripped.States[eider.BreakerOpen]), one.Service, "open")
		gauge(s.breakers, float64(one.tripped.States[eider.BreakerHalfOpen]), one.Service, "half-open")
		gauge(s.breakers, float64(one.tripped.States[eider.BreakerRamping]), one.Service, "ramping")
		gauge(s.breakers, float64(one.byHand()), one.Service, "by hand")
		ch <- prometheus.MustNewConstMetric(s.opened, prometheus.CounterValue, float64(one.tripped.Opened), one.Service)
		ch <- prometheus.MustNewConstMetric(s.changes, prometheus.CounterValue, float64(one.Cursor.Number), one.Service)
	}

	running := s.reg.Running()
	gauge(s.drains, float64(running.Waiting), "waiting")
	gauge(s.drains, float64(running.Finishing), "finishing")
	gauge(s.drainWaiting, float64(running.Open))
	gauge(s.holdWaiting, float64(running.Holding))
}

// line is what is shown of one service, or of several together.
type line struct {
	eider.Summary
	planned, crash, suspect time.Duration // the worst cases
	tripped                 replica.Tripped
}

// byHand counts the breakers that somebody has set.
func (l *line) byHand() int {
	return l.tripped.States[eider.BreakerForcedOpen] + l.tripped.States[eider.BreakerForcedClosed] + l.tripped.States[eider.BreakerMetricsOnly]
}

func lineOf(g *replica.Glance) line {
	t := &g.Timing
	return line{g.Summary, t.Bound, t.Lease + t.Batch, t.SuspectAfter + t.Batch, g.Tripped}
}

// add sums another service up: counts are added, and of windows the longest counts, since a sum of them means nothing.
func (l *line) add(other line) {
	l.Up += other.Up
	l.Suspect += other.Suspect
	l.Starting += other.Starting
	l.Down += other.Down
	l.Draining += other.Draining
	l.Held += other.Held
	l.Callers += other.Callers
	l.Behind += other.Behind
	l.Cursor.Number += other.Cursor.Number
	l.tripped.Instances += other.tripped.Instances
	l.tripped.Opened += other.tripped.Opened
	for s, n := range other.tripped.States {
		l.tripped.States[s] += n
	}
	l.planned, l.crash, l.suspect = max(l.planned, other.planned), max(l.crash, other.crash), max(l.suspect, other.suspect)
}

// glance walks over all services once and returns a line for each that has a label of its own, and one of the others
// together; how many services there are; and how many callers are away. What it keeps meanwhile is bounded: a node
// may list thousands.
func (s *state) glance() (out []line, number, away int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var candidates []line // for a label, if somebody has lost his
	others := line{Summary: eider.Summary{Service: otherLabel}}
	for g := range s.reg.Glances() {
		number++
		away += g.Away
		switch one := lineOf(&g); {
		case s.labelled[one.Service]:
			out = append(out, one)
		case len(candidates) < maxLabelled:
			candidates = append(candidates, one)
		default:
			others.add(one)
		}
	}
	clear(s.labelled) // who is there keeps it, and nobody else
	for _, one := range out {
		s.labelled[one.Service] = true
	}
	for _, one := range candidates {
		if len(out) < maxLabelled {
			s.labelled[one.Service] = true
			out = append(out, one)
		} else {
			others.add(one)
		}
	}
	if number > len(out) {
		out = append(out, others)
	}
	return out, number, away
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
