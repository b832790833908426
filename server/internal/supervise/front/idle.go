package front

import (
	"net/http"
	"strings"
	"time"
)

// A program closes connections that have been idle for a while, each after a time of its own: five seconds in Node, two
// in gunicorn. A request that is sent on one at that moment is lost, and whether it was acted upon nobody can tell. So a
// connection that has carried a request carries another only if that one may be sent again, which net/http's client
// does by itself on a new connection: GET, HEAD, OPTIONS and TRACE without a body. Everything else gets a connection
// of its own. To bound the idle time below the program's would only make the race rare: a program that has stood
// still for a while closes, as the first thing that it does, what has a request waiting in it. docs/decisions/0022.

const (
	// idleTimeout is how long an idle connection to the program is kept: short, since there are programs of which each
	// connection takes a thread, and since to connect on one machine costs little.
	idleTimeout = 2 * time.Second

	// idleMost is how many are kept. With fewer than run at a time, most of them would be closed and opened anew.
	idleMost = 1024

	// continueTimeout is how long a client that asks before it sends a body (Expect: 100-continue) is kept waiting for
	// a program that doesn't know of such questions.
	continueTimeout = time.Second
)

// lines are the ways to the program.
type lines struct {
	kept  *http.Transport // for what may be sent again
	fresh *http.Transport // for what may not: a connection each
	h2    *http.Transport // for gRPC, which nothing but HTTP/2 carries
}

func connect(to address) lines {
	way := func() *http.Transport {
		return &http.Transport{DialContext: to.dial, DisableCompression: true, ExpectContinueTimeout: continueTimeout, IdleConnTimeout: idleTimeout,
			MaxIdleConns: idleMost, MaxIdleConnsPerHost: idleMost, Protocols: new(http.Protocols)}
	}
	l := lines{kept: way(), fresh: way(), h2: way()}
	l.kept.Protocols.SetHTTP1(true)
	l.fresh.Protocols.SetHTTP1(true)
	l.fresh.DisableKeepAlives = true
	l.h2.Protocols.SetUnencryptedHTTP2(true)
	return l
}

// RoundTrip implements http.RoundTripper.
func (l *lines) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		return l.h2.RoundTrip(r)
	case repeatable(r):
		return l.kept.RoundTrip(r)
	}
	return l.fresh.RoundTrip(r)
}

// repeatable tells whether net/http's client would send it again on a new connection.
func repeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func (l *lines) close() {
	for _, t := range [...]*http.Transport{l.kept, l.fresh, l.h2} {
		t.CloseIdleConnections()
	}
}
