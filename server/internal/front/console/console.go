// Package console is the front for people, scripts and Prometheus: what one node knows, as JSON, as an
// event stream and as metrics, read only.
//
// Where tokens are asked for, everything but the probes needs the role read.
//
// Whoever asks here observes: nothing asked here acknowledges anything or delays a drain. There are only
// GET and HEAD, and a request must name this node as people on this machine do (localhost or a loopback
// address), so that a web page can't reach it by a name of its own that it has pointed here.
package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/access"
	"github.com/eiderhq/eider/server/internal/panel"
	"github.com/eiderhq/eider/server/internal/replica"
)

// Config sets a console up. The zero value works.
//
// Event streams and waiting requests end with their request's context: give the http.Server a BaseContext
// and cancel it before Shutdown, or Shutdown waits for them.
type Config struct {
	Version string          // what /, /metrics and eider_build_info say; "" means "unknown"
	Hosts   []string        // names that requests may use for this node besides localhost and loopback addresses
	Pending func() []string // what else this node waits for before it is ready, in sentences; nil means nothing

	MaxStreams int           // 0 means 64; event streams and waiting requests at a time, the next is told to come back
	Heartbeat  time.Duration // 0 means 15s; the longest silence on an event stream. No flag: readers rely on it (docs/console.md)
	MaxBytes   int           // 0 means 4 MiB; of items in one answer, the rest is asked for with after= (16 MiB for /v1/sd). No flag: nothing is lost

	Guard *access.Guard // who is let in; nil asks nobody
	Certs *access.Certs // the listener's, for the names that requests may use and for clients' certificates; nil without TLS
	Audit *access.Audit // hears of refusals and of what operators do; nil means nobody
	Panel *panel.Panel  // of breakers that callers share; nil keeps none

	Elsewhere  bool                   // metrics have an address of their own: see Metrics
	Collectors []prometheus.Collector // further metrics of this node, for /metrics
	Logger     *slog.Logger           // nil means slog.Default()
}

// Bounds on what one request may ask for.
const (
	maxQuery   = 2048             // bytes of query
	bodyWithin = 5 * time.Second  // a request's body has to be here
	maxLimit   = 10_000           // items in one answer
	someLimit  = 1_000            // items in one answer when none are asked for
	maxWait    = 60 * time.Second // how long a request may wait for a change
	writeGrace = 10 * time.Second // a reader that takes nothing for so long has gone
)

// console is the front. It starts nothing and holds nothing but its metrics.
type console struct {
	reg     replica.Reader
	pollers replica.Poller // nil: nobody can be counted here
	cfg     Config
	hosts   map[string]bool
	streams chan struct{} // one token a stream or waiting request
	metrics *metrics
	routes  []route
	mux     *http.ServeMux
}

// route is one row of what exists: the index shows it, 404 names it, metrics count by it.
type route struct {
	Path  string `json:"path"`
	About string `json:"about"`
	need  role
	serve http.HandlerFunc
}

// Console is the front: it serves everything below /, Metrics its metrics alone.
type Console struct {
	http.Handler
	Metrics http.Handler
}

// New returns the handler of everything below /. It starts nothing.
func New(reg replica.Reader, cfg Config) http.Handler { return Both(reg, cfg).Handler }

// Both returns the handler of everything below /, and one of the metrics alone, for an address of its own.
func Both(reg replica.Reader, cfg Config) Console {
	cfg.Version = cmp.Or(cfg.Version, "unknown")
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, 64)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 15*time.Second)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 4<<20)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	c := &console{reg: reg, cfg: cfg, hosts: map[string]bool{"localhost": true}, mux: http.NewServeMux()}
	c.pollers, _ = reg.(replica.Poller)
	for _, host := range cfg.Hosts {
		c.hosts[strings.ToLower(host)] = true
	}
	c.streams = make(chan struct{}, cfg.MaxStreams)
	c.metrics = newMetrics(reg, cfg, func() int { return len(c.streams) })
	c.routes = []route{
		{"/", "what is here", reader, c.index},
		{"/v1/services", "every service at a glance: ?limit= &after=", reader, c.services},
		{"/v1/services/{service}", "one service: its instances, and who of them ended lately: ?limit= &after= &wait= (with If-None-Match); a caller that polls says so: &caller= &every= &cache=", reader, c.view},
		{"/v1/callers", "who calls, and how far behind they are: ?service= &limit= &after=", reader, c.callers},
		{"/v1/breakers", "for which instances some caller's circuit breaker isn't closed, and why; the breakers that callers share: ?service= &limit= &after=; POST {key, do} has one of these open, close or reset", reader, c.breakers},
		{"/v1/window", "for how long a departed instance of a service is still called: derived, and measured: ?service=", reader, c.window},
		{"/v1/drains", "planned departures, running and past: ?service= &limit=", reader, c.drains},
		{"/v1/holds", "who is held: ?limit= &after=; POST {service, id, for, reason} holds an instance", reader, c.holds},
		{"/v1/holds/{service}/{id}", "one hold; DELETE releases it", reader, c.hold},
		{"/v1/events", "what happened, in order; a stream with Accept: text/event-stream: ?service= &after= &last= &limit=", reader, c.events},
		{"/v1/sd", "instances that are UP, for Prometheus' http_sd_configs: ?service= &port=", reader, c.discovery},
		{"/healthz", "200 while this process answers", anybody, c.healthz},
		{"/readyz", "200 when this node is ready, else 503 with the reasons", anybody, c.readyz},
	}
	if !cfg.Elsewhere {
		c.routes = append(c.routes, c.metricsRoute())
	}
	for _, rt := range c.routes {
		pattern := rt.Path
		if pattern == "/" {
			pattern = "/{$}"
		}
		c.mux.Handle(pattern, c.counted(rt.Path, c.allowed(rt.need, rt.serve)))
	}
	c.mux.Handle("/", c.counted("unknown", c.unknown))
	return Console{c, c.alone()}
}

func (c *console) metricsRoute() route {
	serve := promhttp.HandlerFor(c.metrics.gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
	return route{"/metrics", "metrics for Prometheus", reader, serve.ServeHTTP}
}

// alone serves the metrics at an address of their own, under the same rules.
func (c *console) alone() http.Handler {
	only := *c
	only.mux, only.routes = http.NewServeMux(), []route{c.metricsRoute()}
	rt := only.routes[0]
	only.mux.Handle(rt.Path, c.counted(rt.Path, c.allowed(rt.need, rt.serve)))
	only.mux.Handle("/", c.counted("unknown", only.unknown))
	return &only
}

// ServeHTTP turns away what must not come in, and hands the rest to its route.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.ContentLength != 0 { // also what is only read to be thrown away, of whoever isn't let in
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
	}
	reason, sentence := c.foreign(r)
	switch {
	case reason != "":
		c.metrics.refuse(reason)
		fail(w, http.StatusForbidden, eider.Invalid, sentence)
	case !methodOf(r):
		c.metrics.refuse("method")
		h.Set("Allow", "GET, HEAD")
		fail(w, http.StatusMethodNotAllowed, eider.Invalid, fmt.Sprintf("%.20q is not for this port: here one only reads, with GET; instances register over gRPC", r.Method))
	case len(r.URL.RawQuery) > maxQuery:
		c.metrics.refuse("query")
		fail(w, http.StatusBadRequest, eider.Invalid, fmt.Sprintf("the query has %d bytes, at most %d are read", len(r.URL.RawQuery), maxQuery))
	case !clean(r.URL.Path):
		c.counted("unknown", c.unknown).ServeHTTP(w, r) // the mux would redirect, in HTML
	default:
		c.mux.ServeHTTP(w, r)
	}
}

// methodOf tells whether a method is one of its path. Nearly everything is only read.
func methodOf(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
		return r.URL.Path == "/v1/holds" || r.URL.Path == "/v1/breakers"
	case http.MethodDelete:
		return strings.HasPrefix(r.URL.Path, "/v1/holds/")
	}
	return false
}

func clean(p string) bool {
	cleaned := path.Clean(p)
	return strings.HasPrefix(p, "/") && (p == cleaned || p == cleaned+"/" && cleaned != "/")
}

func (c *console) index(w http.ResponseWriter, r *http.Request) {
	if _, err := read(r); err != nil {
		failWith(w, err)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Eider  string     `json:"eider"`
		Node   eider.Node `json:"node"`
		Routes []route    `json:"routes"`
	}{c.cfg.Version, c.reg.Node(), c.routes})
}

func (c *console) unknown(w http.ResponseWriter, r *http.Request) {
	var paths []string
	for _, rt := range c.routes {
		paths = append(paths, rt.Path)
	}
	slices.Sort(paths)
	failWith(w, eider.Errorf(eider.NotFound, "", "nothing is at %.80q; here are %s", r.URL.Path, strings.Join(paths, ", ")))
}

// healthz asks the node itself: one that is wedged doesn't answer, which is what a probe's timeout is for.
func (c *console) healthz(w http.ResponseWriter, _ *http.Request) {
	node := c.reg.Node()
	writeJSON(w, http.StatusOK, map[string]string{"status": "alive", "node": node.Name})
}

func (c *console) readyz(w http.ResponseWriter, _ *http.Request) {
	var reasons []string
	if c.cfg.Pending != nil {
		reasons = c.cfg.Pending()
	}
	node := c.reg.Node()
	if !node.Ready && len(reasons) == 0 {
		reasons = []string{"the node isn't running: it is starting or stopping"}
	}
	status, word := http.StatusOK, "ready"
	if len(reasons) > 0 {
		status, word = http.StatusServiceUnavailable, "not ready"
	}
	writeJSON(w, status, struct {
		Status   string   `json:"status"`
		Reasons  []string `json:"reasons,omitempty"`
		Complete bool     `json:"complete"`       // false: views may lack instances that haven't attached again yet
		Void     []string `json:"void,omitempty"` // what voids the node's bounds now
	}{word, reasons, node.Complete, node.Void})
}

// writeJSON encodes first, so that a fault of ours is a 500 and not half an answer.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // nosniff and the type say that this is no page
	if err := enc.Encode(v); err != nil {
		fail(w, http.StatusInternalServerError, eider.Internal, "the answer can't be written as JSON: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the asker has gone; there is nobody to tell
}
