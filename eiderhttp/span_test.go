package eiderhttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
)

// recorder keeps spans, as an SDK would.
type recorder struct {
	noop.TracerProvider
	mu    sync.Mutex
	spans []*recorded
}

type recordingTracer struct {
	noop.Tracer
	r *recorder
}

type recorded struct {
	noop.Span
	r       *recorder
	name    string
	kind    trace.SpanKind
	context trace.SpanContext
	parent  trace.SpanContext
	about   map[attribute.Key]attribute.Value
	events  []string
	status  codes.Code
	why     string
	ends    int
}

func (r *recorder) Tracer(name string, _ ...trace.TracerOption) trace.Tracer {
	return recordingTracer{r: r}
}

func (t recordingTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	cfg := trace.NewSpanStartConfig(options...)
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	n := byte(len(t.r.spans) + 1)
	s := &recorded{r: t.r, name: name, kind: cfg.SpanKind(), parent: trace.SpanContextFromContext(ctx), about: map[attribute.Key]attribute.Value{}}
	s.context = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{n}, TraceFlags: trace.FlagsSampled})
	t.r.spans = append(t.r.spans, s)
	s.set(cfg.Attributes())
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recorded) set(about []attribute.KeyValue) {
	for _, a := range about {
		s.about[a.Key] = a.Value
	}
}

func (s *recorded) SpanContext() trace.SpanContext { return s.context }
func (s *recorded) IsRecording() bool              { return true }

func (s *recorded) SetAttributes(about ...attribute.KeyValue) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.set(about)
}

func (s *recorded) AddEvent(name string, options ...trace.EventOption) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	text := name
	cfg := trace.NewEventConfig(options...)
	for _, a := range cfg.Attributes() {
		switch a.Key {
		case "eider.instance.id", "error.type", "eider.trial":
			text += " " + a.Value.String()
		}
	}
	s.events = append(s.events, text)
}

func (s *recorded) SetStatus(code codes.Code, why string) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.status, s.why = code, why
}

func (s *recorded) End(...trace.SpanEndOption) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.ends++
}

// only returns the span of the only request so far, and forgets it.
func (r *recorder) only(t *testing.T) *recorded {
	t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		r.mu.Lock()
		if len(r.spans) == 1 && r.spans[0].ends > 0 || time.Now().After(end) {
			break
		}
		r.mu.Unlock()
	}
	defer r.mu.Unlock()
	if len(r.spans) != 1 || r.spans[0].ends != 1 {
		t.Fatalf("%d spans, want one that has ended once: %+v", len(r.spans), r.spans)
	}
	s := r.spans[0]
	r.spans = nil
	return s
}

// is compares attributes, as "key=value" each.
func (s *recorded) is(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		key, value, _ := strings.Cut(w, "=")
		if got, ok := s.about[attribute.Key(key)]; (value == "-") == ok || ok && got.String() != value {
			t.Errorf("%s is %q (%v), want %q", key, got.String(), ok, value)
		}
	}
}

func TestASpanForARequest(t *testing.T) {
	cut := fake.Script(t, func(n int, c net.Conn) { c.Read(make([]byte, 1)) })
	well := serve(t, "well", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
		case "/half":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half")
		default:
			io.WriteString(w, r.Header.Get("Traceparent"))
		}
	})
	spans := &recorder{}
	w := newWorld(t, &Transport{TracerProvider: spans, Propagator: propagation.TraceContext{}})
	a, b, c := fake.Up("orders", "a", fake.DeadPort(t)), fake.Spare("orders", "b", well.addr()), fake.Up("orders", "a", cut.Addr().String())

	w.Set("orders", a, b)
	w.want("200 00-07000000000000000000000000000000-0100000000000000-01", "POST", "http://orders/pay?card=4711", "body")
	s := spans.only(t)
	if s.name != "POST" || s.kind != trace.SpanKindClient || s.status != codes.Unset {
		t.Errorf("the span is %s %s %s %s", s.name, s.kind, s.status, s.why)
	}
	s.is(t, "http.request.method=POST", "server.address=orders", "url.full=http://orders/pay", "http.response.status_code=200",
		"http.request.resend_count=1", "eider.instance.id=b", "network.peer.address=127.0.0.1", "error.type=-")
	if got, want := strings.Join(s.events, "; "), "try a; try failed a refused; try b"; got != want {
		t.Errorf("its events are %q, want %q", got, want)
	}

	w.Apply("orders", b)
	w.want("418 ", "GET", "http://orders/teapot", "")
	s = spans.only(t)
	s.is(t, "http.response.status_code=418", "error.type=418", "http.request.resend_count=-")
	if s.status != codes.Error {
		t.Errorf("a 418 is %s", s.status)
	}
	if _, err := w.fetch("GET", "http://orders/half", ""); err == nil {
		t.Error("half an answer is one")
	}
	s = spans.only(t)
	s.is(t, "http.response.status_code=200", "error.type=cut")

	w.Apply("orders", c)
	if _, err := w.fetch("POST", "http://orders/pay", "body"); err == nil {
		t.Error("a cut POST is sent again")
	}
	s = spans.only(t)
	s.is(t, "error.type=cut", "http.response.status_code=-")
	if s.status != codes.Error || len(s.events) != 2 {
		t.Errorf("a cut request is %s, with %q", s.status, s.events)
	}
	w.Apply("orders", fake.Gone(c), fake.Gone(b))
	w.fetch("BREW", "http://orders/", "")
	s = spans.only(t)
	s.is(t, "http.request.method=_OTHER", "error.type="+eider.NoInstance.String())
	if s.name != "HTTP" {
		t.Errorf("a method of a stranger's names the span: %s", s.name)
	}
}

// What Wrap makes is below the request's span, and without a provider the trace that the context has is handed on.
func TestTracesGoOn(t *testing.T) {
	well := serve(t, "well", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("Traceparent")) })
	spans := &recorder{}
	var below trace.SpanContext
	wrap := func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			below = trace.SpanContextFromContext(req.Context())
			return next.RoundTrip(req)
		})
	}
	w := newWorld(t, &Transport{TracerProvider: spans, Wrap: wrap})
	w.Set("orders", fake.Up("orders", "a", well.addr()))
	w.want("200 ", "GET", "http://orders/", "") // no propagator: nothing is written
	if s := spans.only(t); !below.Equal(s.context) {
		t.Errorf("Wrap is below %v, want %v", below, s.context)
	}
	w = newWorld(t, &Transport{Propagator: propagation.TraceContext{}})
	w.Set("orders", fake.Up("orders", "a", well.addr()))
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	req, err := http.NewRequestWithContext(trace.ContextWithSpanContext(t.Context(), own), "GET", "http://orders/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.do(req); err != nil || got != "200 00-01000000000000000000000000000000-0200000000000000-00" {
		t.Errorf("without a provider: %q, %v", got, err)
	}
	if len(req.Header) != 0 {
		t.Errorf("the caller's own request has changed: %v", req.Header)
	}
}

// An untraced request pays nothing: as many allocations as one by a Transport that knows of no tracing has.
func TestUntracedCostsNothing(t *testing.T) {
	a := serve(t, "", nil)
	least := func(tr *Transport) float64 {
		w := newWorld(t, tr)
		w.Set("orders", fake.Up("orders", "a", a.addr()))
		roundTrip(t, tr, "GET", "http://orders/pay", nil)
		return allocations(func() { roundTrip(t, tr, "GET", "http://orders/pay", nil) })
	}
	off, on := least(&Transport{}), least(&Transport{TracerProvider: noop.NewTracerProvider()})
	t.Logf("%.0f allocations, %.0f with a provider that does nothing", off, on)
	if off >= on {
		t.Errorf("untraced %.0f allocations, traced %.0f", off, on)
	}
}
