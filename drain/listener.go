package drain

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// errEmptied ends the server's accept loop once its queue is empty.
var errEmptied = errors.New("drain: the accept queue is empty, the listener closes")

// quietAccept is how long the accept queue must stay empty.
const quietAccept = 2 * time.Millisecond

// listener admits each connection to the book as it is accepted, and can end by emptying the accept
// queue first: closing a listener resets whoever waits in it (D5).
type listener struct {
	net.Listener
	book     *book
	emptying atomic.Bool
}

type deadliner interface{ SetDeadline(time.Time) error }

// Accept is called by one goroutine, the server's. It returns errEmptied when it was told to finish
// and two looks in a row have found the queue empty: one alone could have been late for its own
// deadline, in which case it hasn't looked at all.
func (l *listener) Accept() (net.Conn, error) {
	for empty := 0; ; {
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			return l.book.admit(nc)
		case !l.emptying.Load():
			return nil, err
		}
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
			return nil, errEmptied // closed under us
		}
		if empty++; empty > 2 { // the first timeout is finish's
			return nil, errEmptied
		}
		if err := l.Listener.(deadliner).SetDeadline(time.Now().Add(quietAccept)); err != nil {
			return nil, errEmptied
		}
	}
}

// finish makes Accept empty the queue and end. A listener without deadlines is just closed.
func (l *listener) finish() {
	l.emptying.Store(true)
	dl, ok := l.Listener.(deadliner)
	if !ok || dl.SetDeadline(time.Unix(1, 0)) != nil {
		l.Listener.Close()
	}
}
