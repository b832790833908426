package drain

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// errEmptied ends the server's accept loop once its queue is empty.
var errEmptied = errors.New("drain: the accept queue is empty, the listener closes")

const (
	quietAccept = 2 * time.Millisecond   // how long the accept queue must be empty
	longAccept  = 200 * time.Millisecond // a look ends by then, whoever keeps coming
)

// stage is how far the emptying of the accept queue is. A look ends when the queue was empty for
// quietAccept, or after longAccept. There are two, since one that comes late for its own deadline, as on a busy
// machine, doesn't look at all; where that is noticed it doesn't count.
type stage uint8

const (
	accepting stage = iota
	first
	second
	emptied
)

// listener admits each connection to the book as it is accepted, and ends by emptying the accept queue
// first: closing a listener resets whoever waits in it (D5).
type listener struct {
	net.Listener
	book   *book
	finish atomic.Bool // order to end

	stage stage // of the one goroutine that accepts, as are the two times
	until time.Time
	look  time.Time // the deadline of the look
}

type deadliner interface{ SetDeadline(time.Time) error }

// Accept is called by one goroutine, the server's.
func (l *listener) Accept() (net.Conn, error) {
	for l.stage != emptied {
		late := l.stage != accepting && !time.Now().Before(l.look)
		nc, err := l.Listener.Accept()
		if err == nil {
			if l.stage != accepting && time.Now().After(l.until) {
				l.advance()
			}
			return l.book.admit(nc)
		}
		if !l.finish.Load() {
			return nil, err
		}
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
			break // closed under us
		}
		if !late || time.Now().After(l.until) {
			l.advance()
		}
		l.look = time.Now().Add(quietAccept)
		if err := l.Listener.(deadliner).SetDeadline(l.look); err != nil {
			break
		}
	}
	return nil, errEmptied
}

// advance enters the next stage.
func (l *listener) advance() {
	l.stage++
	l.until = time.Now().Add(longAccept)
}

// end makes Accept empty the queue and return. A listener without deadlines is just closed.
func (l *listener) end() {
	unlist(l.Listener)
	l.finish.Store(true)
	dl, ok := l.Listener.(deadliner)
	if !ok || dl.SetDeadline(time.Unix(1, 0)) != nil {
		l.Listener.Close()
	}
}

// address is what is advertised.
func (d *drainer) address() string {
	if d.beside != nil {
		return d.set.Address
	}
	return advertised(d.set.Address, d.ln.Addr())
}

// advertised completes an address with the listener's port, and leaves a missing host to the registry
// handle, which knows by which interface it is reached.
func advertised(address string, ln net.Addr) string {
	lnHost, lnPort, err := net.SplitHostPort(ln.String())
	if err != nil {
		return address // a Unix socket: what is set is all there is
	}
	if address == "" {
		return net.JoinHostPort(lnHost, lnPort)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return net.JoinHostPort(strings.Trim(address, "[]"), lnPort)
	}
	if port == "" || port == "0" {
		port = lnPort
	}
	return net.JoinHostPort(host, port)
}
