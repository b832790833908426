package eiderhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
)

// A faultCase is one way in which instance a fails a request; b is there, and is tried only after a.
type faultCase struct {
	name   string
	cause  Cause
	allows allowance
	http2  bool
	warm   bool // a answers one request first, so that the connection is a reused one
	tr     func(*Transport)
	a      func(t *testing.T, got *tally) string // starts a, returns its address
	late   func(*try) *time.Timer                // what ends the try at a, once a has the request; nil: a does

	silent bool // net/http doesn't tell what happened if there's no body, so such a request counts as cut
}

// http1 is an instance that reads requests and does as the test says; goOn false closes the connection.
func http1(answers int, each func(c net.Conn) (goOn bool)) func(*testing.T, *tally) string {
	return func(t *testing.T, got *tally) string {
		return fake.Script(t, func(nth int, c net.Conn) {
			requests(c, func(n int, r *http.Request, body string) bool {
				if nth == 0 && n < answers { // on a busy machine net/http may not reuse a connection: the next one is no other then
					io.WriteString(c, answerOK)
					return true
				}
				got.add(r.Method + body)
				return each(c)
			})
		}).Addr().String()
	}
}

func http2(answers int, each func(c net.Conn, stream uint32) (goOn bool)) func(*testing.T, *tally) string {
	return func(t *testing.T, got *tally) string {
		return fake.Script(t, func(nth int, c net.Conn) {
			frames(c, func(n int, stream uint32) bool {
				if nth == 0 && n < answers {
					answerHTTP2(c, stream)
					return true
				}
				got.add("")
				return each(c, stream)
			})
		}).Addr().String()
	}
}

func forever(c net.Conn) bool { io.Copy(io.Discard, c); return false }

// These bounds are longer than any test: a's try alone is ended by them, see runDown.
func waitHeader(tr *Transport) { tr.HeaderTimeout = time.Hour }
func waitTry(tr *Transport)    { tr.TryTimeout = time.Hour }

func ofHeader(y *try) *time.Timer { return y.header }
func ofTry(y *try) *time.Timer    { return y.overall }

// runDown has the timer of the try at a run out as soon as a has the request and its answer is waited for. A bound that
// is short enough to be waited for is short enough for b to miss it on a busy machine.
func runDown(tr *Transport, got *tally, timer func(*try) *time.Timer) (stop func()) {
	var last atomic.Pointer[try]
	tr.Wrap = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			last.Store(tryOf(r.Context()))
			return next.RoundTrip(r)
		})
	}
	stopped := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stopped:
				return
			case <-time.After(time.Millisecond):
			}
			if y := last.Load(); y != nil && got.sum() > 0 && y.runOut(timer) {
				return
			}
		}
	})
	return func() { close(stopped); wg.Wait() }
}

// runOut has a timer run out; false if the request isn't wholly written yet, or there is no timer.
func (y *try) runOut(timer func(*try) *time.Timer) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.header == nil || timer(y) == nil {
		return false
	}
	timer(y).Reset(0)
	return true
}

func dead(t *testing.T, _ *tally) string { return fake.DeadPort(t) }

// nowhere is an address that [dialing] treats as the test says.
func nowhere(*testing.T, *tally) string { return "127.0.0.9:1" }

func dialing(nowhere func(ctx context.Context) error) func(*Transport) {
	return func(tr *Transport) {
		tr.ConnectTimeout = patience / 2 // less than the caller's
		tr.Base = &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "127.0.0.9:") {
				return nil, nowhere(ctx)
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}
	}
}

func unwritten(tr *Transport) {
	d := &brokenDialer{}
	d.armed.Store(true)
	tr.Base = &http.Transport{DialContext: d.DialContext}
}

func dialCases() []faultCase {
	return []faultCase{
		{name: "refused", cause: Refused, allows: anybody, a: dead},
		{name: "refused, HTTP/2", http2: true, cause: Refused, allows: anybody, a: dead},
		{name: "dial fails", cause: Unreachable, allows: anybody, a: nowhere, tr: dialing(func(context.Context) error {
			return &net.OpError{Op: "dial", Net: "tcp", Err: io.ErrNoProgress}
		})},
		{name: "no connection", cause: ConnectTimeout, allows: anybody, a: nowhere, tr: dialing(func(ctx context.Context) error {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > patience/2 {
				<-ctx.Done()
				return ctx.Err()
			}
			return context.DeadlineExceeded // as it will be then
		})},
	}
}

func http1Cases() []faultCase {
	cut := func(net.Conn) bool { return false }
	return []faultCase{
		{name: "not a byte written", cause: Unwritten, allows: anybody, tr: unwritten, a: http1(0, cut)},
		{name: "cut, fresh connection", cause: Cut, allows: repeatable, a: http1(0, cut)},
		{name: "cut, reused connection", cause: Cut, allows: repeatable, warm: true, a: http1(1, cut)},
		{name: "cut in the header", cause: Cut, allows: repeatable, a: http1(0, func(c net.Conn) bool {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le")
			return false
		})},
		{name: "reset", cause: Cut, allows: repeatable, warm: true, a: http1(1, func(c net.Conn) bool {
			c.(*net.TCPConn).SetLinger(0)
			return false
		})},
		{name: "not HTTP", cause: Cut, allows: repeatable, a: http1(0, func(c net.Conn) bool {
			io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n")
			return forever(c)
		})},
		{name: "no header", cause: TimedOut, allows: repeatable, tr: waitHeader, late: ofHeader, a: http1(0, forever)},
		{name: "no header, reused connection", cause: TimedOut, allows: repeatable, tr: waitHeader, late: ofHeader, warm: true, a: http1(1, forever)},
		{name: "no header in TryTimeout", cause: TimedOut, allows: repeatable, tr: waitTry, late: ofTry, a: http1(0, forever)},
		{name: "wrong address", cause: WrongAddress, allows: anybody, a: http1(0, func(c net.Conn) bool {
			io.WriteString(c, "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 2\r\n\r\nno")
			return true
		})},
		{name: "wrong address, hung", cause: WrongAddress, allows: anybody, a: http1(0, func(c net.Conn) bool {
			io.WriteString(c, "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 2\r\n\r\nn")
			return forever(c)
		})},
	}
}

func http2Cases() []faultCase {
	hang := func(c net.Conn, _ uint32) bool { return forever(c) }
	return []faultCase{
		{name: "HTTP/2 no header", http2: true, cause: TimedOut, allows: repeatable, tr: waitHeader, late: ofHeader, a: http2(0, hang)},
		{name: "HTTP/2 no header in TryTimeout", http2: true, cause: TimedOut, allows: repeatable, tr: waitTry, late: ofTry, a: http2(0, hang)},
		{name: "HTTP/2 refused stream", http2: true, cause: RefusedStream, allows: anybody, silent: true, a: http2(0, func(c net.Conn, s uint32) bool {
			resetStream(c, s, 7)
			return true
		})},
		{name: "HTTP/2 refused stream, reused", http2: true, warm: true, cause: RefusedStream, allows: anybody, silent: true, a: http2(1, func(c net.Conn, s uint32) bool {
			resetStream(c, s, 7)
			return true
		})},
		{name: "HTTP/2 GOAWAY before it", http2: true, warm: true, cause: GoAway, allows: anybody, silent: true, a: http2(1, func(c net.Conn, s uint32) bool {
			goAway(c, s-2, 0, "")
			return forever(c)
		})},
		{name: "HTTP/2 GOAWAY with an error before the first", http2: true, cause: GoAway, allows: anybody, a: http2(0, func(c net.Conn, s uint32) bool {
			goAway(c, 0, 11, "") // ENHANCE_YOUR_CALM
			return forever(c)
		})},
		{name: "HTTP/2 GOAWAY after it, cut", http2: true, cause: Cut, allows: repeatable, a: http2(0, func(c net.Conn, s uint32) bool {
			goAway(c, s, 0, http2GoingAway)
			return false
		})},
		{name: "HTTP/2 protocol error", http2: true, cause: Cut, allows: repeatable, a: http2(0, func(c net.Conn, s uint32) bool {
			resetStream(c, s, 1)
			return true
		})},
		{name: "HTTP/2 internal error", http2: true, cause: Cut, allows: repeatable, a: http2(0, func(c net.Conn, s uint32) bool {
			resetStream(c, s, 2)
			return true
		})},
		{name: "HTTP/2 cut", http2: true, warm: true, cause: Cut, allows: repeatable, a: http2(1, func(net.Conn, uint32) bool { return false })},
	}
}

// Every row of the package's table, by every sort of request: who may be sent again is, to b and once, and with the
// whole body; who may not isn't.
func TestS9FaultsAreRetriedAsTheTableSays(t *testing.T) {
	requests := []struct {
		method, body, key string
		repeatable        bool
	}{
		{"POST", "body", "", false}, {"POST", "", "", false}, {"PATCH", "body", "", false},
		{"POST", "body", "k", true}, {"GET", "", "", true}, {"PUT", "body", "", true}, {"DELETE", "", "", true},
	}
	for _, c := range slices.Concat(dialCases(), http1Cases(), http2Cases()) {
		for _, r := range requests {
			t.Run(c.name+"/"+r.method+r.body+r.key, func(t *testing.T) {
				t.Parallel()
				cause := c.cause
				if c.silent && r.body == "" && r.repeatable {
					cause = Cut
				}
				want := ""
				if c.allows == anybody || c.allows == repeatable && r.repeatable {
					want = "200 b"
				}
				testFault(t, c, r.method, r.body, r.key, cause, want)
			})
		}
	}
}

func testFault(t *testing.T, c faultCase, method, body, key string, cause Cause, want string) {
	tr, got := &Transport{}, &tally{}
	var options []func(*httptest.Server)
	if c.http2 {
		tr.Base = h2cBase()
		options = append(options, h2c)
	}
	if c.tr != nil {
		c.tr(tr)
	}
	if c.late != nil {
		defer runDown(tr, got, c.late)()
	}
	w := newWorld(t, tr)
	b := serve(t, "b", nil, options...)
	a := fake.Up("orders", "a", c.a(t, got))
	if c.warm {
		w.Set("orders", a)
		if _, err := w.fetch("GET", "http://orders/warm", ""); err != nil {
			t.Fatalf("the first request: %v", err)
		}
		w.Apply("orders", a, fake.Spare("orders", "b", b.addr()))
	} else {
		w.Set("orders", a, fake.Spare("orders", "b", b.addr()))
	}
	headers := []string{}
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	answer, err := w.fetch(method, "http://orders/pay", body, headers...)
	if answer != want || (err == nil) != (want != "") {
		t.Errorf("got %q, %v; want %q", answer, err, want)
	}
	if n := got.sum(); n > 1 {
		t.Errorf("a got the request %d times", n)
	}
	if seen := b.got(); want != "" && (len(seen) != 1 || seen[0].body != body || seen[0].method != method) {
		t.Errorf("b got %+v", seen)
	} else if want == "" && len(seen) != 0 {
		t.Errorf("b got %+v, though the request may have been processed", seen)
	}
	if err != nil && (eider.KindOf(err) != eider.Unavailable || !strings.Contains(err.Error(), "orders/a ") || !strings.Contains(err.Error(), "Idempotency-Key")) {
		t.Errorf("the error is %v", err)
	}
	if n := tr.Faults()[cause]; n != 1 {
		t.Errorf("faults are %v, want one %v", tr.Faults(), cause)
	}
}

// The bounds of a try end it by themselves.
func TestBoundsEndATry(t *testing.T) {
	const short = 50 * time.Millisecond
	hung := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, row := range map[string]struct {
		tr    *Transport
		a     func(*testing.T, *tally) string
		cause Cause
		err   error
	}{
		"header":  {&Transport{HeaderTimeout: short}, http1(0, forever), TimedOut, errHeaderTimeout},
		"try":     {&Transport{TryTimeout: short}, nowhere, ConnectTimeout, errTryTimeout},
		"connect": {&Transport{ConnectTimeout: short}, nowhere, ConnectTimeout, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bound := row.tr.ConnectTimeout
			dialing(hung)(row.tr)
			row.tr.ConnectTimeout = bound
			w := newWorld(t, row.tr)
			w.Set("orders", fake.Up("orders", "a", row.a(t, &tally{})))
			if _, err := w.fetch("GET", "http://orders/", ""); !errors.Is(err, row.err) || row.tr.Faults()[row.cause] != 1 {
				t.Errorf("%v, faults %v; want %v", err, row.tr.Faults(), row.err)
			}
		})
	}
}
