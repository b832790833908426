package eiderhttp

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/eiderhq/eider"
)

// Why no further try was made.
var (
	errFinal         = errors.New("no other instance would do better")
	errNotRepeatable = errors.New("it may have been processed, so it isn't sent again: give it an Idempotency-Key if that is safe")
	errTries         = errors.New("no tries are left")
	errBody          = errors.New("its body can't be read again: set Request.GetBody")
	errBudget        = errors.New("the service's retry budget is spent")
	errAlone         = errors.New("no other instance can be called")
)

// attempt is one failed try: who was tried, and what came of it.
type attempt struct {
	key     eider.Key
	address string
	err     error
}

func (a attempt) Error() string { return a.key.String() + " " + a.address + ": " + reason(a.err) }
func (a attempt) Unwrap() error { return a.err }

// tries names every try of a request that failed, and says why there was no further one.
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
		b.WriteString(" (")
		b.WriteString(t.why.Error())
		b.WriteString(")")
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

// reason shortens what net wraps around a cause ("dial tcp 10.0.0.7:80: connect: connection refused"), since the
// address is named beside it.
func reason(err error) string {
	if op, ok := err.(*net.OpError); ok && op.Err != nil {
		inner := op.Err
		if sys, ok := inner.(*os.SyscallError); ok {
			inner = sys.Err
		}
		if op.Op == "dial" {
			return inner.Error()
		}
		return op.Op + ": " + inner.Error()
	}
	return err.Error()
}

// operation names a request without its query and user, which may be secret.
func operation(req *http.Request) string {
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	if req.URL == nil {
		return method
	}
	u := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: req.URL.Path, RawPath: req.URL.RawPath}
	return method + " " + u.String()
}

func failure(req *http.Request, kind eider.Kind, err error) *eider.Error {
	return &eider.Error{Op: operation(req), Kind: kind, Err: err}
}

// abandon ends a request that wasn't sent: its body is closed, as every RoundTripper owes, and the error says what
// was tried.
func abandon(req *http.Request, err error) error {
	if req.Body != nil {
		req.Body.Close()
	}
	var e *eider.Error
	if errors.As(err, &e) {
		out := &eider.Error{Op: operation(req), Kind: e.Kind, Err: err, RetryAfter: e.RetryAfter}
		if e == err && e.Op == "" {
			out.Err = e.Err
		}
		return out
	}
	kind := eider.Unavailable
	return failure(req, kind, err)
}
