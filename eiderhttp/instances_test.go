package eiderhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/internal/fake"
)

// aside is a Transport by which who has been set aside stays so: by default he is tried again within a second, which is shorter
// than a few requests take on a busy machine.
func aside() *Transport { return &Transport{Breaker: breaker.Config{OpenFor: time.Hour}} }

// What is set aside costs no further request a try.
func TestU2OneRefusalSetsAside(t *testing.T) {
	w := newWorld(t, aside())
	b := serve(t, "b", nil)
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Spare("orders", "b", b.addr()))
	for range 10 {
		w.want("200 b", "POST", "http://orders/", "x")
	}
	if n := w.tr.Faults()[Refused]; n != 1 {
		t.Errorf("%d of 10 requests were refused, want the first alone", n)
	}
	w.Await("the refusal told upstream", func(h *fake.Heard) bool { return len(h.Doubts) > 0 && h.Doubts[0].GetId() == "a" })
}

func TestU2TwoFailuresSetAside(t *testing.T) {
	w := newWorld(t, aside())
	got := &tally{}
	b := serve(t, "b", nil)
	w.Set("orders", fake.Up("orders", "a", http1(0, func(net.Conn) bool { return false })(t, got)), fake.Spare("orders", "b", b.addr()))
	for i := range 10 {
		_, err := w.fetch("POST", "http://orders/", "x")
		if (err != nil) != (i < 2) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if n := got.sum(); n != 2 {
		t.Errorf("the failing instance got %d requests, want 2", n)
	}
}

// hung serves an instance that never answers, and returns the one that is called when it is set aside.
func hung(t *testing.T, w *world, service string) *server {
	b := serve(t, "b", nil)
	w.Set(service, fake.Up(service, "a", http1(0, forever)(t, &tally{})), fake.Spare(service, "b", b.addr()))
	return b
}

// Callers that hang up say nothing about the instance, whatever cause they give.
func TestK10HangingUpIsNeutral(t *testing.T) {
	w := newWorld(t, &Transport{Slow: time.Nanosecond})
	got := &tally{}
	reached := make(chan struct{}, 1)
	b := serve(t, "b", nil)
	a := http1(0, func(c net.Conn) bool { reached <- struct{}{}; return forever(c) })(t, got)
	w.Set("orders", fake.Up("orders", "a", a), fake.Spare("orders", "b", b.addr()))
	for range 6 {
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan error, 1)
		go func() {
			req := post(t, strings.NewReader("x"))
			resp, err := w.tr.RoundTrip(req.WithContext(ctx))
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		select {
		case <-reached:
		case err := <-done:
			cancel(nil)
			t.Fatalf("a wasn't called, though its callers have only hung up: %v", err)
		}
		cancel(errors.New("the user has closed the tab"))
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want it to be context.Canceled", err)
		}
	}
	if n := got.sum(); n != 6 {
		t.Errorf("a got %d of 6 requests: it was set aside for its callers' hanging up", n)
	}
}

func TestK10HangingUpWhileReadingIsNeutral(t *testing.T) {
	w := newWorld(t, &Transport{Slow: time.Nanosecond})
	var served atomic.Int64
	a := serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	b := serve(t, "b", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()), fake.Spare("orders", "b", b.addr()))
	for range 6 {
		ctx, cancel := context.WithCancel(context.Background())
		resp, err := w.tr.RoundTrip(post(t, nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("reading ended with %v", err)
		}
		resp.Body.Close()
	}
	if n := served.Load(); n != 6 {
		t.Errorf("a got %d of 6 requests", n)
	}
}

// A deadline is a failure if the try had at least Slow, and neutral if it had less.
func TestK11DeadlineCountsIfThereWasTime(t *testing.T) {
	for _, row := range []struct {
		slow, deadline time.Duration
		aside          bool
	}{{time.Hour, 80 * time.Millisecond, false}, {20 * time.Millisecond, time.Second, true}} {
		w := newWorld(t, &Transport{Slow: row.slow})
		b := hung(t, w, "orders")
		for range 5 {
			ctx, cancel := context.WithTimeout(context.Background(), row.deadline)
			resp, err := w.tr.RoundTrip(post(t, strings.NewReader("x")).WithContext(ctx))
			cancel()
			if err == nil {
				resp.Body.Close()
			} else if e, ok := errors.AsType[*eider.Error](err); !ok || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		if aside := len(b.got()) > 0; aside != row.aside {
			t.Errorf("Slow %v: the hung instance is set aside: %v, want %v", row.slow, aside, row.aside)
		}
	}
}

// http.Client.Timeout tells by the context and by Request.Cancel, in either order.
func TestK11ClientTimeoutCountsToo(t *testing.T) {
	w := newWorld(t, &Transport{Slow: 20 * time.Millisecond})
	b := hung(t, w, "orders")
	w.hc.Timeout = time.Second
	for range 5 {
		resp, err := w.hc.Post("http://orders/", "text/plain", strings.NewReader("x"))
		if err == nil {
			resp.Body.Close()
		} else if e, ok := err.(interface{ Timeout() bool }); !ok || !e.Timeout() {
			t.Errorf("%v is no timeout", err)
		}
	}
	if len(b.got()) == 0 {
		t.Error("the hung instance isn't set aside")
	}
}

// An ended context begins nothing.
func TestNoTryAfterTheDeadline(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "a", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.tr.RoundTrip(post(t, nil).WithContext(ctx)); !errors.Is(err, context.Canceled) || len(a.got()) != 0 {
		t.Errorf("got %v, and a got %v", err, a.got())
	}
}

// A request never comes back to an instance that it has tried while there is another.
func TestK17RetriesGoElsewhere(t *testing.T) {
	w := newWorld(t, &Transport{})
	cut := func(net.Conn) bool { return false }
	var bad [2]tally
	c := serve(t, "c", nil)
	for i := range 20 {
		service := fmt.Sprintf("s%d", i)
		w.Set(service, fake.Up(service, "a", http1(0, cut)(t, &bad[0])), fake.Up(service, "b", http1(0, cut)(t, &bad[1])), fake.Spare(service, "c", c.addr()))
		w.want("200 c", "PUT", "http://"+service+"/", "x")
	}
	if bad[0].sum() != 20 || bad[1].sum() != 20 {
		t.Errorf("the bad ones were tried %d and %d times in 20 requests, want once each", bad[0].sum(), bad[1].sum())
	}
}

func TestTriesAreBounded(t *testing.T) {
	w := newWorld(t, &Transport{Tries: 2})
	cut := func(net.Conn) bool { return false }
	var bad [2]tally
	c := serve(t, "c", nil)
	w.Set("orders", fake.Up("orders", "a", http1(0, cut)(t, &bad[0])), fake.Up("orders", "b", http1(0, cut)(t, &bad[1])), fake.Spare("orders", "c", c.addr()))
	_, err := w.fetch("PUT", "http://orders/pay", "x")
	for _, says := range []string{"orders/a 127.0.0.1:", "orders/b 127.0.0.1:", "; orders/", "no tries are left"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v doesn't say %q", err, says)
		}
	}
}

// When most of a fleet is killed at once, the one that lives is found: a refused dial is no try. But it is bounded.
func TestU2RefusedDialsAreNoTries(t *testing.T) {
	w := newWorld(t, &Transport{})
	c := serve(t, "z", nil)
	fleet := func(service string, dead int, rest ...eider.Instance) {
		for i := range dead {
			rest = append(rest, fake.Up(service, fmt.Sprintf("dead%02d", i), fake.DeadPort(t)))
		}
		w.Set(service, rest...)
	}
	fleet("orders", 5, fake.Up("orders", "z", c.addr()))
	for range 10 {
		w.want("200 z", "POST", "http://orders/pay", "x")
	}
	fleet("gone", 30)
	_, err := w.fetch("POST", "http://gone/pay", "x")
	if n := strings.Count(fmt.Sprint(err), "connection refused"); n < 17 || n > 20 {
		t.Errorf("%d dead instances were dialled for one request: %v", n, err)
	}
	w.tr.Tries = 1
	fleet("once", 2)
	if _, err := w.fetch("POST", "http://once/pay", "x"); strings.Count(fmt.Sprint(err), "connection refused") != 1 {
		t.Errorf("Tries 1 means no retries: %v", err)
	}
}

// The budget counts first attempts over a window; retries that cost nobody work are free.
func TestK19RetryBudget(t *testing.T) {
	w := newWorld(t, &Transport{RetryRatio: -1})
	b := serve(t, "b", nil)
	got := &tally{}
	w.Set("orders", fake.Up("orders", "a", http1(0, func(net.Conn) bool { return false })(t, got)), fake.Spare("orders", "b", b.addr()))
	if _, err := w.fetch("PUT", "http://orders/", "x"); err == nil || !strings.Contains(err.Error(), "budget") {
		t.Errorf("got %v", err)
	}
	w.Set("dead", fake.Up("dead", "a", fake.DeadPort(t)), fake.Spare("dead", "b", b.addr()))
	w.want("200 b", "PUT", "http://dead/", "x")

	w.tr.RetryRatio = 0.2
	w.Set("flaky", fake.Up("flaky", "a", http1(0, func(net.Conn) bool { return false })(t, got)), fake.Up("flaky", "b", http1(0, func(net.Conn) bool { return false })(t, got)))
	for range 200 {
		w.fetch("PUT", "http://flaky/", "x")
	}
	svc, _ := w.tr.service("flaky")
	attempts, retries, limit := svc.budget.Used(time.Now())
	if attempts == 0 || retries == 0 || retries > limit {
		t.Errorf("%d retries of %d first attempts, of which %d are allowed", retries, attempts, limit)
	}
}

// The only instance there is gets a fresh connection when a stale one failed, as plain net/http would do it.
func TestTheOnlyInstanceIsTriedAfresh(t *testing.T) {
	w := newWorld(t, &Transport{})
	got := &tally{}
	conns := atomic.Int64{}
	l := fake.Script(t, func(n int, c net.Conn) {
		conns.Add(1)
		requests(c, func(k int, r *http.Request, body string) bool {
			got.add(r.Method)
			if n == 0 && k == 1 {
				return false
			}
			io.WriteString(c, answerOK)
			return true
		})
	})
	w.Set("orders", fake.Up("orders", "a", l.Addr().String()))
	w.want("200 a", "GET", "http://orders/", "")
	w.want("200 a", "GET", "http://orders/", "")
	if conns.Load() != 2 || got.sum() != 3 {
		t.Errorf("%d connections and %d requests, want 2 and 3", conns.Load(), got.sum())
	}
	w.Set("dead", fake.Up("dead", "a", fake.DeadPort(t)))
	if _, err := w.fetch("GET", "http://dead/", ""); err == nil || w.tr.Faults()[Refused] != 1 || !strings.Contains(err.Error(), "no other instance") {
		t.Errorf("an instance that refuses is asked once: %v, %v", err, w.tr.Faults())
	}
}

// identity is what package drain does around every handler: 421 to whoever wanted somebody else.
func identity(in eider.Instance) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Eider-To") != in.ID+"@"+in.Incarnation.String() {
			http.Error(w, "somebody else", http.StatusMisdirectedRequest)
			return
		}
		io.WriteString(w, in.Key.String())
	}
}

// Two services swap their ports under a caller that hasn't heard: nobody's request is answered by the wrong one.
func TestR16TwoServicesSwapAPort(t *testing.T) {
	w := newWorld(t, aside())
	orders, stock := fake.Up("orders", "1", ""), fake.Up("stock", "1", "")
	first, second := serve(t, "", identity(orders)), serve(t, "", identity(stock))
	orders2, stock2 := fake.Up("orders", "2", ""), fake.Up("stock", "2", "")
	third, fourth := serve(t, "", identity(orders2)), serve(t, "", identity(stock2))
	orders.Address, stock.Address = second.addr(), first.addr() // the registry's word is old: they have swapped
	orders2.Address, stock2.Address = third.addr(), fourth.addr()
	orders2.Suspicion, stock2.Suspicion = eider.BeatsMissed, eider.BeatsMissed
	w.Set("orders", orders, orders2)
	w.Set("stock", stock, stock2)
	for range 3 {
		w.want("200 orders/2", "POST", "http://orders/", "x")
		w.want("200 stock/2", "POST", "http://stock/", "x")
	}
	if n := w.tr.Faults()[WrongAddress]; n != 4 {
		t.Errorf("%d wrong addresses, want 2 for each before it is set aside", n)
	}
	w.Set("alone", func() eider.Instance { in := fake.Up("alone", "1", first.addr()); return in }())
	if got, err := w.fetch("POST", "http://alone/", "x"); err != nil || !strings.HasPrefix(got, "421") {
		t.Errorf("without anybody else the 421 is the answer: %q, %v", got, err)
	}
}
