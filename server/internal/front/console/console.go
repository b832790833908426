// Package console is the front for people, scripts and Prometheus: what one node knows, as JSON, as an
// event stream and as metrics, read only.
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
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eiderhq/eider"
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
	Heartbeat  time.Duration // 0 means 15s; the longest silence on an event stream
	MaxBytes   int           // 0 means 4 MiB; of items in one answer, the rest is asked for with after= (16 MiB for /v1/sd)

	Collectors []prometheus.Collector // further metrics of this node, for /metrics
	Logger     *slog.Logger           // nil means slog.Default()
}

// Bounds on what one request may ask for.
const (
	maxQuery   = 2048             // bytes of query
	maxLimit   = 10_000           // items in one answer
	someLimit  = 1_000            // items in one answer when none are asked for
	maxWait    = 60 * time.Second // how long a request may wait for a change
	writeGrace = 10 * time.Second // a reader that takes nothing for so long has gone
)

// console is the front. It starts nothing and holds nothing but its metrics.
type console struct {
	reg     replica.Reader
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
	serve http.HandlerFunc
}

// New returns the handler of everything below /. It starts nothing.
func New(reg replica.Reader, cfg Config) http.Handler {
	cfg.Version = cmp.Or(cfg.Version, "unknown")
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, 64)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 15*time.Second)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 4<<20)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	c := &console{reg: reg, cfg: cfg, hosts: map[string]bool{"localhost": true}, mux: http.NewServeMux()}
	for _, host := range cfg.Hosts {
		c.hosts[strings.ToLower(host)] = true
	}
	c.streams = make(chan struct{}, cfg.MaxStreams)
	c.metrics = newMetrics(reg, cfg, func() int { return len(c.streams) })
	c.routes = []route{
		{"/", "what is here", c.index},
		{"/v1/services", "every service at a glance: ?limit= &after=", c.services},
		{"/v1/services/{service}", "one service: its instances, and who of them ended lately: ?limit= &after= &wait= (with If-None-Match)", c.view},
		{"/v1/callers", "who calls, and how far behind they are: ?service= &limit= &after=", c.callers},
		{"/v1/drains", "planned departures, running and past: ?service= &limit=", c.drains},
		{"/v1/events", "what happened, in order; a stream with Accept: text/event-stream: ?service= &after= &last= &limit=", c.events},
		{"/v1/sd", "instances that are UP, for Prometheus' http_sd_configs: ?service= &port=", c.discovery},
		{"/healthz", "200 while this process answers", c.healthz},
		{"/readyz", "200 when this node is ready, else 503 with the reasons", c.readyz},
		{"/metrics", "metrics for Prometheus", promhttp.HandlerFor(c.metrics.gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true}).ServeHTTP},
	}
	for _, rt := range c.routes {
		pattern := rt.Path
		if pattern == "/" {
			pattern = "/{$}"
		}
		c.mux.Handle(pattern, c.counted(rt.Path, rt.serve))
	}
	c.mux.Handle("/", c.counted("unknown", c.unknown))
	return c
}

// ServeHTTP turns away what must not come in, and hands the rest to its route.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	switch {
	case !c.known(r.Host):
		c.metrics.refuse("host")
		fail(w, http.StatusForbidden, eider.Invalid, fmt.Sprintf("this node doesn't answer to %.80q: ask for it as localhost or by its loopback address, as in http://127.0.0.1:8761/", r.Host))
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
		c.metrics.refuse("cross-site")
		fail(w, http.StatusForbidden, eider.Invalid, "a page of another site asked: only programs and pages of this node may")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
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

func clean(p string) bool {
	cleaned := path.Clean(p)
	return strings.HasPrefix(p, "/") && (p == cleaned || p == cleaned+"/" && cleaned != "/")
}

// known tells whether a request may name this node so. A browser that was led here by a stranger's name
// (DNS rebinding) names the stranger's; no name at all is no browser.
func (c *console) known(host string) bool {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	} else if name, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(name, "]"); !ok {
			return false
		}
	}
	if host == "" || c.hosts[strings.ToLower(host)] {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
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
