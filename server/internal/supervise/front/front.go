// Package front answers: how does a program take part in a drain that can't say that it is leaving, and can't be counted?
//
// By a reverse proxy before it, HTTP/1 and HTTP/2 without TLS, that is served by drain.Serve: Eider-Leaving, Connection:
// close and the counting are drain's then, and this package only passes on. What the program gets is what it would have
// got without it, and X-Forwarded-For, -Proto and -Host; its connections come from this machine.
//
// Nothing is lost between the two: see idle.go for the connections to the program, and refuse for a program that
// doesn't answer.
package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/eiderhq/eider/server/internal/harmless"
)

// Front is the handler. Close it when nothing is served any more.
type Front struct {
	to    address
	log   *slog.Logger
	lines lines
	proxy httputil.ReverseProxy
}

// Handler stands before the program at to, of which only the host and the port count; no host means this machine's
// loopback.
func Handler(to *url.URL, log *slog.Logger) *Front {
	f := &Front{to: address{to.Hostname(), to.Port()}, log: log}
	f.lines = connect(f.to)
	f.proxy = httputil.ReverseProxy{
		Rewrite:       f.rewrite,
		Transport:     &f.lines,
		FlushInterval: -1, // at once: what waits here is a stream that stands still
		BufferPool:    &buffers{},
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug), // a client that went away, mostly; what is refused is told by refuse
		ErrorHandler:  f.refuse,
		ModifyResponse: func(answer *http.Response) error {
			unfinished(answer.Request, answer.Header)
			return nil
		},
	}
	return f
}

// Close closes the idle connections to the program.
func (f *Front) Close() { f.lines.close() }

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.proxy.ServeHTTP(w, r) }

// rewrite has the program see the request as it came.
func (f *Front) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host = "http", f.to.String()
	r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy drops what it can't parse: that is the program's to judge
	r.Out.Trailer = r.In.Trailer           // filled in at the body's end
	if r.Out.Body != nil {
		r.Out.Body = &body{ReadCloser: r.Out.Body, length: r.In.ContentLength}
	}
	for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"} {
		if came, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = came
		}
	}
	r.SetXForwarded()
	// Who stands further out knows better by which name and over what the client came.
	for _, name := range [...]string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
		if came, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = came
		}
	}
}

// refuse answers for a program that hasn't.
func (f *Front) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if b, ok := r.Body.(*body); r.Context().Err() != nil || ok && b.broke.Load() {
		panic(http.ErrAbortHandler) // its client has gone: an answer now, an empty 200, would be a lie
	}
	status, what := http.StatusBadGateway, "it may have acted upon the request"
	if refused(err) {
		what = "nothing was sent to it"
		if len(r.Header["Eider-Caller"]) > 0 {
			status = http.StatusMisdirectedRequest // by which its callers know that they may send it to another, whatever it is
		}
	}
	f.log.Warn("the program behind the front didn't answer", "program", f.to.String(), "method", r.Method, "status", status, "what", what, "err", harmless.Text(err.Error()))
	unfinished(r, w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "eider: the program at %s didn't answer: %.300s; %s.\n", f.to, harmless.Text(err.Error()), what)
}

// body is a request's: what the transport has read of it.
type body struct {
	io.ReadCloser
	length int64 // -1: unknown
	read   int64 // by one reader alone
	ended  atomic.Bool
	broke  atomic.Bool // by its client
}

func (b *body) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	b.read += int64(n)
	switch {
	case errors.Is(err, io.EOF), b.read == b.length: // the program may answer before the end has been read after the last byte
		b.ended.Store(true)
	case err != nil:
		b.broke.Store(true)
	}
	return n, err
}

// unfinished has an answer that comes before the end of the request's body end the connection. Else net/http has the
// answer wait for the body, of which a client that waits for the answer may send nothing more.
func unfinished(r *http.Request, answer http.Header) {
	if b, ok := r.Body.(*body); ok && r.ProtoMajor < 2 && !b.ended.Load() {
		answer.Set("Connection", "close")
	}
}

// refused tells whether nobody was reached.
func refused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// address is where the program listens.
type address struct{ host, port string }

func (a address) String() string {
	host := a.host
	if host == "" {
		host = "localhost"
	}
	return net.JoinHostPort(host, a.port)
}

// dial connects; without a host to either of the loopback's addresses, since the program may have got the one or
// the other, and not every root file system knows what localhost is.
func (a address) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	if a.host != "" && !strings.EqualFold(a.host, "localhost") {
		return d.DialContext(ctx, "tcp", a.String())
	}
	nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", a.port))
	if err == nil || ctx.Err() != nil {
		return nc, err
	}
	if six, err := d.DialContext(ctx, "tcp", net.JoinHostPort("::1", a.port)); err == nil {
		return six, nil
	}
	return nil, err
}

// buffers are what bodies are copied with.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if got, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return got[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buf []byte) {
	if len(buf) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(buf))
	}
}
