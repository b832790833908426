package eidergrpc

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Why no further try was made, besides what package tries has.
var (
	errNotRepeatable = errors.New("it may have been processed, so it isn't sent again: name the method in Config.Idempotent if that is safe")
	errReplay        = errors.New("its stream has sent more than is kept for another try")
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

// reason shortens a gRPC status to its message, and a dial's error to its cause.
func reason(err error) string {
	text := status.Convert(err).Message()
	if i := strings.LastIndex(text, "connect: "); i >= 0 {
		text = strings.Trim(text[i+len("connect: "):], `"`)
	}
	return text
}
