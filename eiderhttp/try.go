package eiderhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/roster"
)

// try is one request to one instance, from the pick until its answer's body has ended. It is the request's context
// too (so that dials and attempts find it) and the answer's body: one allocation for all.
type try struct {
	context.Context // the caller's
	in              *instance
	begun           time.Time
	sent            http.Request // as this instance gets it
	url             url.URL
	trace           httptrace.ClientTrace
	traceKey        any                     // the context key of trace; nil if the context has it, joined to the caller's own
	cancel          context.CancelCauseFunc // nil if closing the connection does as well
	hangUp          <-chan struct{}         // Request.Cancel, which http.Client.Timeout still uses
	answer          answer
	span            *span // of the request, once its answer has come; nil: none

	choice roster.Choice
	pass   gate.Pass // of the request
	rest   gate.Pass // what this try ends of it: it has answered
	ended  atomic.Bool
	dialed atomic.Bool // a connection was dialled for it
	http2  bool        // it is sent by HTTP/2, as far as is known before there is a connection
	bodied bool        // it was sent with a body, if only an empty one
	brief  bool        // it is a trial, and can be sent again
	waits  bool        // it is meant to wait for its answer
	failed bool        // its answer says that the instance has

	mu       sync.Mutex  // guards what follows, which hooks and timers write
	attempts int         // that net/http began
	got      int         // connections that it was given
	silent   bool        // net/http wanted to send it again by itself
	conn     *conn       // the first one, nil if it isn't ours
	written  int64       // what had been written to it before
	stale    bool        // its peer had ended it
	come     bool        // the answer's header has, or the try has failed
	late     error       // which timeout ended it
	overall  *time.Timer // TryTimeout
	header   *time.Timer // HeaderTimeout
}

type tryKey struct{}

func tryOf(ctx context.Context) *try {
	y, _ := ctx.Value(tryKey{}).(*try)
	return y
}

func (y *try) Value(key any) any {
	switch key {
	case tryKey{}:
		return y
	case y.traceKey:
		if key != nil {
			return &y.trace
		}
	}
	return y.Context.Value(key)
}

// keyOfTrace finds out under which key httptrace keeps its hooks in a context. A try is a context already, and so
// needn't be wrapped in another one for them.
func keyOfTrace() any {
	probe := &asked{Context: context.Background()}
	httptrace.ContextClientTrace(probe)
	return probe.key
}

type asked struct {
	context.Context
	key any
}

func (a *asked) Value(key any) any {
	a.key = key
	return nil
}

var (
	errTryTimeout    = errors.New("no answer within TryTimeout")
	errHeaderTimeout = errors.New("no answer within HeaderTimeout")
	errTryEnded      = errors.New("the answer has been read")
	errLost          = errors.New("the other instance that it was sent to was the first to answer")
)

// begin makes a request ready for the chosen instance.
func (s *service) begin(req *http.Request, body *body, port string, choice roster.Choice, now time.Time, waits bool, pass gate.Pass) (*try, *fault) {
	in := choice.Companion().(*instance)
	//lint:ignore SA1019 whoever still sets Cancel is heard
	y := &try{Context: req.Context(), in: in, choice: choice, begun: now, hangUp: req.Cancel, pass: pass, waits: waits, brief: choice.Trial() && s.t.repeatable(req)}
	in.inFlight.Add(1)
	in.transport()
	logical := in.logical(port)
	if logical == "" {
		return nil, y.fail(y.noPort(port))
	}
	y.request(req, body, logical)
	return y, nil
}

// send sends what begin has made ready.
func (y *try) send(req *http.Request, body *body, span *span) (*http.Response, *fault) {
	resp, err := y.in.rt.RoundTrip(&y.sent)
	y.stop()
	if err != nil {
		return nil, y.fail(y.judge(err, body))
	}
	return y.answered(req, resp, span)
}

// request makes the request as this instance gets it; the caller's own is left as it is.
func (y *try) request(req *http.Request, body *body, logical string) {
	t, ctx := y.in.t, context.Context(y)
	y.url = *req.URL
	y.url.Scheme = strings.ToLower(req.URL.Scheme)
	y.url.Host = logical
	y.trace.GotConn = y.gotConn
	y.trace.WroteRequest = y.wrote
	mayHTTP2, surelyHTTP2 := t.mayHTTP2(y.url.Scheme)
	y.http2 = surelyHTTP2 || mayHTTP2 && y.in.talksHTTP2.Load()
	if t.TryTimeout > 0 || t.Hedge > 0 || mayHTTP2 || y.url.Scheme == "https" && t.tlsDialer() != nil {
		ctx, y.cancel = context.WithCancelCause(ctx)
	}
	if t.TryTimeout > 0 {
		y.mu.Lock()
		y.overall = time.AfterFunc(t.TryTimeout, func() { y.tooLate(errTryTimeout) })
		y.mu.Unlock()
	}
	if httptrace.ContextClientTrace(y.Context) == nil {
		y.traceKey = t.traceKey
	} else {
		ctx = httptrace.WithClientTrace(ctx, &y.trace)
	}
	y.sent = *req.WithContext(ctx) // a copy of a copy, but the first one never leaves the stack
	out := &y.sent
	out.URL = &y.url
	if out.Host == "" || strings.EqualFold(out.Host, req.URL.Host) {
		out.Host = y.in.service
	}
	out.Header = make(http.Header, len(req.Header)+2)
	for name, values := range req.Header {
		out.Header[name] = values
	}
	out.Header["Eider-Caller"] = t.caller
	out.Header["Eider-To"] = y.in.to
	if t.Propagator != nil {
		t.Propagator.Inject(y.Context, propagation.HeaderCarrier(out.Header))
	}
	out.GetBody = nil // net/http is not to repeat what it has begun to send
	if hasBody(req) {
		out.Body, y.bodied = body.take(req), true
	} else if y.http2 && !t.repeatable(req) {
		// net/http's HTTP/2 repeats a request without a body by itself and doesn't say after what: it takes
		// PROTOCOL_ERROR for unprocessed, which proxies send after having passed a request on. With an empty
		// body, which is the same to the peer, it hands out the error instead.
		out.Body, y.bodied = emptyBody{}, true
	}
}

// mayAttempt counts an attempt by net/http; false for one that would send again.
func (y *try) mayAttempt() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.attempts++; y.got > 0 || y.attempts > 8 {
		y.silent = true
		return false
	}
	return true
}

// gotConn is httptrace's GotConn. A second connection means that HTTP/2 sends again by itself; it looks at the
// context once more before it writes.
func (y *try) gotConn(info httptrace.GotConnInfo) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.got++; y.got > 1 {
		y.silent = true
		if y.cancel != nil {
			y.cancel(errSilent)
		}
		return
	}
	var raw net.Conn = info.Conn
	if secure, ok := raw.(*tls.Conn); ok {
		raw = secure.NetConn()
		if !info.Reused && secure.ConnectionState().NegotiatedProtocol == "h2" {
			y.in.talksHTTP2.Store(true)
			y.http2 = true
		}
	}
	if y.conn, _ = raw.(*conn); y.conn != nil {
		y.written = y.conn.written.Load()
		if y.conn.stale(info.Reused && !y.http2) {
			y.stale = true
			y.conn.Close() // the write fails, and nobody can doubt that nothing was written
		}
	}
}

// wrote is httptrace's WroteRequest. It may come after the answer, even after the end. From here on the answer's
// header is waited for: Transport.ResponseHeaderTimeout would do so too, for twice the allocations.
func (y *try) wrote(info httptrace.WroteRequestInfo) {
	if info.Err != nil {
		return
	}
	y.choice.Wrote()
	y.pass.Wrote()
	limit := y.limit()
	if limit == 0 {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if !y.come {
		y.header = time.AfterFunc(limit, y.headerTooLate)
	}
}

func (y *try) headerTooLate() { y.tooLate(errHeaderTimeout) }

// tooLate ends a try whose answer hasn't come.
func (y *try) tooLate(why error) {
	y.mu.Lock()
	if y.come || y.late != nil {
		y.mu.Unlock()
		return
	}
	y.late = why
	c := y.conn
	y.mu.Unlock()
	switch {
	case y.cancel != nil:
		y.cancel(why)
	case c != nil: // an HTTP/1 connection, this try's alone
		c.Close()
	}
}

// stop ends the waiting for an answer.
func (y *try) stop() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.come = true
	if y.overall != nil {
		y.overall.Stop()
	}
	if y.header != nil {
		y.header.Stop()
	}
}

// answered takes the header of an answer.
func (y *try) answered(req *http.Request, resp *http.Response, span *span) (*http.Response, *fault) {
	misdirected := resp.StatusCode == http.StatusMisdirectedRequest
	// Here and not at the first byte: the header follows at once, and until then the pick only holds up letting go.
	if y.failed = misdirected || y.in.t.failed(resp); y.failed {
		y.choice.Failed()
	} else {
		y.choice.Answered()
	}
	if said := resp.Header["Eider-Leaving"]; len(said) == 1 {
		if incarnation, err := eider.ParseIncarnation(said[0]); err == nil {
			y.choice.Leaving(incarnation)
		}
	}
	resp.Request = req
	y.answer = answer{ReadCloser: resp.Body, y: y, verdict: roster.Success}
	var flt *fault
	if misdirected {
		y.answer.verdict = roster.Failure
		flt = y.misdirected(resp)
	} else {
		span.answered(resp)
		y.span = span
	}
	switch rw, ok := resp.Body.(io.ReadWriteCloser); {
	case resp.Body == nil || resp.Body == http.NoBody:
		y.end(y.answer.verdict)
	case ok: // 101: the connection is the caller's now, both ways
		resp.Body = &duplex{&y.answer, rw}
	default:
		resp.Body = &y.answer
	}
	if flt != nil {
		return nil, flt
	}
	return resp, nil
}

// end ends the pick, once.
func (y *try) end(verdict roster.Outcome) {
	if y.ended.Swap(true) {
		return
	}
	y.in.exit()
	y.choice.Done(verdict)
	y.settle(outcome(verdict))
	y.span.ended(verdict == roster.Failure)
	if y.cancel != nil {
		y.cancel(errTryEnded)
	}
}

// answer is the body of an answer: the instance is in use until it has ended.
type answer struct {
	io.ReadCloser
	y       *try
	verdict roster.Outcome
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		a.y.end(a.verdict)
	case a.y.callerEnded() != nil:
		a.y.end(a.y.callerVerdict())
	default:
		a.y.end(roster.Failure)
	}
	return n, err
}

func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	a.y.end(a.verdict)
	return err
}

// duplex is the body of an answer that switches protocols.
type duplex struct {
	*answer
	io.Writer
}

// emptyBody is a body of no bytes that net/http doesn't know to be empty.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }
