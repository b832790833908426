package drain

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// What a connection's reader has seen since it last went idle. A connection is closed by us only from
// quiet, so that a request whose first byte is here is never thrown away:
//
//	quiet ──bytes read──► busy ──goes idle──► quiet ──closed by us──► closing
const (
	quiet int32 = iota
	busy
	closing
)

// conn is an accepted connection with what a drain has to know of it. It lies below TLS.
type conn struct {
	net.Conn
	book *book

	phase atomic.Int32
	state atomic.Int32 // http.ConnState
	h2    atomic.Bool
	away  atomic.Bool  // HTTP/2: GOAWAY is on its way
	sign  atomic.Int64 // the last sign of life since the leave, by the book's clock; 0: none since

	came  time.Duration // its Accept, by the book's clock; 0: before the leave
	greet atomic.Bool   // of a Server's: it hasn't said all of its first words, see SetDeadline

	taken atomic.Pointer[exchange] // of the handler that has taken it over
	bare  atomic.Bool              // and unwrapped it, so that its end isn't heard

	mu      sync.Mutex
	goodbye func()    // of an upgraded connection
	running *exchange // the requests in handlers: one in HTTP/1, a list in HTTP/2
	last    *exchange // HTTP/1: the one whose answer may still be on its way out
}

// Read tells arriving requests from silence. Bytes that come after we closed are dropped: a handler
// that ran on them couldn't answer (D22).
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 {
		return n, err
	}
	if c.phase.Load() != busy {
		if !c.phase.CompareAndSwap(quiet, busy) && c.phase.Load() == closing {
			return 0, net.ErrClosed
		}
		if n >= 3 && b[0] == 'P' && b[1] == 'R' && b[2] == 'I' && http.ConnState(c.state.Load()) == http.StateNew {
			c.h2.Store(true) // the preface of HTTP/2 without TLS; no HTTP/1 method begins so
		}
	}
	c.touch()
	return n, err
}

// Write notices answers that can't be sent: net/http swallows the error of the last flush.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.unanswered()
	}
	return n, err
}

// ReadFrom keeps sendfile working through the wrapper.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := c.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	n, err := rf.ReadFrom(r)
	if _, network := errors.AsType[*net.OpError](err); network {
		c.unanswered()
	}
	return n, err
}

// CloseWrite lets net/http end an answer to a request that it didn't read to its end.
func (c *conn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn returns the connection as the listener gave it, for handlers that hijack.
func (c *conn) NetConn() net.Conn {
	c.bare.Store(true)
	return c.Conn
}

// SyscallConn is for handlers that hijack and tune the socket.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// SetDeadline is how a [Server] shows that a connection speaks its protocol: it takes off the deadline that it has set
// for the first words. No handler has anything of it before.
func (c *conn) SetDeadline(t time.Time) error {
	if c.book.d.other != nil {
		c.greet.Store(!t.IsZero())
	}
	return c.Conn.SetDeadline(t)
}

// touch notes a sign of life. It costs a clock reading only while leaving.
func (c *conn) touch() {
	if c.book.d.leave.Load() != nil {
		c.sign.Store(int64(c.book.d.now()))
	}
}

func (c *conn) unanswered() {
	if c.h2.Load() {
		return // in HTTP/2 the request's context tells, see exchange.end
	}
	c.mu.Lock()
	x := c.running
	if x == nil {
		x = c.last
	}
	c.mu.Unlock()
	if x == nil {
		return
	}
	x.lost.Store(true)
	if c.book.d.leave.Load() != nil {
		c.book.d.tally.unanswered(x)
	}
}

// settle ends the counting of the last answer, which net/http has written by now, or never will.
func (c *conn) settle() {
	c.mu.Lock()
	x := c.last
	c.last, c.goodbye = nil, nil
	c.mu.Unlock()
	if x != nil {
		x.over(!x.lost.Load())
	}
}

// closeIfQuiet closes unless a request's first byte is here.
func (c *conn) closeIfQuiet() bool {
	if c.waiting() || !c.phase.CompareAndSwap(quiet, closing) {
		return false
	}
	c.Conn.Close()
	return true
}

// kill closes at once, below TLS: a TLS close may wait 5 s for a peer that doesn't read.
func (c *conn) kill() {
	c.phase.Store(closing)
	c.Conn.Close()
}

// book lists every connection from its Accept (D4) to its end.
type book struct {
	d       *drainer
	mu      sync.Mutex
	conns   map[*conn]struct{}
	taken   map[*conn]*exchange // the register of upgraded connections
	ask     int                 // how many they may be until those are asked again that end unheard
	saying  atomic.Int32        // goodbyes under way
	changed chan struct{}       // of 1: a connection ended or went idle
}

func (b *book) admit(nc net.Conn) (*conn, error) {
	if _, isTLS := nc.(*tls.Conn); isTLS {
		nc.Close()
		return nil, errors.New("drain: the Listener does TLS itself; pass the plain one and set the server's TLSConfig")
	}
	c := &conn{Conn: nc, book: b}
	c.h2.Store(b.d.other != nil) // what it carries isn't HTTP/1, whose answers are watched here
	c.touch()
	c.came = time.Duration(c.sign.Load())
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	return c, nil
}

// below finds our connection below TLS.
func below(nc net.Conn) (*conn, bool) {
	if tc, isTLS := nc.(*tls.Conn); isTLS {
		nc = tc.NetConn()
	}
	c, ok := nc.(*conn)
	return c, ok
}

// note is the server's ConnState hook.
func (b *book) note(nc net.Conn, state http.ConnState) {
	c, ok := below(nc)
	if !ok {
		return
	}
	if tc, isTLS := nc.(*tls.Conn); isTLS && state == http.StateActive && http.ConnState(c.state.Load()) == http.StateNew {
		c.h2.Store(tc.ConnectionState().NegotiatedProtocol == "h2")
	}
	c.state.Store(int32(state))
	switch state {
	case http.StateIdle:
		c.phase.CompareAndSwap(busy, quiet)
		c.settle()
		if b.d.leave.Load() == nil {
			return
		}
		c.touch()
	case http.StateHijacked:
		b.take(c)
	case http.StateClosed:
		c.settle()
		b.forget(c)
		return
	default:
		return
	}
	b.stir()
}

// forget takes a connection that has ended out of the book.
func (b *book) forget(c *conn) {
	b.mu.Lock()
	delete(b.conns, c)
	b.mu.Unlock()
	b.stir()
}

func (b *book) stir() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// all returns the connections of now.
func (b *book) all() []*conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*conn, 0, len(b.conns))
	for c := range b.conns {
		out = append(out, c)
	}
	return out
}

func (b *book) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)+len(b.taken) == 0
}

// arriving is how long a request that has begun to arrive may stand still before its connection
// counts as silent, whatever the settings.
const arriving = 100 * time.Millisecond

// sweep closes, once the pause has ended, the connections whose time is over. It returns when the next
// one's is (0: no one's), how many of HTTP/1 or of nothing yet are left, and how many there are in all.
func (b *book) sweep(barrier time.Duration) (next time.Duration, plain, all int) {
	d := b.d
	now, left := d.now(), d.leave.Load().at
	for _, c := range b.all() {
		all++
		state, sign := http.ConnState(c.state.Load()), time.Duration(c.sign.Load())
		h2, begun := c.h2.Load() && state != http.StateNew, c.phase.Load() == busy
		if !h2 {
			plain++
		}
		var due time.Duration
		switch {
		case state == http.StateActive, h2 && c.away.Load():
			continue // in flight, or about to end
		case begun:
			due = max(barrier, sign) + max(d.set.Silent, arriving)
		case state == http.StateNew, h2:
			due = max(barrier, sign) + d.set.Silent // D3
		default:
			due = max(left, sign) + d.set.Round // D6
		}
		if due > now {
			if next == 0 || due < next {
				next = due
			}
			continue
		}
		if begun {
			c.kill()
		} else if !c.closeIfQuiet() {
			next = now + time.Millisecond // a request's first byte came this instant: look again
			continue
		}
		d.tally.closed(state)
	}
	for _, c := range b.upgraded() {
		all++
		if c.bare.Load() && (next == 0 || next > now+bareEvery) {
			next = now + bareEvery
		}
	}
	return next, plain, all
}
