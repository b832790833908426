package eiderhttp

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/eiderhq/eider"
)

// scope is how these spans say who makes them.
const scope = "github.com/eiderhq/eider/eiderhttp"

// span is the span of one request, over all its tries. A nil one does nothing, so that who isn't traced pays for
// one comparison.
type span struct {
	trace.Span
	sent int    // tries
	last string // what the last one failed of
}

// traced is send for who is traced. The request's own context gets the span, so that each try, and whatever Wrap
// puts around it, is below it; the span ends with the answer's body.
func (s *service) traced(req *http.Request, port string) (*http.Response, error) {
	name, method := req.Method, attribute.String("http.request.method", req.Method)
	switch {
	case name == "":
		name, method = http.MethodGet, attribute.String("http.request.method", http.MethodGet)
	case !slices.Contains(methods[:], name): // of a stranger's choice, hence without bound
		name, method = "HTTP", attribute.String("http.request.method", "_OTHER")
	}
	tracer := s.t.TracerProvider.Tracer(scope)
	ctx, made := tracer.Start(req.Context(), name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		method, attribute.String("server.address", s.name), attribute.String("url.full", fullURL(req))))
	p := &span{Span: made}
	resp, err := s.admit(req.WithContext(ctx), port, p)
	if err != nil {
		p.failed(err)
		return nil, err
	}
	resp.Request = req
	return resp, nil
}

// methods are those that semantic conventions know.
var methods = [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace, "QUERY"}

// fullURL is the URL without its query and user, which may be secret.
func fullURL(req *http.Request) string {
	_, full, _ := strings.Cut(operation(req), " ")
	return full
}

// try tells of a try that begins.
func (p *span) try(in *eider.Instance, trial bool) {
	if p == nil || !p.IsRecording() {
		return
	}
	about := make([]attribute.KeyValue, 0, 5)
	about = append(about, attribute.String("eider.instance.id", in.ID), attribute.String("eider.instance.incarnation", in.Incarnation.String()))
	if host, port, err := net.SplitHostPort(in.Address); err == nil {
		number, _ := strconv.Atoi(port)
		about = append(about, attribute.String("network.peer.address", host), attribute.Int("network.peer.port", number))
	}
	p.SetAttributes(about...) // the last try's stay
	if trial {
		about = append(about, attribute.Bool("eider.trial", true))
	}
	p.AddEvent("try", trace.WithAttributes(about...))
	p.sent++
}

// fault tells what a try has failed of.
func (p *span) fault(f *fault) {
	if p == nil || !p.IsRecording() {
		return
	}
	p.last = f.cause.String()
	p.AddEvent("try failed", trace.WithAttributes(attribute.String("eider.instance.id", f.instance.ID),
		attribute.String("error.type", p.last), attribute.String("exception.message", f.Reason)))
}

// failed ends the span of a request that has no answer.
func (p *span) failed(err error) {
	p.resent()
	p.SetAttributes(attribute.String("error.type", cmp.Or(p.last, eider.KindOf(err).String())))
	p.SetStatus(codes.Error, err.Error())
	p.End()
}

// answered takes the answer's header; the span ends with its body.
func (p *span) answered(resp *http.Response) {
	if p == nil {
		return
	}
	p.resent()
	p.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	if resp.StatusCode >= 400 {
		p.SetAttributes(attribute.String("error.type", strconv.Itoa(resp.StatusCode)))
		p.SetStatus(codes.Error, "")
	}
}

// ended ends the span with the answer's body.
func (p *span) ended(cut bool) {
	if p == nil {
		return
	}
	if cut {
		p.SetAttributes(attribute.String("error.type", Cut.String()))
		p.SetStatus(codes.Error, "the answer's body ended early")
	}
	p.End()
}

func (p *span) resent() {
	if p.sent > 1 {
		p.SetAttributes(attribute.Int("http.request.resend_count", p.sent-1))
	}
}
