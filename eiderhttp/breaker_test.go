package eiderhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/internal/fake"
)

// standing is what the Transport's breaker of an instance is: "open aside".
func (w *world) standing(service, id string) string {
	w.t.Helper()
	for _, s := range (*w.tr.services.Load())[service].roster.Standings() {
		if s.ID == id {
			word := s.Breaker.State.String()
			if s.Aside {
				word += " aside"
			}
			if s.Kept {
				word += " kept"
			}
			return word
		}
	}
	return "none"
}

func (w *world) wantStanding(id, want string) {
	w.t.Helper()
	if got := w.standing("orders", id); got != want {
		w.t.Errorf("%s is %q, want %q", id, got, want)
	}
}

// TestAnswersThatCountAgainstTheInstance: what a server says of itself, and what the user says; the caller gets the
// answer in any case, once.
func TestAnswersThatCountAgainstTheInstance(t *testing.T) {
	teapot := func(r *http.Response) bool { return r.StatusCode == http.StatusTeapot }
	for _, row := range []struct {
		name   string
		failed func(*http.Response) bool
		status int
		want   string
	}{
		{"502", nil, 502, "open aside"}, {"503", nil, 503, "open aside"}, {"504", nil, 504, "open aside"},
		{"500", nil, 500, "closed"}, {"429", nil, 429, "closed"}, {"404", nil, 404, "closed"},
		{"the user's own", teapot, 418, "open aside"}, {"nor any other", teapot, 503, "closed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, &Transport{Failed: row.failed, Breaker: breaker.Config{OpenFor: time.Hour}})
			a := serve(t, "a", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(row.status); io.WriteString(w, "no") })
			b := serve(t, "b", nil)
			w.Set("orders", fake.Up("orders", "a", a.addr()), fake.Spare("orders", "b", b.addr()))
			for range 2 {
				resp, err := w.hc.Get("http://orders/")
				if err != nil || resp.StatusCode != row.status {
					t.Fatalf("got %v, %v", resp, err)
				}
				if body, err := io.ReadAll(resp.Body); string(body) != "no" || err != nil {
					t.Errorf("its body is %q, %v", body, err)
				}
				resp.Body.Close()
			}
			w.wantStanding("a", row.want)
			if n := len(a.got()); n != 2 {
				t.Errorf("a got %d requests for 2: an answer is sent again", n)
			}
		})
	}
}

// TestK7RequestsThatHangOpen: nobody has given up, and not one answer has come. The limit is long beside what a busy machine takes
// for an answer, and the requests to b aren't counted on.
func TestK7RequestsThatHangOpen(t *testing.T) {
	w := newWorld(t, &Transport{Breaker: breaker.Config{SlowLimit: 300 * time.Millisecond, OpenFor: time.Hour}})
	defer hungRequests(t, w, 5, "")()
	for deadline := time.Now().Add(patience); w.standing("orders", "a") != "open aside"; {
		if time.Now().After(deadline) {
			t.Fatalf("a is %s, with five requests that hang", w.standing("orders", "a"))
		}
		<-time.After(10 * time.Millisecond)
	}
	w.want("200 b", "GET", "http://orders/", "")
}

// TestLongPollsAreNotSlow, by the standard's word for them, and the user's.
func TestLongPollsAreNotSlow(t *testing.T) {
	for name, tr := range map[string]*Transport{
		"Prefer: wait": {},
		"Waits":        {Waits: func(r *http.Request) bool { return r.URL.Path == "/hang" }},
	} {
		t.Run(name, func(t *testing.T) {
			tr.Breaker = breaker.Config{SlowLimit: time.Millisecond, OpenFor: time.Hour, SlowMin: 1}
			tr.Slow = time.Nanosecond
			w := newWorld(t, tr)
			end := hungRequests(t, w, 5, "respond-async, Wait=30")
			<-time.After(20 * time.Millisecond)
			w.wantStanding("a", "closed")
			end()
			w.wantStanding("a", "closed")
		})
	}
}

// hungRequests sends n requests to a, which doesn't answer them; the function returned has them end by their deadline.
func hungRequests(t *testing.T, w *world, n int, prefer string) (end func()) {
	got := make(chan struct{}, n)
	a := http1(0, func(c net.Conn) bool { got <- struct{}{}; return forever(c) })(t, &tally{})
	w.Set("orders", fake.Up("orders", "a", a), fake.Spare("orders", "b", serve(t, "b", nil).addr()))
	ended := make(chan struct{}, n)
	deadline := &expiring{Context: context.Background(), done: make(chan struct{})}
	for range n {
		go func() {
			req, _ := http.NewRequestWithContext(deadline, "POST", "http://orders/hang", nil)
			req.Header.Set("Prefer", prefer)
			if resp, err := w.tr.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
			ended <- struct{}{}
		}()
		<-got
	}
	return func() {
		deadline.expire()
		for range n {
			<-ended
		}
	}
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	done    chan struct{}
	expired atomic.Bool
}

func (e *expiring) Done() <-chan struct{} { return e.done }
func (e *expiring) Err() error {
	if e.expired.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func (e *expiring) expire() {
	e.expired.Store(true)
	close(e.done)
}

// TestAnswersMayTakeLong: the header has come, the rest takes its time, and then breaks off.
func TestAnswersMayTakeLong(t *testing.T) {
	w := newWorld(t, &Transport{Breaker: breaker.Config{OpenFor: time.Hour, SlowLimit: time.Second, SlowMin: 1}})
	stop := make(chan struct{})
	a := serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-stop
		panic(http.ErrAbortHandler)
	})
	w.Set("orders", fake.Up("orders", "a", a.addr()), fake.Spare("orders", "b", serve(t, "b", nil).addr()))
	var bodies []io.ReadCloser
	for range 2 {
		resp, err := w.hc.Get("http://orders/")
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, resp.Body)
	}
	<-time.After(1200 * time.Millisecond)
	w.wantStanding("a", "closed")
	close(stop)
	for _, b := range bodies {
		if _, err := io.ReadAll(b); err == nil {
			t.Error("it didn't break off")
		}
		b.Close()
	}
	w.wantStanding("a", "open aside")
}

// TestWhenEveryBreakerRejects the request fails at once, with a sentence; so does a retry.
func TestWhenEveryBreakerRejects(t *testing.T) {
	w := newWorld(t, &Transport{NoFloor: true, Breaker: breaker.Config{OpenFor: time.Hour}})
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Up("orders", "b", fake.DeadPort(t)))
	w.do(post(t, strings.NewReader("x")))
	_, err := w.do(post(t, strings.NewReader("x")))
	var e *eider.Error
	if !errors.Is(err, breaker.ErrRejected) || eider.KindOf(err) != eider.Unavailable || !errors.As(err, &e) || e.RetryAfter < 59*time.Minute {
		t.Errorf("got %v, %+v", err, e)
	}
	for _, part := range []string{"of 2 instances 2 can't be called", "orders/a is open: the connection was refused; try again in ", "orders/b"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v doesn't say %q", err, part)
		}
	}
}

// TestARetryHearsWhoseBreakersReject: there is somebody else, who may not be called now.
func TestARetryHearsWhoseBreakersReject(t *testing.T) {
	dial := func(_ context.Context, _, address string) (net.Conn, error) {
		if address == "127.0.0.9:1" {
			return nil, syscall.ECONNREFUSED
		}
		return nil, errors.New("no route")
	}
	w := newWorld(t, &Transport{NoFloor: true, Breaker: breaker.Config{OpenFor: time.Hour}, Base: &http.Transport{DialContext: dial}})
	w.Set("orders", fake.Up("orders", "a", "127.0.0.9:1"))
	w.do(post(t, nil))
	w.Set("orders", fake.Up("orders", "a", "127.0.0.9:1"), fake.Up("orders", "b", "127.0.0.9:2"))
	for r := (*w.tr.services.Load())["orders"].roster; len(r.View().View.Instances) < 2; {
		<-time.After(time.Millisecond)
	}
	_, err := w.do(post(t, nil))
	var e *eider.Error
	if !errors.As(err, &e) || e.Kind != eider.Unavailable || e.RetryAfter < 59*time.Minute || !errors.Is(err, breaker.ErrRejected) ||
		!strings.Contains(err.Error(), "tried orders/b 127.0.0.9:2: no route (") || !strings.Contains(err.Error(), "orders/a is open: the connection was refused") {
		t.Errorf("got %v, %+v", err, e)
	}
}

func TestWithoutBreakersNobodyIsSetAside(t *testing.T) {
	w := newWorld(t, &Transport{NoBreakers: true})
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Spare("orders", "b", serve(t, "b", nil).addr()))
	for range 10 {
		w.want("200 b", "GET", "http://orders/", "")
	}
	if n := w.tr.Faults()[Refused]; n != 10 {
		t.Errorf("%d of 10 requests were tried at a, which refuses", n)
	}
	w.wantStanding("a", "none")
}

func TestPreferWait(t *testing.T) {
	for value, want := range map[string]bool{"": false, "wait=10": true, "return=minimal, WAIT = 5; x": true, "waiting=1": false, "respond-async": false} {
		req := post(t, nil)
		if value != "" {
			req.Header.Set("Prefer", value)
		}
		if got := prefersToWait(req); got != want {
			t.Errorf("Prefer: %q waits: %v", value, got)
		}
	}
}

// TestABulkheadBoundsWhatHangs: so many requests wait for a, the next one goes elsewhere, however long the others hang.
func TestABulkheadBoundsWhatHangs(t *testing.T) {
	w := newWorld(t, &Transport{Bulkhead: &bulkhead.Config{Limit: 5}})
	defer hungRequests(t, w, 5, "")()
	w.want("200 b", "GET", "http://orders/", "")
	w.want("200 b", "GET", "http://orders/", "")
}
