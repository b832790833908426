package eidergrpc

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
)

// Why no further try was made.
var (
	errFinal         = errors.New("no other instance would do better")
	errNotRepeatable = errors.New("it may have been processed, so it isn't sent again: name the method in Config.Idempotent if that is safe")
	errTries         = errors.New("no tries are left")
	errReplay        = errors.New("its stream has sent more than is kept for another try")
	errBudget        = errors.New("the service's retry budget is spent")
	errAlone         = errors.New("no other instance can be called")
)

// Error is what a call ends with that couldn't be brought to an answer: a gRPC status, and the causes for errors.Is
// and errors.As, among them an *eider.Error if nobody could be picked.
type Error struct {
	code codes.Code
	Err  error // why
}

// Error writes it as gRPC writes a status.
func (e *Error) Error() string { return e.GRPCStatus().Err().Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// GRPCStatus is how package status finds the code.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.code, e.Err.Error()) }

// attempt is one failed try: who was tried, and what came of it.
type attempt struct {
	key     eider.Key
	address string
	err     error
}

func (a attempt) Error() string { return a.key.String() + " " + a.address + ": " + reason(a.err) }
func (a attempt) Unwrap() error { return a.err }

// tries names every try of a call that failed, and says why there was no further one.
type tries struct {
	list []attempt
	why  error
}

func (t *tries) Error() string {
	var b strings.Builder
	b.WriteString("tried ")
	for i, a := range t.list {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(a.Error())
	}
	if t.why != nil && t.why != errFinal {
		b.WriteString(" (" + t.why.Error() + ")")
	}
	return b.String()
}

// Unwrap returns the causes, the last try's first, as that is the one to act on.
func (t *tries) Unwrap() []error {
	var out []error
	for i := len(t.list) - 1; i >= 0; i-- {
		out = append(out, t.list[i].err)
	}
	return append(out, t.why)
}

// reason shortens a gRPC status to its message, and a dial's error to its cause.
func reason(err error) string {
	text := status.Convert(err).Message()
	if i := strings.LastIndex(text, "connect: "); i >= 0 {
		text = strings.Trim(text[i+len("connect: "):], `"`)
	}
	return text
}
