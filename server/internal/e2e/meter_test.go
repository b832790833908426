package e2e

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/meter"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// TestAMeterHasEveryMetric: one process that serves and calls, through a crash, a leave and an outage.
func TestAMeterHasEveryMetric(t *testing.T) {
	n := startNode(t, node.Settings{})
	counts := &meter.Meter{}
	reg := registry.Open(registry.Config{Addr: n.grpc, Meter: counts, Rosters: t.TempDir(), Logger: quiet})
	defer reg.Close()
	if _, err := reg.Register(registry.Registration{Service: "checkout", ID: "c", Address: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	paid := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "paid") })
	startInstance(t, n.grpc, "orders", "a", paid)
	b := startInstance(t, n.grpc, "orders", "b", paid)
	dead := registry.Open(registry.Config{Addr: n.grpc, Logger: quiet}) // registered, and nobody is at its port
	defer dead.Close()
	if _, err := dead.Register(registry.Registration{Service: "orders", ID: "dead", Address: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	tr := &eiderhttp.Transport{Registry: reg, Fleet: &fleet.Config{}}
	defer tr.Close()
	hc := &http.Client{Transport: tr, Timeout: patience}
	value := func(metric, service, label string) float64 { return valueOf(counts, metric, service, label) }
	requests := 0.0
	until := func(what string, so func() bool) {
		t.Helper()
		for begun := time.Now(); !so(); requests++ {
			if resp, err := hc.Get("http://orders/"); err != nil {
				t.Fatal(err)
			} else {
				resp.Body.Close()
			}
			if time.Since(begun) > patience {
				t.Fatalf("never: %s: %s", what, counts)
			}
		}
	}
	until("a refused dial", func() bool { return value(meter.Retries, "orders", "refused") > 0 })
	until("listed", func() bool { return value(meter.ListedSeconds, "checkout", "c") > 0 })
	until("with the fleet", func() bool { return value(meter.FleetParted, "orders", "") == 0 })
	b.leave()
	until("let go", func() bool { return value(meter.LetGo, "orders", "") == 1 })
	retries := value(meter.Retries, "orders", "refused")
	if got := value(meter.Tries, "orders", ""); got != requests+retries {
		t.Errorf("%v tries of %v requests and %v retries", got, requests, retries)
	}
	if took := value(meter.LetGoSeconds, "orders", ""); took <= 0 || took > patience.Seconds() {
		t.Errorf("letting go took %v s", took)
	}
	if age, up := value(meter.ViewAge, "orders", ""), value(meter.StreamUp, "", "watch"); age != 0 || up != 1 {
		t.Errorf("connected: the list is %v s old, the stream is %v", age, up)
	}
	describesAll(t, counts)
	n.stop()
	until("an outage", func() bool { return value(meter.ViewAge, "orders", "") > 0 && value(meter.UnlistedCounts, "", "") == 1 })
	if up, listed := value(meter.StreamUp, "", "watch"), value(meter.ListedSeconds, "checkout", "c"); up != 0 || listed != 0 {
		t.Errorf("without a registry the stream is %v, the instance listed for %v s", up, listed)
	}
	tr.Close()
	if got := value(meter.ViewAge, "orders", ""); got != -1 {
		t.Errorf("a closed roster tells of its list: %v", got)
	}
}

// valueOf returns what a sample says; -1 if there is none.
func valueOf(counts *meter.Meter, metric, service, label string) float64 {
	for _, s := range counts.Samples() {
		if s.Metric == metric && s.Service == service && s.Label == label {
			return s.Value
		}
	}
	return -1
}

// describesAll holds samples to what is described, both ways.
func describesAll(t *testing.T, counts *meter.Meter) {
	t.Helper()
	var names []string
	for _, s := range counts.Samples() {
		names = append(names, s.Metric)
	}
	for _, m := range meter.Metrics() {
		if !slices.Contains(names, m.Name) {
			t.Errorf("%s has no sample", m.Name)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == m.Name })
	}
	if len(names) > 0 {
		t.Errorf("%v aren't described", names)
	}
}
