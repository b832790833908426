package eiderhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/internal/fake"
)

// shownCase is one request, or what there is of it, and what the breaker of its service makes of that.
type shownCase struct {
	name   string
	tr     *Transport // nil: a plain one
	a, b   func(*testing.T, *tally) string
	in     func(eider.Instance) eider.Instance // a, as it is listed
	do     func(t *testing.T, m *member)       // nil: a GET that is read to its end
	counts uint64
	fails  uint64
}

func cut(net.Conn) bool { return false }

func says(answer string) func(*testing.T, *tally) string {
	return http1(0, func(c net.Conn) bool { io.WriteString(c, "HTTP/1.1 "+answer); return answer != cutShort })
}

const cutShort = "200 OK\r\nContent-Length: 5\r\n\r\nab"

func sends(req func(*testing.T) *http.Request) func(*testing.T, *member) {
	return func(t *testing.T, m *member) { m.do(req(t)) }
}

func posts(t *testing.T) *http.Request { return post(t, strings.NewReader("x")) }

func answerCases() []shownCase {
	held := func(in eider.Instance) eider.Instance { in.Hold = &eider.Hold{}; return in }
	return []shownCase{
		{name: "200", a: says("200 OK\r\nContent-Length: 1\r\n\r\na"), counts: 1},
		{name: "204, without a body", a: says("204 No Content\r\n\r\n"), counts: 1},
		{name: "404", a: says("404 Not Found\r\nContent-Length: 0\r\n\r\n"), counts: 1},
		{name: "503", a: says("503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), counts: 1, fails: 1},
		{name: "503 of one that leaves", a: says("503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), in: fake.Draining},
		{name: "503 of one that is held", a: says("503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), in: held},
		{name: "somebody else, everywhere", a: says("421 Misdirected\r\nContent-Length: 0\r\n\r\n"), counts: 1, fails: 1},
		{name: "a body that breaks off", a: says(cutShort), counts: 1, fails: 1, do: func(t *testing.T, m *member) {
			if _, err := m.fetch("GET", "http://orders/", ""); err == nil {
				t.Error("it didn't break off")
			}
		}},
		{name: "a body that breaks off, of one that leaves", a: says(cutShort), in: fake.Draining},
		{name: "a body that nobody reads", a: says(cutShort), counts: 1, do: func(t *testing.T, m *member) {
			resp, err := m.tr.RoundTrip(get(t)())
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			resp.Body.Close()
		}},
		{name: "a long poll", a: says("200 OK\r\nContent-Length: 1\r\n\r\na"), counts: 1, do: func(_ *testing.T, m *member) {
			m.fetch("GET", "http://orders/", "", "Prefer", "wait=30")
		}},
	}
}

func failureCases() []shownCase {
	return []shownCase{
		{name: "cut, and answered elsewhere", a: http1(0, cut), b: says("200 OK\r\nContent-Length: 1\r\n\r\na"), counts: 1},
		{name: "refused, and answered elsewhere", a: dead, b: says("200 OK\r\nContent-Length: 1\r\n\r\na"), counts: 1},
		{name: "cut, and 503 elsewhere", a: http1(0, cut), b: says("503 Unavailable\r\nContent-Length: 0\r\n\r\n"), counts: 1, fails: 1},
		{name: "cut everywhere", a: http1(0, cut), b: http1(0, cut), counts: 1, fails: 1},
		{name: "cut, and not to be sent again", a: http1(0, cut), b: says("200 OK\r\n\r\n"), counts: 1, fails: 1, do: sends(posts)},
		{name: "refused everywhere", a: dead, b: dead, counts: 1, fails: 1},
		{name: "cut by one that leaves", a: http1(0, cut), in: fake.Draining},
		{name: "nobody is there"},
		{name: "ended before it began", a: dead, do: func(t *testing.T, m *member) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			m.tr.RoundTrip(get(t)().WithContext(ctx))
		}},
		{name: "breakers of instances reject", tr: &Transport{NoFloor: true, Breaker: breaker.Config{OpenFor: time.Hour}}, a: dead, counts: 1, fails: 1,
			do: func(t *testing.T, m *member) {
				m.do(get(t)())
				if _, err := m.do(get(t)()); !errors.Is(err, breaker.ErrRejected) {
					t.Errorf("the second got %v", err)
				}
			}},
		{name: "a bulkhead is full", tr: &Transport{NoBreakers: true, Bulkhead: &bulkhead.Config{Limit: 1}}, a: http1(0, forever), do: func(t *testing.T, m *member) {
			end := hang(t, m)
			if _, err := m.do(get(t)()); !errors.Is(err, bulkhead.ErrFull) {
				t.Errorf("got %v", err)
			}
			end(context.Canceled)
		}},
		{name: "its body can't be read", a: says("200 OK\r\n\r\n"), do: sends(func(t *testing.T) *http.Request { return post(t, failing{errors.New("no")}) })},
	}
}

func callersCases() []shownCase {
	slow := func(d time.Duration) *Transport { return &Transport{NoBreakers: true, Slow: d} }
	breaks := func(end func()) *Transport {
		return &Transport{NoBreakers: true, Wrap: func(http.RoundTripper) http.RoundTripper {
			return roundTripper(func(*http.Request) (*http.Response, error) { end(); return nil, nil })
		}}
	}
	gone := func(t *testing.T, m *member) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { _ = recover() }()
			m.tr.RoundTrip(get(t)())
		}()
		<-over
	}
	return []shownCase{
		{name: "the caller hangs up", a: http1(0, forever), tr: slow(time.Nanosecond), do: func(t *testing.T, m *member) { hang(t, m)(context.Canceled) }},
		{name: "the deadline came soon", a: http1(0, forever), tr: slow(time.Hour), do: func(t *testing.T, m *member) { hang(t, m)(context.DeadlineExceeded) }},
		{name: "there was time enough", a: http1(0, forever), tr: slow(time.Nanosecond), counts: 1, fails: 1,
			do: func(t *testing.T, m *member) { hang(t, m)(context.DeadlineExceeded) }},
		{name: "there was time enough, at one that leaves", a: http1(0, forever), tr: slow(time.Nanosecond), in: fake.Draining,
			do: func(t *testing.T, m *member) { hang(t, m)(context.DeadlineExceeded) }},
		{name: "a long poll's deadline", a: http1(0, forever), tr: slow(time.Nanosecond), do: func(t *testing.T, m *member) {
			m.tr.Waits = func(*http.Request) bool { return true }
			hang(t, m)(context.DeadlineExceeded)
		}},
		{name: "a panic", a: dead, tr: breaks(func() { panic("no") }), counts: 1, fails: 1, do: gone},
		{name: "the goroutine ends", a: dead, tr: breaks(runtime.Goexit), counts: 1, fails: 1, do: gone},
	}
}

// hang sends a request that is not answered, and returns once it has come what ends it.
func hang(t *testing.T, m *member) (end func(why error)) {
	ctx := &ending{Context: context.Background(), done: make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		m.tr.RoundTrip(get(t)().WithContext(ctx))
	}()
	for limit := time.Now().Add(patience); m.got.sum() == 0; <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			t.Error("it never came")
			break
		}
	}
	return func(why error) {
		ctx.end(why)
		<-over
	}
}

// ending is a context that ends of what the test says.
type ending struct {
	context.Context
	done chan struct{}
	why  atomic.Pointer[error]
}

func (e *ending) Done() <-chan struct{} { return e.done }

func (e *ending) Err() error {
	if why := e.why.Load(); why != nil {
		return *why
	}
	return nil
}

func (e *ending) end(why error) {
	e.why.Store(&why)
	close(e.done)
}

// TestWhatARequestShowsOfItsService: each of them is one outcome, or none, and none is forgotten.
func TestWhatARequestShowsOfItsService(t *testing.T) {
	for _, c := range append(append(answerCases(), failureCases()...), callersCases()...) {
		t.Run(c.name, func(t *testing.T) {
			m := c.member(t)
			if c.do == nil {
				c.do = sends(func(t *testing.T) *http.Request { return get(t)() })
			}
			c.do(t, m)
			s := m.gate().Own().Snapshot()
			if s.Total != c.counts || s.Failures != c.fails || s.InFlight != 0 {
				t.Errorf("%d outcomes, of which %d failures, and %d in flight; want %d, %d, none", s.Total, s.Failures, s.InFlight, c.counts, c.fails)
			}
		})
	}
}

func (c *shownCase) member(t *testing.T) *member {
	var got tally
	var instances []eider.Instance
	if c.a != nil {
		a := fake.Up("orders", "a", c.a(t, &got))
		if c.in != nil {
			a = c.in(a)
		}
		instances = append(instances, a)
	}
	if c.b != nil {
		instances = append(instances, fake.Spare("orders", "b", c.b(t, &got)))
	}
	m := together(t, 1, fleet.Config{Local: breaker.Config{FailureMin: 1000}}, func(int) *Transport {
		if c.tr != nil {
			return c.tr
		}
		return &Transport{NoBreakers: true}
	}, instances...)[0]
	m.got = &got
	return m
}
