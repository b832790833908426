package console

import (
	"net/http"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/eiderhq/eider/server/internal/replica"
)

// metrics are this node's, in a registry of their own. docs/metrics.md lists each.
type metrics struct {
	gatherer prometheus.Gatherer
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
}

func newMetrics(reg replica.Reader, cfg Config, streams func() int) *metrics {
	own := prometheus.NewRegistry()
	m := &metrics{
		gatherer: own,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "eider_http_requests_total",
			Help: "Requests answered on the HTTP port, by route and status code."}, []string{"route", "code"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "eider_http_refused_total",
			Help: "Requests turned away before any route: host, cross-site, origin, method, query; who isn't let in: unknown, role; a write that isn't JSON: type; or for want of a free stream: streams."}, []string{"reason"}),
	}
	for _, reason := range []string{"host", "cross-site", "origin", "method", "query", "unknown", "role", "type", "streams"} {
		m.refused.WithLabelValues(reason) // an alert on a counter needs its 0
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "eider_build_info", Help: "1, labelled with what is running.",
		ConstLabels: prometheus.Labels{"version": cfg.Version, "goversion": runtime.Version()}})
	build.Set(1)
	own.MustRegister(m.requests, m.refused, build, newState(reg), newHistory(reg),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "eider_http_streams",
			Help: "Event streams and waiting requests open now."}, func() float64 { return float64(streams()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	own.MustRegister(cfg.Collectors...)
	return m
}

func (m *metrics) refuse(reason string) { m.refused.WithLabelValues(reason).Inc() }

// counted counts a route's answers: by the route, never by the path, of which strangers know many.
func (c *console) counted(route string, serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { c.metrics.requests.WithLabelValues(route, strconv.Itoa(seen.status)).Inc() }()
		serve(seen, r)
	})
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the status and passes it on.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets a ResponseController reach the deadlines and Flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
