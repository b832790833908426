package eider

import (
	"errors"
	"fmt"
	"time"
)

// Kind sorts errors by what the receiver can do about them. Each front has one table from kind to
// its wire's code.
type Kind uint8

// The kinds of error.
const (
	Internal    Kind = iota // a defect of ours; report it
	Invalid                 // the request is malformed; change it
	NotFound                // no such service or instance
	Conflict                // somebody else holds that name or address
	Stale                   // an older incarnation, attachment or stream said this; attach anew
	Limited                 // a limit or the admission rate is reached; come back after RetryAfter
	Unavailable             // nobody can answer now; retried with backoff
	NoInstance              // the service is known, and nobody of it can be called
	Closed                  // the handle is closed
	Denied                  // not allowed: show a token or certificate, or one with the role that is named
)

var kindNames = [...]string{"internal", "invalid", "not found", "conflict", "stale", "limited", "unavailable", "no instance", "closed", "denied"}

// String returns the kind in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Error is the one shape of error in the house: what was tried, what kind of fault it is, and why.
type Error struct {
	Op         string        // what was tried: "register orders/1"
	Kind       Kind          // what can be done about it
	Err        error         // why, in a sentence that says what to do next
	RetryAfter time.Duration // for Limited, and for Unavailable where breakers reject: when to come back; 0 means with the usual backoff
}

// Error writes operation and cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Op + ": " + e.Kind.String()
	}
	if e.Op == "" {
		return e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout tells whether the cause is a timeout, as net.Error's does: net/http and url.Error ask for it.
func (e *Error) Timeout() bool {
	var cause interface{ Timeout() bool }
	return errors.As(e.Err, &cause) && cause.Timeout()
}

// Errorf makes an error of a kind; its format works as fmt.Errorf's.
func Errorf(kind Kind, op, format string, args ...any) *Error {
	return &Error{Op: op, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of the first [Error] in err's chain, Internal if there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}
