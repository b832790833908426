package meter_test

import (
	"encoding/json"
	"expvar"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiderhq/eider/meter"
)

var _ expvar.Var = (*meter.Meter)(nil)

// value returns what a sample says; -1 if there is none.
func value(all []meter.Sample, metric, service, label string) float64 {
	for _, s := range all {
		if s.Metric == metric && s.Service == service && s.Label == label {
			return s.Value
		}
	}
	return -1
}

func TestCounts(t *testing.T) {
	m := &meter.Meter{}
	s := m.Service("orders")
	s.Picked(false)
	s.Picked(true)
	s.Nobody()
	s.Tried("")
	s.Tried("refused")
	s.LetGo(1500 * time.Millisecond)
	s.Fleet()
	s.Parted()
	s.FleetRejected(true)
	s.FleetRejected(true)
	s.FleetRejected(false)
	m.Service("stock").Picked(false)
	m.Opened("watch")
	forget := m.State(func(emit func(meter.Sample)) { emit(meter.Sample{Metric: meter.ViewAge, Service: "orders", Value: 3}) })
	m.State(func(emit func(meter.Sample)) { emit(meter.Sample{Metric: meter.ViewAge, Service: "orders", Value: 7}) })
	all := m.Samples()
	for _, row := range []struct {
		metric, service, label string
		want                   float64
	}{
		{meter.Picks, "orders", "", 2}, {meter.SuspectPicks, "orders", "", 1}, {meter.Nobody, "orders", "", 1}, {meter.Tries, "orders", "", 2},
		{meter.Retries, "orders", "refused", 1}, {meter.LetGo, "orders", "", 1}, {meter.LetGoSeconds, "orders", "", 1.5},
		{meter.FleetPartings, "orders", "", 1}, {meter.FleetRejected, "orders", "fleet", 2}, {meter.FleetRejected, "orders", "own", 1},
		{meter.FleetRejected, "stock", "fleet", -1}, {meter.Picks, "stock", "", 1}, {meter.StreamsOpened, "", "watch", 1}, {meter.ViewAge, "orders", "", 7},
	} {
		if got := value(all, row.metric, row.service, row.label); got != row.want {
			t.Errorf("%s of %q %q is %v, want %v", row.metric, row.service, row.label, got, row.want)
		}
	}
	ages := 0
	for _, s := range all {
		if s.Metric == meter.ViewAge {
			ages++
		}
	}
	if ages != 1 {
		t.Errorf("what two say of one service is told %d times", ages)
	}
	forget()
	if got := value(m.Samples(), meter.ViewAge, "orders", ""); got != 7 {
		t.Errorf("without one of the two it is %v", got)
	}
	var read []meter.Sample
	if err := json.Unmarshal([]byte(m.String()), &read); err != nil || !cmp.Equal(read, m.Samples()) {
		t.Errorf("String says %s (%v)", m, err)
	}
}

// Whoever sets no Meter counts nothing, and asks nobody whether there is one.
func TestNoMeter(t *testing.T) {
	var m *meter.Meter
	s := m.Service("orders")
	s.Picked(true)
	s.Nobody()
	s.Tried("cut")
	s.LetGo(time.Second)
	s.Fleet()
	s.Parted()
	s.FleetRejected(true)
	m.Opened("watch")
	m.State(nil)()
	if m.Samples() != nil || m.String() != "null" {
		t.Errorf("it says %s", m)
	}
}

func TestCountingIsExactAndAllocatesNothing(t *testing.T) {
	m := &meter.Meter{}
	s := m.Service("orders")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				s.Picked(true)
				s.Tried("")
			}
		})
	}
	all.Wait()
	if got := value(m.Samples(), meter.SuspectPicks, "orders", ""); got != 8000 {
		t.Errorf("8000 picks are %v", got)
	}
	s.Tried("cut")
	if n := testing.AllocsPerRun(1000, func() { s.Picked(true); s.Tried(""); s.Tried("cut"); s.LetGo(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPicked(b *testing.B) {
	s := (&meter.Meter{}).Service("orders")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Picked(false)
		}
	})
}
