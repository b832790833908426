package eidergrpc

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/eiderhq/eider/internal/fake"
)

// recorder keeps spans, as an SDK would.
type recorder struct {
	noop.TracerProvider
	mu    sync.Mutex
	spans []*recorded
}

type tracer struct {
	noop.Tracer
	r *recorder
}

type recorded struct {
	noop.Span
	r      *recorder
	name   string
	attrs  map[attribute.Key]attribute.Value
	events []string
	code   codes.Code
	ended  int
}

func (r *recorder) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{r: r} }

func (t tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	cfg := trace.NewSpanStartConfig(opts...)
	s := &recorded{r: t.r, name: name, attrs: map[attribute.Key]attribute.Value{}}
	s.SetAttributes(cfg.Attributes()...)
	t.r.mu.Lock()
	t.r.spans = append(t.r.spans, s)
	t.r.mu.Unlock()
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recorded) IsRecording() bool { return true }

func (s *recorded) SpanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
}

func (s *recorded) SetAttributes(kv ...attribute.KeyValue) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	for _, a := range kv {
		s.attrs[a.Key] = a.Value
	}
}

func (s *recorded) AddEvent(name string, _ ...trace.EventOption) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.events = append(s.events, name)
}

func (s *recorded) SetStatus(c codes.Code, _ string) { s.code = c }
func (s *recorded) End(...trace.SpanEndOption) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.ended++
}

func TestACallIsOneSpanOverItsTries(t *testing.T) {
	w := newWorld(t)
	b := &parrot{name: "b"}
	addr, _ := serve(t, b)
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Spare("orders", "b", addr))
	r := &recorder{}
	cc := w.client(Config{TracerProvider: r, Propagator: propagation.TraceContext{}}, "orders")
	wantSay(t, cc, "b")
	s := open(t, cc)
	if _, err := s.say("x"); err != nil {
		t.Fatal(err)
	}
	s.CloseSend()
	if err := s.RecvMsg(new(any)); err != io.EOF {
		t.Fatal(err)
	}
	if len(r.spans) != 2 {
		t.Fatalf("%d spans; want one a call", len(r.spans))
	}
	one := r.spans[0]
	if one.name != "test.Echo/Say" || one.ended != 1 || one.code != codes.Unset || !slices.Equal(one.events, []string{"try", "try failed", "try"}) {
		t.Errorf("%+v", one)
	}
	for key, want := range map[attribute.Key]string{"rpc.service": "test.Echo", "rpc.method": "Say", "rpc.system": "grpc", "eider.instance.id": "b"} {
		if got := one.attrs[key].AsString(); got != want {
			t.Errorf("%s is %q; want %q", key, got, want)
		}
	}
	if n := one.attrs["eider.tries"].AsInt64(); n != 2 {
		t.Errorf("%d tries; want 2", n)
	}
	if r.spans[1].ended != 1 {
		t.Errorf("the stream's span has ended %d times", r.spans[1].ended)
	}
	if md := b.seen[0]; len(md["traceparent"]) != 1 || len(md[keyTo]) != 1 {
		t.Errorf("metadata %v", md)
	}
}

func TestAFailedCallsSpanSaysSo(t *testing.T) {
	w := newWorld(t)
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)))
	r := &recorder{}
	if _, err := say(t, w.client(Config{TracerProvider: r}, "orders")); err == nil {
		t.Fatal("it was answered")
	}
	if s := r.spans[0]; s.code != codes.Error || s.ended != 1 {
		t.Errorf("%+v", s)
	}
}
