package eiderhttp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/registry"
)

// trying is a caller whose fleet's breaker is open, and due for its trial.
func trying(t *testing.T, set fleet.Config, tr *Transport, a, b func(*testing.T, *tally) string) *member {
	got, store := &tally{}, set.Store
	if store == nil {
		store = fleet.NewMemory(0)
		set.Store = store
	}
	tr.NoBreakers = true
	m := together(t, 1, set, func(int) *Transport { return tr }, fake.Up("orders", "a", a(t, got)), fake.Spare("orders", "b", b(t, got)))[0]
	m.got = got
	begin(t, []*member{m})
	open(t, store, []*member{m})
	return m
}

var ok = says("200 OK\r\nContent-Length: 1\r\n\r\na")

// TestATrialLandsOnce: what may have been worked for isn't sent again, though the request could be, and what surely wasn't is: that
// is no second probe.
func TestATrialLandsOnce(t *testing.T) {
	for _, row := range []struct {
		name  string
		a     func(*testing.T, *tally) string
		lands int
		state breaker.State
	}{
		{"cut", http1(0, cut), 1, breaker.Open},
		{"refused", dead, 1, breaker.Closed},
		{"503", says("503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), 1, breaker.Open},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := trying(t, fleet.Config{Ramp: -1}, &Transport{}, row.a, ok)
			got, err := m.tries(get(t))
			m.until(row.state.String(), m.is(row.state))
			if row.name == "cut" && (err == nil || !strings.Contains(err.Error(), "the one trial")) {
				t.Errorf("got %q, %v", got, err)
			}
			if n := m.got.sum(); n != row.lands {
				t.Errorf("%d requests have landed", n)
			}
		})
	}
}

// TestAFleetsTrialIsNotHedged, however long it takes.
func TestAFleetsTrialIsNotHedged(t *testing.T) {
	late := http1(0, func(c net.Conn) bool { <-time.After(5 * soon); io.WriteString(c, answerOK); return true })
	m := trying(t, fleet.Config{Ramp: -1}, &Transport{Hedge: soon}, late, late)
	m.Set("orders", fake.Up("orders", "c", late(t, m.got)), fake.Up("orders", "d", late(t, m.got)))
	if got, err := m.tries(get(t)); got != "200 a" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if n := m.got.sum(); n != 1 {
		t.Errorf("%d requests have landed", n)
	}
	m.until("closed", m.is(breaker.Closed))
}

// TestATrialThatComesTooLateIsNotMade: by the time that it is to be sent, or sent again, its own is up, and another may try.
func TestATrialThatComesTooLateIsNotMade(t *testing.T) {
	soon := fleet.Config{Local: breaker.Config{TrialTimeout: 20 * time.Millisecond}}
	for name, dials := range map[string]bool{"the first try": false, "another one": true} {
		t.Run(name, func(t *testing.T) {
			var m *member
			up := func() { m.until("open again", m.is(breaker.Open)) }
			tr, a := &Transport{}, ok
			if dials {
				a = nowhere
				dialing(func(context.Context) error { up(); return syscall.ECONNREFUSED })(tr)
			}
			m = trying(t, soon, tr, a, ok)
			_, err := m.tried(func() *http.Request { return get(t)().WithContext(&slowly{Context: t.Context(), wait: up, at: 2}) })
			if !errors.Is(err, breaker.ErrRejected) {
				t.Errorf("got %v", err)
			}
			if n := m.got.sum(); n != 0 {
				t.Errorf("%d requests have landed", n)
			}
		})
	}
}

// tried sends requests until one has been the trial, and returns what it got.
func (m *member) tried(req func() *http.Request) (got string, err error) {
	m.t.Helper()
	m.until("tried", func() bool {
		got, err = m.do(req())
		return m.gate().Snapshot().Trials > 0
	})
	return got, err
}

// slowly is a context that has who looks at it for the nth time wait.
type slowly struct {
	context.Context
	wait  func()
	at    int64
	looks atomic.Int64
}

func (s *slowly) Err() error {
	if s.looks.Add(1) == s.at {
		s.wait()
	}
	return s.Context.Err()
}

// TestATrialThatSaysNothingIsOfferedAgain: its caller hangs up.
func TestATrialThatSaysNothingIsOfferedAgain(t *testing.T) {
	hangs := atomic.Bool{}
	hangs.Store(true)
	a := http1(0, func(c net.Conn) bool {
		if hangs.Load() {
			return forever(c)
		}
		io.WriteString(c, answerOK)
		return true
	})
	m := trying(t, fleet.Config{Ramp: -1}, &Transport{}, a, a)
	m.until("tried", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-time.After(50 * time.Millisecond)
			cancel()
		}()
		m.tr.RoundTrip(get(t)().WithContext(ctx))
		<-ctx.Done()
		return m.got.sum() > 0
	})
	hangs.Store(false)
	if got, err := m.tries(get(t)); got != "200 a" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	m.until("closed", m.is(breaker.Closed))
}

// TestALongPollMayBeTheTrial: it is silent, as it is meant to be, and the service is there.
func TestALongPollMayBeTheTrial(t *testing.T) {
	m := trying(t, fleet.Config{Ramp: -1}, &Transport{Slow: time.Millisecond}, http1(0, forever), ok)
	ctx := &ending{Context: context.Background(), done: make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		m.tries(func() *http.Request {
			req := get(t)().WithContext(ctx)
			req.Header.Set("Prefer", "wait=60")
			return req
		})
	}()
	m.until("closed", m.is(breaker.Closed))
	select {
	case <-over:
		t.Error("it has ended")
	default:
	}
	ctx.end(context.Canceled)
	<-over
}

// TestAnOperatorsWordCounts for every caller, and until he takes it back.
func TestAnOperatorsWordCounts(t *testing.T) {
	store := fleet.NewMemory(0)
	m := trying(t, fleet.Config{Store: store}, &Transport{}, ok, ok)
	for state, want := range map[breaker.State]string{breaker.ForcedOpen: "circuit breaker orders of the fleet is forced open: by hand", breaker.ForcedClosed: "", breaker.Closed: ""} {
		if _, err := fleet.Force(t.Context(), store, "orders", state); err != nil {
			t.Fatal(err)
		}
		m.until(state.String(), m.is(state))
		switch got, err := m.do(get(t)()); {
		case want == "" && (got != "200 a" || err != nil), want != "" && (!errors.Is(err, breaker.ErrRejected) || !strings.Contains(err.Error(), want)):
			t.Errorf("%v: %q, %v", state, got, err)
		}
	}
}

// TestAWrongFleetIsTheCallersFault, and each request says so.
func TestAWrongFleetIsTheCallersFault(t *testing.T) {
	w := newWorld(t, &Transport{Fleet: &fleet.Config{Store: fleet.NewMemory(0), Quorum: -1}})
	if _, err := w.do(get(t)()); err == nil || !strings.Contains(err.Error(), "Quorum is -1") {
		t.Errorf("got %v", err)
	}
}

// TestTheRegistryIsTheStore that nobody has to name; one that is older than that keeps nobody from calling.
func TestTheRegistryIsTheStore(t *testing.T) {
	w := newWorld(t, &Transport{Fleet: &fleet.Config{}})
	w.Set("orders", fake.Up("orders", "a", serve(t, "a", nil).addr()))
	w.want("200 a", "GET", "http://orders/", "")
}

// TestAFleetCostsNoAllocation while its breaker is closed.
func TestAFleetCostsNoAllocation(t *testing.T) {
	a := serve(t, "a", nil)
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	without := newWorld(t, &Transport{})
	without.Set("orders", fake.Up("orders", "a", a.addr()))
	with := &member{world: newWorld(t, &Transport{Fleet: &fleet.Config{Store: fleet.NewMemory(0), Report: 9 * time.Second, Poll: time.Minute}})} // not in the middle
	with.Set("orders", fake.Up("orders", "a", a.addr()))
	begin(t, []*member{with})
	base := allocations(func() { roundTrip(t, without.tr, "GET", "http://orders/", nil) })
	ours := allocations(func() { roundTrip(t, with.tr, "GET", "http://orders/", nil) })
	if ours > base {
		t.Errorf("%.0f allocations, %.0f without a fleet", ours, base)
	}
}

// TestTheWaitForTheRegistryIsNoWaitForTheService: it is asked for once there is a list.
func TestTheWaitForTheRegistryIsNoWaitForTheService(t *testing.T) {
	reg := registry.Open(registry.Config{Addr: fake.DeadPort(t), Logger: slog.New(slog.DiscardHandler)})
	defer reg.Close()
	set := &fleet.Config{Store: fleet.NewMemory(0), Local: breaker.Config{SlowLimit: time.Millisecond, Window: 1000}}
	m := &member{world: &world{t: t, tr: &Transport{Registry: reg, ViewTimeout: 50 * time.Millisecond, Fleet: set}}}
	defer m.tr.Close()
	if _, err := m.tr.RoundTrip(get(t)()); err == nil || !strings.Contains(err.Error(), "no view of orders came within 50ms") {
		t.Errorf("got %v", err)
	}
	if s := m.gate().Own().Snapshot(); s.Total != 0 || s.Slow != 0 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

// TestALongPollIsNotInFlight for the breaker of its service, however long it hangs.
func TestALongPollIsNotInFlight(t *testing.T) {
	got := &tally{}
	m := together(t, 1, fleet.Config{}, func(int) *Transport { return &Transport{Waits: func(*http.Request) bool { return true }} }, fake.Up("orders", "a", http1(0, forever)(t, got)))[0]
	m.got = got
	end := hang(t, m)
	if s := m.gate().Own().Snapshot(); s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
	end(context.Canceled)
}
