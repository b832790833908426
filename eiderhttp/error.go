package eiderhttp

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/eiderhq/eider"
)

// Why no further try was made, besides what package tries has.
var (
	errNotRepeatable = errors.New("it may have been processed, so it isn't sent again: give it an Idempotency-Key if that is safe")
	errBody          = errors.New("its body can't be read again: set Request.GetBody")
)

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
