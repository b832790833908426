package eiderhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/meter"
	"github.com/eiderhq/eider/registry"
)

const forHours = 30 * time.Minute // longer than any test, as long as may be

// member is one of the callers that share a breaker: a process with a handle of its own.
type member struct {
	*world
	counts meter.Meter
	mu     sync.Mutex
	events []fleet.Event
	got    *tally // what instances got, where it matters
}

// together makes so many callers of the service orders, of which set is the breaker. What no row says is quick to be told and long to
// end.
func together(t testing.TB, n int, set fleet.Config, tr func(i int) *Transport, instances ...eider.Instance) []*member {
	if set.Store == nil {
		set.Store = fleet.NewMemory(0)
	}
	set.Quorum, set.Report, set.Poll, set.Local.Window = 2, 5*time.Millisecond, 10*time.Millisecond, 1000
	set.Wait = patience / 4 // a busy machine is no store that is away
	set.OpenFor, set.MaxOpen, set.Lease = forHours, forHours, forHours
	var all []*member
	for i := range n {
		m, set := &member{}, set
		set.OnEvent = func(ev fleet.Event) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.events = append(m.events, ev)
		}
		transport := tr(i)
		transport.Fleet = &set
		m.world = &world{Node: fake.New(t, registry.Config{Meter: &m.counts}), t: t, tr: transport, hc: &http.Client{Transport: transport}}
		transport.Registry, transport.ConnectTimeout = m.Handle, patience
		t.Cleanup(func() { transport.Close() })
		m.Set("orders", instances...)
		all = append(all, m)
	}
	return all
}

func plain(int) *Transport { return &Transport{NoBreakers: true} }

func (m *member) gate() *gate.Gate {
	m.t.Helper()
	svc, err := m.tr.service("orders")
	if err != nil {
		m.t.Fatal(err)
	}
	return svc.gate
}

// begin has the callers join.
func begin(t *testing.T, all []*member) {
	t.Helper()
	for _, m := range all {
		pass, err := m.gate().Ask(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		pass.Settle(breaker.Neutral)
		m.until("joined", func() bool { return !m.gate().Snapshot().Alone })
	}
}

func (m *member) until(what string, ok func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("never %s: %+v", what, m.gate().Snapshot())
		}
	}
}

func (m *member) is(states ...breaker.State) func() bool {
	return func() bool {
		s := m.gate().Snapshot()
		for _, want := range states {
			if !s.Alone && s.State == want {
				return true
			}
		}
		return false
	}
}

// open has the fleet's breaker be open, with a trial due soon.
func open(t *testing.T, store fleet.Store, all []*member) {
	t.Helper()
	s, err := store.Tell(t.Context(), "orders", "test", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := fleet.Read(s)
	if err != nil {
		t.Fatal(err)
	}
	r.Generation, r.State, r.For, r.Rule, r.Count, r.Of = r.Generation+1, breaker.Open, time.Millisecond, breaker.RuleFailureRate, 9, 10
	if _, ok, err := store.Swap(t.Context(), "orders", s.Version, r.Bytes()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, m := range all {
		m.until("open", m.is(breaker.Open))
	}
}

// tries sends requests until one isn't turned away.
func (m *member) tries(req func() *http.Request) (got string, err error) {
	m.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(time.Millisecond) {
		if got, err = m.do(req()); !errors.Is(err, breaker.ErrRejected) {
			return got, err
		}
	}
	m.t.Fatalf("always turned away: %v", err)
	return "", nil
}

func (m *member) value(metric, label string) float64 {
	for _, s := range m.counts.Samples() {
		if s.Metric == metric && s.Label == label && s.Service == "orders" {
			return s.Value
		}
	}
	return -1
}

func get(t *testing.T) func() *http.Request {
	return func() *http.Request {
		req := post(t, nil)
		req.Method = "GET"
		return req
	}
}

// TestB5AFleetOpensTogether: three callers see that the service fails, and from then on no request of theirs reaches it.
func TestB5AFleetOpensTogether(t *testing.T) {
	a := serve(t, "a", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	all := together(t, 3, fleet.Config{}, plain, fake.Up("orders", "a", a.addr()))
	begin(t, all)
	all[0].until("open", func() bool {
		opened := 0
		for _, m := range all {
			if m.is(breaker.Open)() {
				opened++
				continue
			}
			m.do(get(t)())
		}
		return opened == len(all)
	})
	before := len(a.got())
	for _, m := range all {
		_, err := m.do(get(t)())
		r, ok := errors.AsType[*breaker.Rejected](err)
		var e *eider.Error
		if !ok || r.Name != "orders of the fleet" || r.State != breaker.Open || eider.KindOf(err) != eider.Unavailable || !errors.As(err, &e) || e.RetryAfter < time.Minute {
			t.Errorf("got %v", err)
		}
		if err == nil || !strings.Contains(err.Error(), "circuit breaker orders of the fleet is open: ") || !strings.Contains(err.Error(), "; try again in ") {
			t.Errorf("got %v", err)
		}
		if state, parted, rejected := m.value(meter.FleetState, "open"), m.value(meter.FleetParted, ""), m.value(meter.FleetRejected, "fleet"); state != 1 || parted != 0 || rejected < 1 {
			t.Errorf("the meter has state %v, parted %v, rejected %v", state, parted, rejected)
		}
	}
	if n := len(a.got()); n != before {
		t.Errorf("a got %d requests more", n-before)
	}
}

// TestB7OneRequestTriesForAll: whoever comes while it is out is turned away, and when it goes well all are let in again.
func TestB7OneRequestTriesForAll(t *testing.T) {
	answers := make(chan struct{})
	a := serve(t, "a", func(http.ResponseWriter, *http.Request) {
		select {
		case <-answers:
		case <-time.After(patience):
		}
	})
	store := fleet.NewMemory(0)
	all := together(t, 3, fleet.Config{Store: store, Ramp: time.Millisecond}, plain, fake.Up("orders", "a", a.addr()))
	begin(t, all)
	open(t, store, all)
	var callers sync.WaitGroup
	var turned [3]atomic.Int64
	for i, m := range all {
		for range 4 {
			callers.Go(func() {
				for {
					_, err := m.do(get(t)())
					if err == nil {
						return
					}
					if !errors.Is(err, breaker.ErrRejected) {
						t.Errorf("got %v", err)
						return
					}
					turned[i].Add(1)
					<-time.After(time.Millisecond)
				}
			})
		}
	}
	all[0].until("tried", func() bool { return len(a.got()) > 0 })
	for i, m := range all {
		before := turned[i].Load()
		m.until("turned away", func() bool { return turned[i].Load() > before+20 })
	}
	if n := len(a.got()); n != 1 {
		t.Errorf("a got %d requests at once, and is to be tried with one", n)
	}
	close(answers)
	callers.Wait()
	for _, m := range all {
		m.until("closed", m.is(breaker.Closed))
	}
}

// TestOneSickCallerStaysAlone: where it is the caller that can't reach anybody, nobody else is kept from calling.
func TestOneSickCallerStaysAlone(t *testing.T) {
	a := serve(t, "a", nil)
	all := together(t, 3, fleet.Config{}, func(i int) *Transport {
		tr := plain(i)
		if i == 0 {
			tr.Base = &http.Transport{DialContext: (&brokenDialer{}).DialContext}
			dialing(func(context.Context) error { return errors.New("no route") })(tr)
		}
		return tr
	}, fake.Up("orders", "a", "127.0.0.9:1"))
	for _, m := range all[1:] {
		m.Set("orders", fake.Up("orders", "a", a.addr()))
	}
	begin(t, all)
	sick := all[0]
	sick.until("turned away by its own breaker", func() bool {
		_, err := sick.do(get(t)())
		r, ok := errors.AsType[*breaker.Rejected](err)
		return ok && r.Name == "orders of this caller"
	})
	told := sick.gate().Snapshot()
	for _, m := range all[1:] {
		for range 50 {
			m.want("200 a", "GET", "http://orders/", "")
		}
	}
	sick.until("told", func() bool { return told.State == breaker.Closed })
	for i, m := range all {
		if !m.is(breaker.Closed)() {
			t.Errorf("caller %d: the fleet's breaker is %v", i, m.gate().Snapshot().State)
		}
	}
	if n := sick.value(meter.FleetRejected, "own"); n < 1 {
		t.Errorf("the meter has %v that its own turned away", n)
	}
}

// TestK7AServiceThatHangsOpens while nobody has given up yet.
func TestK7AServiceThatHangsOpens(t *testing.T) {
	set := fleet.Config{}
	set.Local.SlowLimit = 300 * time.Millisecond
	end := make(chan struct{})
	a := serve(t, "a", func(http.ResponseWriter, *http.Request) {
		select {
		case <-end:
		case <-time.After(patience):
		}
	})
	all := together(t, 2, set, plain, fake.Up("orders", "a", a.addr()))
	begin(t, all)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(end)
	for _, m := range all {
		for range 15 {
			calls.Go(func() { m.do(get(t)()) })
		}
	}
	for _, m := range all {
		m.until("open", m.is(breaker.Open))
		if s := m.gate().Snapshot(); s.Rule != breaker.RuleSlowRate {
			t.Errorf("it is open by %v", s.Rule)
		}
		if _, err := m.do(get(t)()); !errors.Is(err, breaker.ErrRejected) {
			t.Errorf("one more: %v", err)
		}
	}
}

// TestB6AStoreThatIsAwayRejectsNobody: what callers have of their own goes on, and they join again.
func TestB6AStoreThatIsAwayRejectsNobody(t *testing.T) {
	a := serve(t, "a", nil)
	store := &flaky{Memory: fleet.NewMemory(0)}
	all := together(t, 2, fleet.Config{Store: store, Retry: 10 * time.Millisecond}, plain, fake.Up("orders", "a", a.addr()))
	begin(t, all)
	open(t, store, all)
	store.away.Store(true)
	for _, m := range all {
		m.until("parted", func() bool { return m.gate().Snapshot().Alone })
		for range 20 {
			m.want("200 a", "GET", "http://orders/", "")
		}
		if parted, times := m.value(meter.FleetParted, ""), m.value(meter.FleetPartings, ""); parted != 1 || times != 1 {
			t.Errorf("the meter has parted %v, partings %v", parted, times)
		}
	}
	store.away.Store(false)
	for _, m := range all {
		m.until("joined", func() bool { return !m.gate().Snapshot().Alone })
		m.until("told thrice", func() bool { return strings.Count(m.said(), ",") >= 2 }) // events come beside what they tell of
		if got := m.said(); got != "true false, false true, true false" {
			t.Errorf("events: %s", got)
		}
	}
}

// said is what the events have told of joining and parting.
func (m *member) said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var said []string
	for _, ev := range m.events {
		if ev.Joined || ev.Parted != nil {
			said = append(said, fmt.Sprintf("%v %v", ev.Joined, ev.Parted != nil))
		}
	}
	return strings.Join(said, ", ")
}

// flaky is a store that may be away.
type flaky struct {
	*fleet.Memory
	away atomic.Bool
}

func (f *flaky) Tell(ctx context.Context, key, caller string, count []byte, all bool) (fleet.Sight, error) {
	if f.away.Load() {
		return fleet.Sight{}, errors.New("away")
	}
	return f.Memory.Tell(ctx, key, caller, count, all)
}

func (f *flaky) Swap(ctx context.Context, key string, version uint64, record []byte) (fleet.Sight, bool, error) {
	if f.away.Load() {
		return fleet.Sight{}, false, errors.New("away")
	}
	return f.Memory.Swap(ctx, key, version, record)
}
