package drain

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider/registry"
)

// connKey finds the connection, and by it the drain, in a request's context.
type connKey struct{}

// Started returns a channel that is closed when the drain begins that the request belongs to, so that
// a handler that runs long (a stream, a long poll) can end in good time. ctx is the request's context
// or derived from it; without a drain in it the channel is nil, which never is ready.
func Started(ctx context.Context) <-chan struct{} {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.book.d.started
	}
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c.self.d.started
	}
	return nil
}

// ServeHTTP stands before the user's handler.
func (d *drainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok || c.book.d != d {
		d.next.ServeHTTP(w, r) // called by the user's own hands, not by the server
		return
	}
	var x *exchange
	var writer http.ResponseWriter
	if r.ProtoMajor >= 2 {
		m := &multiplexed{exchange{ResponseWriter: w, conn: c, ctx: r.Context(), multiplexed: true}}
		x, writer = &m.exchange, m
	} else {
		p := &plain{exchange{ResponseWriter: w, conn: c, ctx: r.Context()}}
		x, writer = &p.exchange, p
	}
	x.method, x.path, x.remote = r.Method, r.URL.Path, r.RemoteAddr
	if caller := r.Header["Eider-Caller"]; len(caller) > 0 {
		x.caller = caller[0]
	}
	x.probe = x.caller == "" && d.set.probes(r)
	c.begin(x)
	defer x.end() // also on panic and Goexit
	if to, named := r.Header["Eider-To"]; named && !d.meant(to) {
		d.misdirected(writer, to)
	} else {
		delete(r.Header, "Eider-To") // it is for this hop: passed on by a proxy, it would be for somebody else
		d.arrived(x, r, named)
		d.next.ServeHTTP(writer, r)
	}
	if !x.wrote {
		x.head(http.StatusOK) // net/http is about to write it
	}
	x.returned = true
}

// exchange is one request in its handler. It is also the ResponseWriter's common part: it decides at
// the last moment, when headers are written, what they say about leaving.
type exchange struct {
	http.ResponseWriter // net/http's own, never a stranger's
	conn                *conn
	ctx                 context.Context // the request's
	multiplexed         bool            // HTTP/2
	prev, next          *exchange       // in conn.running
	began               time.Duration   // by the drain's clock; 0: before the leave
	wrote               bool            // headers are decided
	stream              atomic.Bool     // it has no end of its own, see stream.go
	upgraded            atomic.Bool     // its connection is in the register
	named               atomic.Bool     // in the report already
	probe               bool            // it only looks; set before begin, by which the drain finds it
	returned            bool            // its handler did, without a panic
	lost                atomic.Bool     // HTTP/1: it couldn't be written
	arrival             registry.Arrival
	counted             atomic.Bool        // its arrival is, and its end isn't yet
	cutter              func()             // of a Run's server: ends it from outside
	peer                net.Addr           // of a Run's server, in place of remote
	cancel              context.CancelFunc // of a plain connection's context

	method, path, caller, remote string // for the report; the request itself is the handler's to change
}

func (c *conn) begin(x *exchange) {
	if c.book.d.leave.Load() != nil {
		x.began = c.book.d.now()
	}
	c.mu.Lock()
	if x.next = c.running; x.next != nil {
		x.next.prev = x
	}
	c.running = x
	c.mu.Unlock()
}

func (x *exchange) end() {
	c := x.conn
	leaving := c.book.d.leave.Load() != nil
	c.mu.Lock()
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		c.running = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	}
	h2 := c.h2.Load()
	if !h2 {
		c.last = x // net/http has yet to write what is left of its answer: see conn.settle
	}
	c.mu.Unlock()
	gone := x.ctx.Err() != nil // its client is, or its connection
	if leaving && gone {
		c.book.d.tally.unanswered(x)
	}
	if h2 || gone || !x.returned {
		x.over(!gone && x.returned)
	}
}

// head puts what there is to say about leaving into the headers.
func (x *exchange) head(status int) {
	x.wrote = true
	d, h := x.conn.book.d, x.Header()
	if isEventStream(h) {
		x.streams(true)
	}
	l := d.leave.Load()
	if l == nil {
		return
	}
	if l.incarnation != "" {
		h.Set("Eider-Leaving", l.incarnation)
	}
	// In HTTP/2 net/http turns Connection: close into GOAWAY, which loses the frames that cross it: not
	// before the barrier, when nobody who was told sends any.
	switch {
	case status == http.StatusSwitchingProtocols:
	case !x.multiplexed:
		h.Set("Connection", "close")
	case d.barred.Load():
		h.Set("Connection", "close")
		x.conn.away.Store(true)
	}
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if !x.wrote && (status >= 200 || status == http.StatusSwitchingProtocols) {
		x.head(status)
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	if !x.wrote {
		x.head(http.StatusOK)
	}
	return x.ResponseWriter.Write(b)
}

// WriteString keeps io.WriteString from copying.
func (x *exchange) WriteString(s string) (int, error) {
	if !x.wrote {
		x.head(http.StatusOK)
	}
	return io.WriteString(x.ResponseWriter, s)
}

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() } // as Flusher's shape has it

// FlushError is what http.ResponseController calls.
func (x *exchange) FlushError() (err error) {
	if !x.wrote {
		x.head(http.StatusOK)
	}
	if !x.stream.Load() && x.Header().Get("Content-Length") == "" {
		defer func() { x.streams(err == nil) }()
	}
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach what else net/http's writer can.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// plain is an HTTP/1 answer, multiplexed an HTTP/2 one: each can what net/http's own can.
type (
	plain       struct{ exchange }
	multiplexed struct{ exchange }
)

// Hijack implements http.Hijacker.
func (p *plain) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(p.ResponseWriter).Hijack()
	if err == nil {
		p.wrote = true
	}
	return nc, rw, err
}

// ReadFrom keeps sendfile.
func (p *plain) ReadFrom(r io.Reader) (int64, error) {
	if !p.wrote {
		p.head(http.StatusOK)
	}
	return io.Copy(p.ResponseWriter, r)
}

// Push implements http.Pusher.
func (m *multiplexed) Push(target string, opts *http.PushOptions) error {
	if p, ok := m.ResponseWriter.(http.Pusher); ok {
		return p.Push(target, opts)
	}
	return http.ErrNotSupported
}

// cut ends a stream from outside its handler, whose context then ends: in HTTP/1 with the connection,
// in HTTP/2 by resetting it alone. It tells whether the stream was still running, and not in the report
// yet: then it is the caller's to name.
func (x *exchange) cut() bool {
	c := x.conn
	c.mu.Lock()
	y := c.running
	for y != nil && y != x {
		y = y.next
	}
	// The lock holds end back: after it, net/http lets go of what its SetWriteDeadline touches.
	mine := y != nil && !x.named.Swap(true)
	if x.cutter != nil {
		c.mu.Unlock()
		if y != nil {
			x.cutter()
		}
		return mine
	}
	reset := y != nil && c.h2.Load() && http.NewResponseController(x.ResponseWriter).SetWriteDeadline(time.Unix(1, 0)) == nil
	c.mu.Unlock()
	if y != nil && !reset {
		c.kill()
	}
	return mine
}

// inFlight lists the requests in handlers.
func (b *book) inFlight() (out []*exchange) {
	conns := b.all()
	if b.d.self != nil {
		for i := range b.d.self.lanes {
			conns = append(conns, &b.d.self.lanes[i])
		}
	}
	for _, c := range conns {
		c.mu.Lock()
		for x := c.running; x != nil; x = x.next {
			out = append(out, x)
		}
		c.mu.Unlock()
	}
	return out
}
