package eiderhttp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/internal/fake"
)

// Whoever answers first wins, the first or the second one; whoever loses is hung up on, and it says nothing of him.
func TestTheFirstAnswerWins(t *testing.T) {
	big := strings.Repeat("0123456789", 30_000)
	for _, row := range []struct {
		name   string
		winner int
		tr     *Transport
		body   string
		known  bool // net/http knows that the body is in memory
		status int
		option func(*httptest.Server)
	}{
		{name: "second", winner: 2, tr: &Transport{}, status: 200},
		{name: "first", winner: 1, tr: &Transport{}, status: 200},
		{name: "second, with a body", winner: 2, tr: &Transport{}, status: 200, body: big, known: true},
		{name: "second, with a body from elsewhere", winner: 2, tr: &Transport{}, status: 200, body: big},
		{name: "first, with a body from elsewhere", winner: 1, tr: &Transport{}, status: 200, body: big},
		{name: "second, without content", winner: 2, tr: &Transport{}, status: 204},
		{name: "second, whatever it says", winner: 2, tr: &Transport{Breaker: breaker.Config{Consecutive: 5}}, status: 503},
		{name: "second, HTTP/2", winner: 2, tr: &Transport{Base: h2cBase()}, status: 200, body: big, option: h2c},
		{name: "first, HTTP/2", winner: 1, tr: &Transport{Base: h2cBase()}, status: 200, option: h2c},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			spans, options := &recorder{}, []func(*httptest.Server){}
			if row.option != nil {
				options = append(options, row.option)
			}
			row.tr.Hedge, row.tr.TracerProvider = soon, spans
			l := newLists(t, 2, row.tr, func(l *lists, n int, w http.ResponseWriter, r *http.Request) {
				if n != row.winner {
					l.hang(w, r)
					return
				}
				l.await(2)
				w.WriteHeader(row.status)
				if row.status != 204 {
					io.WriteString(w, "won")
				}
			}, options...)
			testRace(t, l, spans, row.body, row.known, row.status)
		})
	}
}

func testRace(t *testing.T, l *lists, spans *recorder, body string, known bool, status int) {
	req := post(t, nil)
	req.Header.Set("Idempotency-Key", "1")
	if body != "" {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return content{strings.NewReader(body)}, nil }
		req.Body, _ = req.GetBody()
		if known {
			req.Body = io.NopCloser(strings.NewReader(body))
		}
	}
	got, err := l.do(req)
	if want := map[int]string{200: "200 won", 204: "204 ", 503: "503 won"}[status]; got != want || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	l.neutral(l.loser())
	for _, s := range l.servers {
		if seen := s.got(); len(seen) != 1 || seen[0].body != body {
			t.Errorf("an instance got %d requests, or another body", len(seen))
		}
	}
	if n, all := l.hedges(); n != 1 || all != 2 {
		t.Errorf("the meter has %v hedges of %v tries", n, all)
	}
	if n := len(l.tr.Faults()); n != 0 {
		t.Errorf("faults are %v: losing is none", l.tr.Faults())
	}
	s := spans.only(t)
	s.is(t, "http.request.resend_count=1")
	if slices.Sort(s.events); !slices.Equal(s.events, []string{"try a", "try b"}) {
		t.Errorf("the span has %q", s.events)
	}
}

func put(t *testing.T) *http.Request {
	req := post(t, nil)
	req.Method = "PUT"
	return req
}

// What isn't sent twice: each of these waits for its first answer alone, however long it takes.
func TestWhatIsNotHedged(t *testing.T) {
	once := func(t *testing.T) *http.Request {
		req := put(t)
		req.Body = &single{Reader: strings.NewReader("once")}
		return req
	}
	for name, row := range map[string]struct {
		tr  *Transport
		req func(*testing.T) *http.Request
		set func(l *lists)
	}{
		"a POST without a key":        {req: func(t *testing.T) *http.Request { return post(t, strings.NewReader("x")) }},
		"what the user says":          {tr: &Transport{Repeatable: func(*http.Request) bool { return false }}},
		"a body that can be had once": {req: once},
		"a body that can't be had again": {req: func(t *testing.T) *http.Request {
			req := once(t)
			req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("lost") }
			return req
		}},
		"a long poll": {req: func(t *testing.T) *http.Request {
			req := put(t)
			req.Header.Set("Prefer", "wait=10")
			return req
		}},
		"one try":           {tr: &Transport{Tries: 1}},
		"no budget":         {tr: &Transport{RetryRatio: -1}},
		"no hedging":        {tr: &Transport{Hedge: -1}},
		"one instance":      {set: func(l *lists) { l.Set("orders", l.instances()[0]) }},
		"the other suspect": {set: func(l *lists) { l.Set("orders", l.instances()[0], fake.Spare("orders", "b", l.servers[1].addr())) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.req == nil {
				row.req = put
			}
			tr := cmp.Or(row.tr, &Transport{})
			tr.Hedge = cmp.Or(tr.Hedge, soon)
			testNotHedged(t, tr, row.req(t), row.set)
		})
	}
}

func testNotHedged(t *testing.T, tr *Transport, req *http.Request, set func(l *lists)) {
	l := newLists(t, 2, tr, func(l *lists, n int, w http.ResponseWriter, r *http.Request) {
		select {
		case <-l.came[1]:
		case <-time.After(time.Second):
		}
	})
	if set != nil {
		set(l)
	}
	_, err := l.do(req)
	if n, all := l.hedges(); err != nil || n != 0 || all != 1 {
		t.Errorf("%v; the meter has %v hedges of %v tries", err, n, all)
	}
	for i, s := range l.servers { // a pick that came to nothing was given back: who leaves is let go of
		if in := l.instances(); len(s.got()) == 0 && set == nil {
			in[i] = fake.Draining(in[i])
			l.Set("orders", in...)
			l.Await("letting go", fake.LetGo(in[i].ID))
		}
	}
}

// An answer that comes when the race is over is closed, and so is one that nobody would have wanted anyway.
func TestALateAnswerIsClosed(t *testing.T) {
	for _, status := range []int{200, 421} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			over := make(chan struct{})
			tr := &Transport{Hedge: soon, Wrap: func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					resp, err := next.RoundTrip(r)
					if err == nil && resp.Header.Get("Late") != "" {
						<-over
					}
					return resp, err
				})
			}}
			l := newLists(t, 2, tr, func(l *lists, n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					w.Header().Set("Late", "yes")
					w.WriteHeader(status)
					http.NewResponseController(w).Flush()
					l.hang(w, r)
				}
			})
			if got, err := l.do(put(t)); got != "200 " || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			close(over)
			l.loser()
			for end := time.Now().Add(patience); slices.ContainsFunc(tr.live(), func(in *instance) bool { return in.inFlight.Load() > 0 }); {
				if time.Now().After(end) {
					t.Fatal("the late answer is still in use")
				}
				<-time.After(time.Millisecond)
			}
		})
	}
}

// A trial isn't: whoever hangs shall be seen to.
func TestATrialIsNotHedged(t *testing.T) {
	well := serve(t, "well", nil)
	stuck := serve(t, "stuck", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	w := newWorld(t, &Transport{Slow: 300 * time.Millisecond, Tries: 2, Hedge: soon})
	a, b := fake.Up("orders", "a", well.addr()), fake.Hanging(fake.Up("orders", "b", stuck.addr()))
	w.Set("orders", a, b)
	w.want("200 well", "GET", "http://orders/", "")
	w.ask(b)
	w.want("200 well", "GET", "http://orders/", "")
	if n := w.tr.Faults()[TimedOut]; n != 1 {
		t.Errorf("%d trials have timed out, want the one", n)
	}
}

// One of two fails: the other is waited for. When both have, a third one is tried, if there are tries left.
func TestOneOfTwoFails(t *testing.T) {
	for name, row := range map[string]struct {
		tries  int
		fails  int // so many of the two
		method string
		want   string
		cut    uint64
	}{
		"the other answers":     {3, 1, "GET", "200 ok", 1},
		"both, and a third":     {3, 2, "PUT", "200 ok", 2},
		"both, and that was it": {2, 2, "PUT", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLists(t, 3, &Transport{Hedge: soon, Tries: row.tries}, func(l *lists, n int, w http.ResponseWriter, r *http.Request) {
				l.await(2)
				if n == 2 { // once the first one's failure is known
					for end := time.Now().Add(patience); l.tr.Faults()[Cut] == 0 && time.Now().Before(end); {
						<-time.After(time.Millisecond)
					}
				}
				if n <= row.fails {
					panic(http.ErrAbortHandler)
				}
				io.WriteString(w, "ok")
			})
			body := ""
			if row.method == "PUT" {
				body = "body"
			}
			got, err := l.fetch(row.method, "http://orders/", body)
			if got != row.want || (err == nil) != (row.want != "") || l.tr.Faults()[Cut] != row.cut {
				t.Errorf("got %q, %v, faults %v", got, err, l.tr.Faults())
			}
			if row.want == "" && (strings.Count(err.Error(), ": EOF") != 2 || !strings.Contains(err.Error(), "no tries are left")) {
				t.Errorf("%v doesn't name both", err)
			}
			if row.fails == 1 && l.got() != 2 {
				t.Errorf("there were %d requests, though the second one was to be waited for", l.got())
			}
			for _, s := range l.servers {
				if seen := s.got(); len(seen) > 1 || len(seen) == 1 && seen[0].body != body {
					t.Errorf("an instance got %+v", seen)
				}
			}
		})
	}
}

// Who has failed before the time has come is replaced, as ever.
func TestAFailureBeforeItsTimeIsRetried(t *testing.T) {
	l := newLists(t, 2, &Transport{Hedge: time.Hour}, func(l *lists, n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "ok")
	})
	l.want("200 ok", "PUT", "http://orders/", "body")
	if n, all := l.hedges(); n != 0 || all != 2 {
		t.Errorf("the meter has %v hedges of %v tries", n, all)
	}
}

// What ends one try ends both: the caller, each for itself the bounds of a try.
func TestBothEnd(t *testing.T) {
	hang := func(l *lists, _ int, w http.ResponseWriter, r *http.Request) { l.hang(w, r) }
	t.Run("the caller cancels", func(t *testing.T) {
		l := newLists(t, 3, &Transport{Hedge: soon}, hang)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { l.await(2); cancel() }()
		req := post(t, nil).WithContext(ctx)
		req.Method = "DELETE"
		if _, err := l.do(req); !errors.Is(err, context.Canceled) || l.got() != 2 {
			t.Errorf("got %v, after %d requests", err, l.got())
		}
		l.neutral(l.loser())
		l.neutral(l.loser())
	})
	for name, tr := range map[string]*Transport{
		"HeaderTimeout": {HeaderTimeout: 300 * time.Millisecond, Tries: 2},
		"TryTimeout":    {TryTimeout: 300 * time.Millisecond, Tries: 2},
	} {
		t.Run(name, func(t *testing.T) {
			tr.Hedge = soon
			l := newLists(t, 3, tr, hang)
			if got, err := l.fetch("GET", "http://orders/", ""); err == nil || tr.Faults()[TimedOut]+tr.Faults()[ConnectTimeout] != 2 {
				t.Errorf("got %q, %v, faults %v", got, err, tr.Faults())
			}
		})
	}
}
