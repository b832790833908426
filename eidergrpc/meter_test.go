package eidergrpc

import (
	"testing"

	"google.golang.org/grpc/balancer"

	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/meter"
)

// told is what a Meter says of orders.
func told(m *meter.Meter, metric, label string) float64 {
	for _, s := range m.Samples() {
		if s.Metric == metric && s.Service == "orders" && s.Label == label {
			return s.Value
		}
	}
	return 0
}

// Every try is counted, and by what the one before failed of; those that gRPC makes by itself too.
func TestTriesAreCountedWithTheirReasons(t *testing.T) {
	for cause, start := range map[Cause]func(*testing.T) string{
		Refused:       func(t *testing.T) string { return fake.DeadPort(t) },
		Cut:           func(t *testing.T) string { return newFrames(t, func(f *frames) { f.conn.Close() }) },
		RefusedStream: func(t *testing.T) string { return newRefusing(t) },
	} {
		t.Run(cause.String(), func(t *testing.T) {
			w := newWorld(t)
			addr, _ := serve(t, &parrot{name: "b"})
			w.Set("orders", fake.Up("orders", "a", start(t)), fake.Spare("orders", "b", addr))
			wantSay(t, w.client(Config{Idempotent: []string{sayMethod}}, "orders"), "b")
			if n, again := told(&w.counts, meter.Tries, ""), told(&w.counts, meter.Retries, cause.String()); n != 2 || again != 1 {
				t.Errorf("%v tries, of them %v after %q; want 2 and 1: %s", n, again, cause, &w.counts)
			}
		})
	}
}

// A connection that ends between the pick and the stream costs a try.
func TestAPickThatCameTooLateIsCounted(t *testing.T) {
	p, ctx := eiderPicker(t)
	info := balancer.PickInfo{FullMethodName: sayMethod, Ctx: ctx}
	r, err := p.Pick(info)
	if err != nil {
		t.Fatal(err)
	}
	r.Done(balancer.DoneInfo{}) // gRPC's word for that
	pickOnce(t, p, info)
	if m := p.(*picker).cl.reg.Meter(); told(m, meter.Tries, "") != 2 || told(m, meter.Retries, "unopened") != 1 {
		t.Errorf("%s", m)
	}
}
