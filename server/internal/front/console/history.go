package console

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/outlook"
	"github.com/eiderhq/eider/server/internal/replica"
)

// history counts what has happened. It reads the node's events when it is scraped, so it costs nothing in
// between; events that came and went unread between two scrapes are counted as such, and the sum is exact.
type history struct {
	reg    replica.Reader
	events *prometheus.Desc
	pauses *prometheus.HistogramVec
	beyond prometheus.Counter // pauses beyond what was derived for them

	mu     sync.Mutex
	run    uint64
	seq    uint64 // counted up to this event
	counts map[string]uint64
}

// unread labels events of which only the number is known.
const unread = "unread"

// kinds are counted from 0 on: an alert on an increase doesn't see a counter that begins at 1.
var kinds = []eider.EventKind{eider.EventRegistered, eider.EventReattached, eider.EventStatus, eider.EventLeaving, eider.EventBarrier,
	eider.EventCapped, eider.EventLeft, eider.EventDead, eider.EventLapsed, eider.EventSuspect, eider.EventCured, eider.EventTrial, eider.EventStreamEnded,
	eider.EventPreserving, eider.EventPreserved, eider.EventDegraded, eider.EventMassRefusal, eider.EventPaused, eider.EventRestored,
	eider.EventNotKept, eider.EventKept, eider.EventCallerJoined, eider.EventCallerLeft, eider.EventRefused, eider.EventHeld,
	eider.EventReleased, eider.EventHoldEnded, eider.EventHeldGone, unread}

// How a pause ended.
const (
	endedByLetGo = "let go"
	endedByCap   = "capped"
)

func newHistory(reg replica.Reader) *history {
	h := &history{reg: reg, counts: zeros(),
		events: prometheus.NewDesc("eider_events_total", "Events of this node run by kind; unread are those that were no longer kept when a scrape came.", []string{"kind"}, nil),
		pauses: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "eider_drain_pause_seconds",
			Help:    "Lame-duck pauses, from the leave to the barrier, by what ended them: every caller let go, or a cap passed for at least one.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .25, .5, 1, 2, 4, 8, 16, 32}}, []string{"ended"}),
		beyond: prometheus.NewCounter(prometheus.CounterOpts{Name: "eider_windows_exceeded_total",
			Help: "Lame-duck pauses that took over 1 s longer than the bound derived for them."})}
	h.pauses.WithLabelValues(endedByLetGo)
	h.pauses.WithLabelValues(endedByCap)
	return h
}

func zeros() map[string]uint64 {
	counts := make(map[string]uint64, len(kinds))
	for _, kind := range kinds {
		counts[string(kind)] = 0
	}
	return counts
}

// Describe implements [prometheus.Collector].
func (h *history) Describe(ch chan<- *prometheus.Desc) {
	ch <- h.events
	h.pauses.Describe(ch)
	h.beyond.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (h *history) Collect(ch chan<- prometheus.Metric) {
	h.catchUp()
	h.mu.Lock()
	sent := make([]prometheus.Metric, 0, len(h.counts))
	for kind, n := range h.counts {
		sent = append(sent, prometheus.MustNewConstMetric(h.events, prometheus.CounterValue, float64(n), kind))
	}
	h.mu.Unlock()
	for _, m := range sent {
		ch <- m
	}
	h.pauses.Collect(ch)
	h.beyond.Collect(ch)
}

// catchUp counts the events since the last scrape. The registry is asked outside the lock, so of two
// scrapes at a time one may have read what the other has counted already: numbers tell.
func (h *history) catchUp() {
	run := h.reg.Node().Run
	h.mu.Lock()
	if run != h.run {
		h.run, h.seq = run, 0
		h.counts = zeros()
	}
	after := h.seq
	h.mu.Unlock()

	news, _ := h.reg.Events(after)
	var drains []eider.Drain
	if slices.ContainsFunc(news, func(e eider.Event) bool { return e.Kind == eider.EventBarrier }) {
		drains = h.reg.Drains("")
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range news {
		e := &news[i]
		if e.Seq <= h.seq {
			continue
		}
		if missed := e.Seq - h.seq - 1; missed > 0 {
			h.counts[unread] += missed
		}
		h.seq = e.Seq
		h.counts[string(e.Kind)]++
		if e.Kind == eider.EventBarrier && e.Hold == 0 { // who is held pauses nothing
			h.pause(e, drains)
		}
	}
}

// pause observes the pause that an event ended; nothing if the drain is no longer kept.
func (h *history) pause(e *eider.Event, drains []eider.Drain) {
	i := slices.IndexFunc(drains, func(d eider.Drain) bool {
		return d.Service == e.Service && d.ID == e.ID && d.Incarnation.Is(e.Incarnation) && d.Hold == 0
	})
	if i < 0 || !drains[i].Reached {
		return
	}
	how := endedByLetGo
	if outlook.Capped(&drains[i]) {
		how = endedByCap
	}
	h.pauses.WithLabelValues(how).Observe(drains[i].Barrier.Seconds())
	if outlook.Exceeded(&drains[i]) {
		h.beyond.Inc()
	}
}
