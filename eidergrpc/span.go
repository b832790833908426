package eidergrpc

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
)

// scope is how these spans say who makes them.
const scope = "github.com/eiderhq/eider/eidergrpc"

// span is the span of one call, over all its tries. A nil one does nothing, so that who isn't traced pays for one
// comparison.
type span struct {
	trace.Span
	tries int // under the call's lock
	over  atomic.Bool
}

// traced begins the span of a call, and writes its trace into the metadata; what isn't set isn't done.
func (cl *client) traced(ctx context.Context, method string) (context.Context, *span) {
	var p *span
	if tp := cl.set.TracerProvider; tp != nil {
		name := strings.TrimPrefix(method, "/")
		service, short, _ := strings.Cut(name, "/")
		made := (trace.Span)(nil)
		ctx, made = tp.Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", short)))
		p = &span{Span: made}
	}
	if cl.set.Propagator != nil {
		md, _ := metadata.FromOutgoingContext(ctx) // a copy
		if md == nil {
			md = metadata.MD{}
		}
		cl.set.Propagator.Inject(ctx, carrier(md))
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	return ctx, p
}

// try tells of a try that begins.
func (p *span) try(in *eider.Instance, trial bool) {
	if p == nil || !p.IsRecording() {
		return
	}
	p.tries++
	about := []attribute.KeyValue{attribute.String("eider.instance.id", in.ID), attribute.String("eider.instance.incarnation", in.Incarnation.String())}
	if host, port, err := net.SplitHostPort(in.Address); err == nil {
		number, _ := strconv.Atoi(port)
		about = append(about, attribute.String("network.peer.address", host), attribute.Int("network.peer.port", number))
	}
	p.SetAttributes(about...) // the last try's stay
	if trial {
		about = append(about, attribute.Bool("eider.trial", true))
	}
	p.AddEvent("try", trace.WithAttributes(about...))
}

// fault tells what a try has failed of.
func (p *span) fault(f *fault) {
	if p == nil || !p.IsRecording() {
		return
	}
	p.AddEvent("try failed", trace.WithAttributes(attribute.String("eider.instance.id", f.Key.ID),
		attribute.String("error.type", f.cause.String()), attribute.String("exception.message", f.Reason)))
}

// end ends the call, and its span with it, once.
func (c *call) end(err error) {
	if c.cl.set.Fleet != nil {
		c.mu.Lock()
		c.settle(err)
		c.mu.Unlock()
	}
	p := c.span
	if p == nil || p.over.Swap(true) {
		return
	}
	c.mu.Lock()
	p.SetAttributes(attribute.Int("eider.tries", p.tries))
	c.mu.Unlock()
	st := status.Convert(err)
	p.SetAttributes(attribute.Int("rpc.grpc.status_code", int(st.Code())))
	if err != nil {
		p.SetStatus(codes.Error, st.Message())
	}
	p.End()
}

// carrier is metadata as propagators write it.
type carrier metadata.MD

func (m carrier) Get(key string) string {
	if v := metadata.MD(m).Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (m carrier) Set(key, value string) { metadata.MD(m).Set(key, value) }

func (m carrier) Keys() []string {
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	return out
}
