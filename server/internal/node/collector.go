package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/front/native"
	"github.com/eiderhq/eider/server/internal/panel"
	"github.com/eiderhq/eider/server/internal/replica/solo"
)

// collectors show what the native front holds and has refused, on the console's /metrics.
func collectors(srv *native.Server, g *gate) []prometheus.Collector {
	gauge := func(name, help string, of func(native.Stats) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(of(srv.Stats())) })
	}
	counter := func(name, help string, of func(native.Stats) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(of(srv.Stats())) })
	}
	handshakes := func(resumed string, of func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eider_tls_handshakes_total", Help: "TLS handshakes on every port: in full, or resumed from an earlier one.",
			ConstLabels: prometheus.Labels{"resumed": resumed}}, func() float64 { return float64(of()) })
	}
	return []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eider_access_denied_total", Help: "Streams and requests of those who aren't let in or lack the role, on every port."},
			func() float64 { return float64(g.audit.Refusals()) }),
		handshakes("false", func() int64 { full, _ := g.certs.Handshakes(); return full }),
		handshakes("true", func() int64 { _, resumed := g.certs.Handshakes(); return resumed }),
		gauge("eider_native_connections", "Open connections of the native protocol.", func(s native.Stats) int64 { return s.Connections }),
		gauge("eider_native_streams", "Open streams of the native protocol.", func(s native.Stats) int64 { return s.Streams }),
		counter("eider_native_turned_away_total", "Connections closed at once because --max-connections was reached.", func(s native.Stats) int64 { return s.TurnedAway }),
		counter("eider_native_limited_total", "Streams and registrations told to come back later, by a limit or rate.", func(s native.Stats) int64 { return s.Limited }),
		counter("eider_native_dropped_total", "Streams dropped because their process didn't read what was sent.", func(s native.Stats) int64 { return s.Dropped }),
	}
}

// diskCollectors show how the node's memory fares; without one all are 0.
func diskCollectors(r *solo.Registry) []prometheus.Collector {
	gauge := func(name, help string, of func(solo.DiskStats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			stats, _ := r.Disk()
			return of(stats)
		})
	}
	return []prometheus.Collector{
		gauge("eider_disk_failing", "1 while what the node learns can't be kept in --data.", func(s solo.DiskStats) float64 {
			if s.Failing {
				return 1
			}
			return 0
		}),
		gauge("eider_disk_bytes", "Bytes of the files in --data.", func(s solo.DiskStats) float64 { return float64(s.Bytes) }),
		gauge("eider_disk_pieces", "Instances, ends of instances and callings kept in --data.", func(s solo.DiskStats) float64 { return float64(s.Keys) }),
		gauge("eider_disk_written_timestamp_seconds", "When --data was last written to, since 1970.", func(s solo.DiskStats) float64 {
			if s.Written.IsZero() {
				return 0
			}
			return float64(s.Written.UnixNano()) / 1e9
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eider_disk_errors_total", Help: "Failed writes to --data."}, func() float64 {
			stats, _ := r.Disk()
			return float64(stats.Errors)
		}),
	}
}

// doorCollectors are the metrics of connections to the HTTP ports.
func doorCollectors(doors []*door) []prometheus.Collector {
	sum := func(of func(doorCounts) int64) func() float64 {
		return func() float64 {
			total := int64(0)
			for _, d := range doors {
				total += of(d.stats())
			}
			return float64(total)
		}
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "eider_http_connections", Help: "Open connections of --http and --metrics."},
			sum(func(c doorCounts) int64 { return int64(c.open) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eider_http_shed_total", Help: "Connections without a request, closed for another because --max-http-connections or an address' tenth was reached."},
			sum(func(c doorCounts) int64 { return c.shed })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eider_http_turned_away_total", Help: "Connections closed at once because --max-http-connections or an address' tenth was reached, and all had a request."},
			sum(func(c doorCounts) int64 { return c.turnedAway })),
	}
}

// panelCollectors show what a node keeps for breakers that callers share.
func panelCollectors(p *panel.Panel) (all []prometheus.Collector) {
	counter := func(name, help string, of func(panel.Stats) int64, labels ...string) {
		opts := prometheus.CounterOpts{Name: name, Help: help}
		if len(labels) > 0 {
			opts.ConstLabels = prometheus.Labels{labels[0]: labels[1]}
		}
		all = append(all, prometheus.NewCounterFunc(opts, func() float64 { return float64(of(p.Stats())) }))
	}
	for i := range eider.BreakerStates {
		state := eider.BreakerState(i)
		if state == eider.BreakerMetricsOnly {
			continue // a caller's own only
		}
		counter("eider_fleet_turns_total", "Changes of breakers that callers share, by the state that they came to.", func(s panel.Stats) int64 { return s.Turns[state] }, "state", state.String())
	}
	counter("eider_fleet_tells_total", "Counts that callers have told of breakers that they share.", func(s panel.Stats) int64 { return s.Tells })
	counter("eider_fleet_swaps_total", "Records of breakers that callers share, replaced.", func(s panel.Stats) int64 { return s.Swaps })
	counter("eider_fleet_swaps_refused_total", "Swaps of records that somebody else had replaced.", func(s panel.Stats) int64 { return s.Refused })
	counter("eider_fleet_full_total", "Questions refused because --max-fleet-keys was reached.", func(s panel.Stats) int64 { return s.Full })
	return append(all, fleetStates{p, prometheus.NewDesc("eider_fleet_breakers", "Breakers that callers share, by state. unreadable: something else is written under their key.", []string{"state"}, nil)})
}

// fleetStates answers a scrape with the breakers that callers share, by state.
type fleetStates struct {
	panel *panel.Panel
	desc  *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (f fleetStates) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }

// Collect implements [prometheus.Collector].
func (f fleetStates) Collect(ch chan<- prometheus.Metric) {
	for i, n := range f.panel.States() {
		word := "unreadable"
		if i < eider.BreakerStates {
			word = eider.BreakerState(i).String()
		}
		if i != int(eider.BreakerMetricsOnly) {
			ch <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, float64(n), word)
		}
	}
}
