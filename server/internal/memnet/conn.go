package memnet

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// buffer is what one direction of a connection takes before a write blocks, as a socket's buffers do.
const buffer = 64 << 10

// flow is one direction of a connection; its Net's lock guards it.
type flow struct {
	data   []byte
	closed bool // by the writer: what is left may still be read
}

// conn is one end of a connection.
type conn struct {
	net           *Net
	local, remote netip.AddrPort
	peer          *conn
	in, out       *flow
	broken        bool // reset: nothing more can be read or written
	closed        bool // by this end
	read, write   deadline
	changed       *sync.Cond // on the net's lock
}

// wake wakes whoever waits at either end. The net's lock is held.
func (c *conn) wake() {
	c.changed.Broadcast()
	c.peer.changed.Broadcast()
}

// Read reads what has come and isn't held up on the way.
func (c *conn) Read(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		reach := !c.net.held(c.remote.Addr(), c.local.Addr())
		switch {
		case c.closed:
			return 0, c.fail("read", net.ErrClosed)
		case c.read.passed:
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		case c.broken:
			return 0, c.fail("read", syscall.ECONNRESET)
		case len(p) == 0:
			return 0, nil
		case reach && len(c.in.data) > 0:
			n := copy(p, c.in.data)
			c.in.data = c.in.data[n:]
			if len(c.in.data) == 0 {
				c.in.data = nil
			}
			c.wake()
			return n, nil
		case reach && c.in.closed:
			return 0, io.EOF
		}
		c.changed.Wait()
	}
}

// Write puts bytes on the way; it blocks while the buffer is full.
func (c *conn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	written := 0
	for {
		reach := !c.net.held(c.local.Addr(), c.remote.Addr())
		switch {
		case c.closed:
			return written, c.fail("write", net.ErrClosed)
		case c.write.passed:
			return written, c.fail("write", os.ErrDeadlineExceeded)
		case c.broken:
			return written, c.fail("write", syscall.ECONNRESET)
		case reach && c.peer.closed: // nobody reads there any more: a kernel answers with a reset
			c.reset()
			return written, c.fail("write", syscall.EPIPE)
		case written == len(p):
			return written, nil
		case len(c.out.data) < buffer:
			n := min(len(p)-written, buffer-len(c.out.data))
			c.out.data = append(c.out.data, p[written:written+n]...)
			written += n
			c.wake()
			continue
		}
		c.changed.Wait()
	}
}

// Close ends this end; what it wrote still arrives.
func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.closed, c.out.closed = true, true
	c.read.stop()
	c.write.stop()
	delete(c.net.conns, c)
	c.wake()
	return nil
}

// reset breaks this end. The net's lock is held.
func (c *conn) reset() {
	c.broken = true
	c.in.data, c.out.data = nil, nil
	c.wake()
}

func (c *conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

func (c *conn) SetDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.read.set(c, t)
	c.write.set(c, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.read.set(c, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.write.set(c, t)
	return nil
}

// deadline is one of a connection's two; the net's lock guards it.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) set(c *conn, at time.Time) {
	d.stop()
	wait := time.Until(at)
	d.passed = !at.IsZero() && wait <= 0
	if !at.IsZero() && wait > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(wait, func() {
			c.net.mu.Lock()
			defer c.net.mu.Unlock()
			if d.timer == timer { // else it was set anew meanwhile
				d.passed = true
				c.wake()
			}
		})
		d.timer = timer
	}
	c.wake()
}
