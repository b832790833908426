package eiderhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/tries"
	"github.com/eiderhq/eider/roster"
)

// Cause sorts what a try failed of.
type Cause uint8

// The causes, in the order of the package's table.
const (
	Other          Cause = iota // the caller's own doing: a cancel, an invalid request, a body that can't be read
	Refused                     // the dial was refused
	Unreachable                 // the dial or the TLS handshake failed otherwise
	ConnectTimeout              // no connection within ConnectTimeout
	Unwritten                   // the connection failed before the first byte was written
	GoAway                      // HTTP/2: the peer goes away and hasn't processed it
	RefusedStream               // HTTP/2: the peer refused the stream unprocessed
	WrongAddress                // 421: somebody else is at this address
	NoPort                      // the instance has no port of that name
	Cut                         // the connection ended after bytes were written, before the answer
	TimedOut                    // no answer within HeaderTimeout or TryTimeout
	causes
)

var causeNames = [...]string{"other", "refused", "unreachable", "connect timeout", "unwritten", "goaway", "refused stream", "wrong address", "no port", "cut", "timed out"}

// String returns the cause in words.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

// allowance tells which requests may be sent again after a fault.
type allowance uint8

const (
	nobody     allowance = iota // sending again would do no good
	repeatable                  // it may have been processed
	anybody                     // it was not processed
)

// fault is a failed try.
type fault struct {
	tries.Failed
	cause    Cause
	allows   allowance
	trial    bool // it was a trial that the registry asked for
	costs    bool // the service may have worked for it, or will: a retry counts against the budget
	fresh    bool // the connection failed, not the instance: a new one to it may do
	outcome  roster.Outcome
	gaveUp   error // why the caller has, nil if it hasn't
	yields   bool  // the instance is on its way out: it shows nothing of the service
	kind     eider.Kind
	in       *instance
	answer   *http.Response  // 421's, kept for the case that nobody does better
	instance *eider.Instance // to be left out from now on
}

// discard ends an answer that another try is to better. It isn't read to its end, which might be long in coming:
// a connection to somebody else's address is no loss.
func (f *fault) discard() {
	if f.answer != nil {
		f.answer.Body.Close()
	}
}

// fail ends a failed try.
func (y *try) fail(f *fault) *fault {
	f.yields = y.yields()
	y.end(f.outcome)
	return f
}

func (y *try) fault(err error, cause Cause, allows allowance, outcome roster.Outcome) *fault {
	rec := y.choice.Instance()
	return &fault{
		Failed: tries.Failed{Key: rec.Key, Address: rec.Address, Err: err, Reason: reason(err)},
		cause:  cause, allows: allows, outcome: outcome, kind: eider.Unavailable, in: y.in, instance: rec, trial: y.choice.Trial(),
	}
}

func (y *try) noPort(name string) *fault {
	return y.fault(fmt.Errorf("has no port named %q: it must be registered in Ports", name), NoPort, anybody, roster.Neutral)
}

func (y *try) misdirected(resp *http.Response) *fault {
	f := y.fault(errors.New("421 Misdirected Request: somebody else is at this address"), WrongAddress, anybody, roster.Failure)
	f.answer = resp
	return f
}

// judge tells what a failure shows, and whether the request may be sent again. It asks first whose fault it was,
// then how far the request had come.
func (y *try) judge(err error, body *body) *fault {
	if cause := y.callerEnded(); cause != nil {
		f := y.callersFault(cause)
		f.kind, f.outcome, f.gaveUp = eider.Unavailable, y.callerVerdict(), cause
		return f
	}
	y.mu.Lock()
	connected, silent, late := y.got > 0, y.silent, y.late
	unwritten := y.stale || y.conn != nil && y.conn.written.Load() == y.written
	y.mu.Unlock()
	if late != nil {
		err = late
	}
	switch bad := body.err(); {
	case late == errLost: // however far it had come
		return y.callersFault(late)
	case bad != nil:
		return y.callersFault(fmt.Errorf("reading the request's body: %w", bad))
	case !connected && (y.dialed.Load() || late != nil):
		return y.judgeDial(err)
	case !connected: // no connection was even tried: net/http, or Wrap, didn't want the request
		return y.callersFault(err)
	case unwritten || silent && y.bodied && late == nil: // with a body and no GetBody, net/http repeats only what wasn't written
		f := y.fault(err, Unwritten, anybody, roster.Neutral)
		f.fresh = true
		return f
	case late != nil:
		f := y.fault(err, TimedOut, repeatable, roster.Failure)
		f.costs = true
		return f
	case silent:
		f := y.cut(errSilent)
		f.outcome = roster.Neutral // a stale connection, or HTTP/2's word that it wasn't processed: it isn't told which
		return f
	}
	return y.judgeSent(err)
}

func (y *try) judgeDial(err error) *fault {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return y.fault(err, Refused, anybody, roster.Refusal)
	case timeout(err) || err == errTryTimeout:
		f := y.fault(err, ConnectTimeout, anybody, roster.Failure)
		f.costs = true
		return f
	}
	return y.fault(err, Unreachable, anybody, roster.Failure)
}

// What net/http's HTTP/2 says, which has no other form. Debug data of a peer comes later in a text, never first.
const (
	http2CannotRetry  = "http2: Transport: cannot retry err ["
	http2GoingAway    = "http2: Transport received Server's graceful shutdown GOAWAY"
	http2SentAway     = "http2: Transport received GOAWAY from server ErrCode:"
	http2StreamError  = "stream error: stream ID "
	http2StreamRefuse = "; REFUSED_STREAM"
)

// judgeSent judges what failed on a connection to which the request was written, at least in part.
func (y *try) judgeSent(err error) *fault {
	text := strings.TrimPrefix(err.Error(), http2CannotRetry)
	switch {
	case strings.HasPrefix(text, http2GoingAway), strings.HasPrefix(text, http2SentAway):
		// The peer named the last stream that it has processed, and this one came later.
		f := y.fault(errGoAway, GoAway, anybody, roster.Neutral)
		f.fresh = true
		return f
	case strings.HasPrefix(text, http2StreamError) && strings.HasPrefix(afterDigits(text[len(http2StreamError):]), http2StreamRefuse):
		f := y.fault(errRefusedStream, RefusedStream, anybody, roster.Failure)
		f.costs = true
		return f
	case timeout(err): // a deadline that Base's own connections have
		f := y.fault(err, TimedOut, repeatable, roster.Failure)
		f.costs = true
		return f
	}
	return y.cut(err)
}

var (
	errGoAway        = errors.New("HTTP/2 GOAWAY: the connection ends, the request wasn't processed")
	errRefusedStream = errors.New("HTTP/2 REFUSED_STREAM: the request wasn't processed")
)

func afterDigits(s string) string { return strings.TrimLeft(s, "0123456789") }

func (y *try) cut(err error) *fault {
	f := y.fault(err, Cut, repeatable, roster.Failure)
	f.costs, f.fresh = true, true
	return f
}

func (y *try) callersFault(err error) *fault {
	f := y.fault(err, Other, nobody, roster.Neutral)
	f.kind = eider.Invalid
	return f
}

// callerEnded returns why the caller has given up, nil if it hasn't. It looks at the context itself: a cancel
// cause is whatever the caller likes.
func (y *try) callerEnded() error {
	if err := y.Context.Err(); err != nil {
		return err
	}
	select {
	case <-y.hangUp:
		if at, ok := y.Context.Deadline(); ok && time.Until(at) < 10*time.Millisecond {
			return context.DeadlineExceeded // http.Client.Timeout closes the channel when it ends the context, or just before
		}
		return context.Canceled
	default:
		return nil
	}
}

// callerVerdict tells what the caller's giving up shows about the instance: a hang-up nothing, a deadline that it
// fell silent, if it had time enough to speak.
func (y *try) callerVerdict() roster.Outcome {
	if !y.waits && y.callerEnded() == context.DeadlineExceeded && time.Since(y.begun) >= y.in.t.slow() {
		return roster.Failure
	}
	return roster.Neutral
}

func timeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
