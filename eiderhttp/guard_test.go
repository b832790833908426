package eiderhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/bulkhead"
)

func answering(status int, body io.Reader) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(body), Request: r}, nil
	}
}

func failingWith(err error) roundTripper {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// through sends a request to a host by a Guard and reads its answer.
func through(t *testing.T, g *Guard, host string) error {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+host+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := g.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return err
}

func TestAGuardOpensByWhatItsHostShows(t *testing.T) {
	broken := errors.New("broken off")
	for name, row := range map[string]struct {
		next  http.RoundTripper
		opens bool
	}{
		"answers":         {answering(200, strings.NewReader("yes")), false},
		"500":             {answering(500, strings.NewReader("no")), false},
		"503":             {answering(503, strings.NewReader("no")), true},
		"errors":          {failingWith(errors.New("EOF")), true},
		"broken bodies":   {answering(200, failing{broken}), true},
		"its own guard's": {failingWith(&breaker.Rejected{Name: "below"}), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Guard{Next: row.next, Breaker: breaker.Config{Consecutive: 3, OpenFor: time.Hour}}
			for range 3 {
				if err := through(t, g, "A.example"); eider.KindOf(err) == eider.Unavailable {
					t.Fatalf("rejected too soon: %v", err)
				}
			}
			err := through(t, g, "a.example")
			var e *eider.Error
			if rejected := errors.As(err, &e) && errors.Is(err, breaker.ErrRejected); rejected != row.opens {
				t.Fatalf("the fourth: %v", err)
			} else if rejected && (e.RetryAfter < 59*time.Minute || e.Kind != eider.Unavailable || !strings.Contains(err.Error(), "a.example is open")) {
				t.Errorf("%v, %+v", err, e)
			}
			if err := through(t, g, "b.example"); errors.Is(err, breaker.ErrRejected) && row.opens {
				t.Errorf("another host: %v", err)
			}
		})
	}
	g := &Guard{Next: failingWith(syscall.ECONNREFUSED)}
	through(t, g, "a.example")
	if err := through(t, g, "a.example"); !strings.Contains(err.Error(), "the connection was refused") {
		t.Errorf("after one refusal: %v", err)
	}
}

// TestK13AGuardForgetsHosts, and K14: none whose breaker isn't closed.
func TestK13AGuardForgetsHosts(t *testing.T) {
	down := map[string]bool{"down1": true, "down2": true, "down3": true}
	g := &Guard{Hosts: 3, Breaker: breaker.Config{OpenFor: time.Hour}, Next: roundTripper(func(r *http.Request) (*http.Response, error) {
		if down[r.URL.Host] {
			return nil, syscall.ECONNREFUSED
		}
		return answering(200, strings.NewReader("yes"))(r)
	})}
	through(t, g, "down1")
	through(t, g, "down2")
	for _, host := range strings.Split("abcdefghij", "") {
		if err := through(t, g, host); err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		if n := len(g.hosts); n > 3 {
			t.Fatalf("%d hosts are remembered", n)
		}
	}
	for host := range down {
		if host == "down3" {
			through(t, g, host) // there was room, and there is none after it
		}
		if err := through(t, g, host); host != "down3" && !errors.Is(err, breaker.ErrRejected) {
			t.Errorf("%s: %v", host, err)
		}
	}
	through(t, g, "down3")
	if err := through(t, g, "k"); eider.KindOf(err) != eider.Limited {
		t.Errorf("with every breaker open: %v", err)
	}
}

func TestAGuardsBulkhead(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{}, 2)
	g := &Guard{Hosts: 1, Bulkhead: &bulkhead.Config{Limit: 2}, Next: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "a" {
			held <- struct{}{}
			<-hold
		}
		return answering(200, strings.NewReader("yes"))(r)
	})}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { through(t, g, "a") })
		<-held
	}
	if err := through(t, g, "a"); !errors.Is(err, bulkhead.ErrFull) || eider.KindOf(err) != eider.Unavailable {
		t.Errorf("the third: %v", err)
	}
	if err := through(t, g, "b"); eider.KindOf(err) != eider.Limited {
		t.Errorf("another host, while the only one that may be remembered is called: %v", err)
	}
	close(hold)
	all.Wait()
	if err := through(t, g, "a"); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

// TestAPanicEndsWhatTheGuardsGave: nothing leaks, and it counts, whoever's code it is.
func TestAPanicEndsWhatTheGuardsGave(t *testing.T) {
	for name, g := range map[string]*Guard{
		"Next":     {Next: roundTripper(func(*http.Request) (*http.Response, error) { panic("no") })},
		"Failed":   {Next: answering(200, strings.NewReader("yes")), Failed: func(*http.Response) bool { panic("no") }},
		"Classify": {Next: failingWith(errors.New("EOF")), Breaker: breaker.Config{Classify: func(error) breaker.Outcome { panic("no") }}},
	} {
		g.Bulkhead, g.Breaker.Consecutive = &bulkhead.Config{Limit: 1}, 2
		for range 2 {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				through(t, g, "a")
			}()
			if n := g.hosts["a"].bulkhead.Snapshot().InFlight; n != 0 {
				t.Fatalf("%s: %d slots are held", name, n)
			}
		}
		if err := through(t, g, "a"); !errors.Is(err, breaker.ErrRejected) {
			t.Errorf("%s: after two: %v", name, err)
		}
	}
}

// TestAGuardsTrialMayBeALongPoll: it has gone well some time after it was written, long before its answer; and what the caller
// sees is its own request.
func TestAGuardsTrialMayBeALongPoll(t *testing.T) {
	answers := make(chan struct{})
	a := serve(t, "a", func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Prefer") != "" {
			<-answers
		}
	})
	base := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, a.addr())
	}}
	defer base.CloseIdleConnections()
	store := fleet.NewMemory(0)
	g := &Guard{Next: base, Fleet: &fleet.Config{Store: store, Report: 5 * time.Millisecond, Poll: 10 * time.Millisecond, Ramp: time.Millisecond,
		OpenFor: forHours, MaxOpen: forHours, Lease: forHours, Wait: patience / 4}}
	defer g.Close()
	until := func(what string, ok func(fleet.Snapshot) bool) {
		t.Helper()
		for end := time.Now().Add(patience); !ok(g.hosts["orders"].gate.Snapshot()); <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("never %s: %+v", what, g.hosts["orders"].gate.Snapshot())
				return
			}
		}
	}
	if err := through(t, g, "orders"); err != nil {
		t.Fatal(err)
	}
	until("joined", func(s fleet.Snapshot) bool { return !s.Alone })
	open(t, store, nil)
	until("open", func(s fleet.Snapshot) bool { return s.State != breaker.Closed })
	var wrote atomic.Int64
	req := get(t)().WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Add(1) }}))
	req.Header.Set("Prefer", "wait=30")
	var poll sync.WaitGroup
	poll.Go(func() {
		resp, err := g.RoundTrip(req)
		for end := time.Now().Add(patience); errors.Is(err, breaker.ErrRejected) && time.Now().Before(end); <-time.After(time.Millisecond) {
			resp, err = g.RoundTrip(req)
		}
		if err != nil {
			t.Errorf("the poll: %v", err)
			return
		}
		defer resp.Body.Close()
		if resp.Request != req || wrote.Load() != 1 {
			t.Errorf("its answer is that of %p, not of %p, of which is told %d times that it is written", resp.Request, req, wrote.Load())
		}
	})
	until("closed while the poll waits", func(s fleet.Snapshot) bool { return !s.Alone && s.State == breaker.Closed })
	close(answers)
	poll.Wait()
}

// TestAGuardsFleet is shared by the Guards of several processes, and forgotten with its host.
func TestAGuardsFleet(t *testing.T) {
	store := fleet.NewMemory(0)
	guard := func(next http.RoundTripper) *Guard {
		g := &Guard{Next: next, Hosts: 1, Breaker: breaker.Config{Window: 1000, FailureRate: -1}, Fleet: &fleet.Config{Store: store, Key: "shop/", Quorum: 2,
			Report: 5 * time.Millisecond, Poll: 10 * time.Millisecond, OpenFor: forHours, MaxOpen: forHours, Lease: forHours, Wait: patience}}
		t.Cleanup(g.Close)
		return g
	}
	all := []*Guard{guard(answering(503, strings.NewReader("no"))), guard(failingWith(errors.New("EOF")))}
	for end := time.Now().Add(patience); ; {
		turned := 0
		for _, g := range all {
			if r, ok := errors.AsType[*breaker.Rejected](through(t, g, "a.example")); ok && r.Name == "shop/a.example of the fleet" {
				turned++
			}
		}
		if turned == len(all) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it never opened")
		}
	}
	if err := through(t, all[0], "b.example"); eider.KindOf(err) != eider.Limited {
		t.Errorf("a host whose breaker is open is forgotten for another: %v", err)
	}
	if _, err := fleet.Force(t.Context(), store, "shop/a.example", breaker.Closed); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); eider.KindOf(through(t, all[0], "b.example")) == eider.Limited; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a host whose breaker is closed is never forgotten")
		}
	}
	if err := through(t, &Guard{Fleet: &fleet.Config{}}, "a.example"); eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), "Store is nil") {
		t.Errorf("without a store: %v", err)
	}
}
