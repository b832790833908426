package eidergrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider/internal/tries"
	"github.com/eiderhq/eider/roster"
)

// Cause sorts what a try failed of.
type Cause uint8

// The causes, in the order of the package's table.
const (
	Other          Cause = iota // the caller's own doing: a cancel, a deadline, a message that can't be sent
	Refused                     // the dial was refused
	Unreachable                 // the dial or the handshake failed otherwise
	ConnectTimeout              // no connection within ConnectTimeout
	Unopened                    // the connection ended before the stream was opened
	GoAway                      // the peer goes away and hasn't processed it, or it was let go of meanwhile
	RefusedStream               // the peer refused the stream unprocessed
	WrongAddress                // somebody else is at this address
	NoPort                      // the instance has no port of that name
	Cut                         // the connection ended after the stream was opened, before the answer
	TimedOut                    // no answer to a trial within three times Slow
	causes
)

var causeNames = [...]string{"other", "refused", "unreachable", "connect timeout", "unopened", "goaway", "refused stream", "wrong address", "no port", "cut", "timed out"}

// String returns the cause in words.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

// allowance tells which calls may be tried again after a fault.
type allowance uint8

const (
	nobody     allowance = iota // trying again would do no good
	repeatable                  // it may have been processed
	anybody                     // it was not processed
)

// fault is a failed try.
type fault struct {
	tries.Failed
	cause   Cause
	allows  allowance
	trial   bool // it was a trial that the registry asked for
	costs   bool // the service may have worked for it, or will: a retry counts against the budget
	fresh   bool // the connection failed, not the instance: a new one to it may do
	status  bool // err is the call's own status, not only what a dial failed of
	outcome roster.Outcome
}

func (c *call) newFault(err error, cause Cause, allows allowance, outcome roster.Outcome) *fault {
	rec := c.choice.Instance()
	return &fault{Failed: tries.Failed{Key: rec.Key, Address: rec.Address, Err: err, Reason: reason(err)}, cause: cause, allows: allows, outcome: outcome, trial: c.choice.Trial()}
}

func (c *call) judgeDial(err error) *fault {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return c.newFault(err, Refused, anybody, roster.Refusal)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		f := c.newFault(err, ConnectTimeout, anybody, roster.Failure)
		f.costs = true
		return f
	}
	return c.newFault(err, Unreachable, anybody, roster.Failure)
}

// What grpc-go says of a stream that the peer hasn't processed; it has no other form once its own repeating, which is
// for the first try alone, is used up. A status of the peer's can't be mistaken for it: that comes in a header or
// trailer, and these only count if not a byte of an answer has come.
const (
	saysRefused  = "stream terminated by RST_STREAM with error code: REFUSED_STREAM"
	saysDraining = "the connection is draining"
	saysGoAway   = "the stream is rejected because server is draining the connection"
)

// saysUnwritten stands for the io.EOF that a call gets from gRPC when its message couldn't be written.
const saysUnwritten = "the stream ended before the message was written"

// judge tells what the end of a try shows, nil if it didn't fail; a status that the instance has sent is an answer.
func (c *call) judge(info balancer.DoneInfo) *fault {
	misdirected := len(info.Trailer[keyMisdirected]) > 0
	switch {
	case misdirected && info.Err == nil: // a write found the stream ended, see finished
		info.Err = status.Error(codes.Unavailable, "the call is for somebody else: the address has changed hands")
	case info.Err == nil:
		return nil
	}
	if c.gaveUp() != nil {
		f := c.newFault(info.Err, Other, nobody, c.callerVerdict())
		f.status = true
		return f
	}
	if c.overdue && c.choice.Trial() {
		return c.judgeTrial()
	}
	f := c.newFault(info.Err, Other, nobody, roster.Neutral)
	f.status = true
	code, text := status.Code(info.Err), status.Convert(info.Err).Message()
	switch {
	case misdirected:
		f.cause, f.allows, f.outcome = WrongAddress, anybody, roster.Failure
	case info.BytesReceived:
		return nil
	case code != codes.Unavailable: // grpc-go's own word on the caller's message, its credentials, its cancel
	case !info.BytesSent:
		f.cause, f.allows, f.fresh = Unopened, anybody, true
	case strings.HasPrefix(text, saysRefused):
		f.cause, f.allows, f.costs = RefusedStream, anybody, true
	case text == saysUnwritten: // whether it was refused isn't told
		f.cause, f.allows, f.costs, f.fresh = GoAway, anybody, true, true
	case text == saysDraining, text == saysGoAway:
		f.cause, f.allows, f.fresh = GoAway, anybody, true
	default:
		f.cause, f.allows, f.costs, f.outcome = Cut, repeatable, true, roster.Failure
	}
	return f
}

// judgeAnswer tells what a status that the instance has sent shows about it, or what ended its stream after an answer.
func (c *call) judgeAnswer(err error) roster.Outcome {
	if err == nil {
		return roster.Success
	}
	code, failed := status.Code(err), c.cl.set.Failed
	switch {
	case failed != nil && failed(code):
		return roster.Failure
	case failed != nil:
	case code == codes.Unavailable, code == codes.DeadlineExceeded && !c.waits && time.Since(c.began) >= c.cl.slow():
		return roster.Failure
	}
	return roster.Success
}

// callerVerdict tells what the caller's giving up shows about the instance: a hang-up nothing, a deadline that it fell
// silent, if it had time enough to speak.
func (c *call) callerVerdict() roster.Outcome {
	if !c.waits && errors.Is(c.gaveUp(), context.DeadlineExceeded) && time.Since(c.began) >= c.cl.slow() {
		return roster.Failure
	}
	return roster.Neutral
}

// gaveUp returns why the caller has, nil if it hasn't. A deadline that has passed counts although the context may not say so yet: the
// server keeps it as well, and its end of the stream may be heard of first.
func (c *call) gaveUp() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if at, ok := c.Context.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}
