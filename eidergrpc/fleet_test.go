package eidergrpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/meter"
)

const forHours = 30 * time.Minute // longer than any test, as long as may be

// member is one of the callers that share a breaker: a process with a handle of its own, and a channel.
type member struct {
	*world
	cl *client
	cc *grpc.ClientConn
}

// together makes so many callers of the service orders, of which set is the breaker. What no test says is quick to be told and long
// to end.
func together(t *testing.T, n int, set fleet.Config, cfg Config, opts []grpc.DialOption, instances ...eider.Instance) []*member {
	t.Helper()
	if set.Store == nil {
		set.Store = fleet.NewMemory(0)
	}
	set.Quorum, set.Report, set.Poll, set.Local.Window = 2, 5*time.Millisecond, 10*time.Millisecond, 1000
	set.Wait = patience / 4 // a busy machine is no store that is away
	set.OpenFor, set.MaxOpen, set.Lease, set.Ramp = forHours, forHours, forHours, -1
	cfg.Fleet, cfg.ConnectTimeout = &set, patience
	var all []*member
	for range n {
		m := &member{world: newWorld(t)}
		m.Set("orders", instances...)
		m.cl = cfg.client(m.Handle)
		var err error
		if m.cc, err = m.cl.dial("eider:///orders", append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.cc.Close() })
		m.cc.Connect()
		m.until("followed", func() bool { return m.cl.follows.Load() != nil })
		m.until("joined", func() bool {
			pass, err := m.cl.follows.Load().gate.Ask(t.Context(), false)
			if err == nil {
				pass.Settle(breaker.Neutral)
			}
			return !m.knows().Alone
		})
		all = append(all, m)
	}
	return all
}

func (m *member) knows() fleet.Snapshot { return m.cl.follows.Load().gate.Snapshot() }

// said is what the meter has, by metric and label.
func (m *member) said() map[string]float64 {
	said := map[string]float64{}
	for _, s := range m.counts.Samples() {
		said[s.Metric+" "+s.Label] = s.Value
	}
	return said
}

func (m *member) until(what string, ok func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("never %s", what)
		}
	}
}

func (m *member) is(want breaker.State) func() bool {
	return func() bool { s := m.knows(); return !s.Alone && s.State == want }
}

// trying is a caller whose fleet's breaker is open, and due for its trial.
func trying(t *testing.T, set fleet.Config, cfg Config, opts []grpc.DialOption, instances ...eider.Instance) *member {
	t.Helper()
	if set.Store == nil {
		set.Store = fleet.NewMemory(0)
	}
	cfg.NoBreakers = true
	m := together(t, 1, set, cfg, opts, instances...)[0]
	s, err := set.Store.Tell(t.Context(), "orders", "test", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := fleet.Read(s)
	if err != nil {
		t.Fatal(err)
	}
	r.Generation, r.State, r.For, r.Rule, r.Count, r.Of = r.Generation+1, breaker.Open, time.Millisecond, breaker.RuleFailureRate, 9, 10
	if _, ok, err := set.Store.Swap(t.Context(), "orders", s.Version, r.Bytes()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	m.until("open", m.is(breaker.Open))
	return m
}

// tries calls until it isn't turned away.
func (m *member) tries(call func() error) (err error) {
	m.t.Helper()
	m.until("let through", func() bool {
		err = call()
		return !errors.Is(err, breaker.ErrRejected)
	})
	return err
}

func (m *member) say() error {
	_, err := say(m.t, m.cc)
	return err
}

// TestB5CallsOfAFleetAreTurnedAwayTogether: callers see that the service fails, and no call of theirs reaches it from then on.
func TestB5CallsOfAFleetAreTurnedAwayTogether(t *testing.T) {
	a := &parrot{name: "a", do: func(context.Context) error { return status.Error(codes.Unavailable, "no") }}
	addr, _ := serve(t, a)
	all := together(t, 3, fleet.Config{}, Config{NoBreakers: true}, nil, fake.Up("orders", "a", addr))
	all[0].until("open", func() bool {
		opened := 0
		for _, m := range all {
			if m.is(breaker.Open)() {
				opened++
				continue
			}
			m.say()
		}
		return opened == len(all)
	})
	before := a.times()
	for _, m := range all {
		said := m.said()
		rejected := said[meter.FleetRejected+" fleet"] // it may have opened between a look and a call
		for name, err := range map[string]error{"unary": m.say(), "stream": talkBy(t.Context(), m.cc), "one that waits": func() error { _, err := say(t, m.cc, grpc.WaitForReady(true)); return err }()} {
			r, ok := errors.AsType[*breaker.Rejected](err)
			var e *eider.Error
			if !ok || r.Name != "orders of the fleet" || status.Code(err) != codes.Unavailable || !errors.As(err, &e) || e.RetryAfter < time.Minute {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil || !strings.Contains(err.Error(), "circuit breaker orders of the fleet is open: ") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if said = m.said(); said[meter.FleetState+" open"] != 1 || said[meter.FleetRejected+" fleet"] != rejected+3 {
			t.Errorf("the meter has %v", said)
		}
	}
	if n := a.times(); n != before {
		t.Errorf("a got %d calls more", n-before)
	}
}

// TestATrialLandsOnce: what may have been worked for isn't made again, though the call could be, and what surely wasn't is: that is no
// second probe.
func TestATrialLandsOnce(t *testing.T) {
	var landed atomic.Int64
	cut := func(ctx context.Context) error { landed.Add(1); return nil }
	for name, row := range map[string]struct {
		dead  bool
		state breaker.State
	}{"cut": {false, breaker.Open}, "refused": {true, breaker.Closed}} {
		t.Run(name, func(t *testing.T) {
			landed.Store(0)
			address := fake.DeadPort(t)
			if !row.dead {
				address = newFrames(t, func(f *frames) { landed.Add(1); f.conn.Close() })
			}
			addr, _ := serve(t, &parrot{name: "b", do: cut})
			m := trying(t, fleet.Config{}, Config{Idempotent: []string{sayMethod}}, nil, fake.Up("orders", "a", address), fake.Spare("orders", "b", addr))
			err := m.tries(m.say)
			if n := landed.Load(); n != 1 {
				t.Errorf("%d calls have landed: %v", n, err)
			}
			m.until(row.state.String(), m.is(row.state))
			if (err == nil) != row.dead || !row.dead && !strings.Contains(err.Error(), "the one trial") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestOneCallTriesForAll: whoever comes while it is out is turned away.
func TestOneCallTriesForAll(t *testing.T) {
	answers := make(chan struct{})
	a := &parrot{name: "a", do: func(ctx context.Context) error { <-answers; return nil }}
	addr, _ := serve(t, a)
	m := trying(t, fleet.Config{Local: breaker.Config{SlowLimit: forHours}}, Config{}, nil, fake.Up("orders", "a", addr)) // however long all others take to come
	var calls sync.WaitGroup
	var turned atomic.Int64
	for range 5 {
		calls.Go(func() {
			for ; errors.Is(m.say(), breaker.ErrRejected); <-time.After(time.Millisecond) { // else the one has no core left
				turned.Add(1)
			}
		})
	}
	m.until("tried", func() bool { return a.times() > 0 })
	before := turned.Load()
	m.until("turned away", func() bool { return turned.Load() > before+50 })
	if n := a.times(); n != 1 {
		t.Errorf("a got %d calls at once", n)
	}
	close(answers)
	calls.Wait()
	m.until("closed", m.is(breaker.Closed))
}

// TestAStreamMayBeTheTrial: with its first answer it has gone well, and if it is meant to be silent, when it has been for as long
// as Slow.
func TestAStreamMayBeTheTrial(t *testing.T) {
	for name, slow := range map[string]time.Duration{"answered": time.Hour, "silent": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			silent := slow == time.Millisecond
			addr, _ := serve(t, &parrot{name: "a", do: func(ctx context.Context) error {
				if silent {
					<-ctx.Done()
				}
				return nil
			}})
			m := trying(t, fleet.Config{}, Config{Slow: slow}, nil, fake.Up("orders", "a", addr))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var s grpc.ClientStream
			if err := m.tries(func() (err error) {
				s, err = m.cc.NewStream(ctx, &echoDesc.Streams[0], talkMethod)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := s.SendMsg(wrapperspb.String("x")); err != nil {
				t.Fatal(err)
			}
			if !silent {
				if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
					t.Fatal(err)
				}
			}
			m.until("closed", m.is(breaker.Closed))
		})
	}
}

// TestATrialThatComesTooLateIsNotMade: by the time that the connection is there its own is up, and another may try.
func TestATrialThatComesTooLateIsNotMade(t *testing.T) {
	a := &parrot{name: "a"}
	addr, _ := serve(t, a)
	late := make(chan struct{})
	up := sync.OnceFunc(func() { close(late) })
	dials := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		select { // whoever had it dialled: the channel, on its way out of idle, or the trial
		case <-late:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	m := trying(t, fleet.Config{Local: breaker.Config{TrialTimeout: 20 * time.Millisecond}, OnEvent: func(ev fleet.Event) {
		if ev.From == breaker.HalfOpen {
			up()
		}
	}}, Config{}, []grpc.DialOption{dials}, fake.Up("orders", "a", addr))
	var err error
	m.until("tried", func() bool {
		err = m.say()
		return m.knows().Trials > 0
	})
	if !errors.Is(err, breaker.ErrRejected) || status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	if n := a.times(); n != 0 {
		t.Errorf("a got %d calls", n)
	}
}

// TestAWrongFleetIsTheCallersFault, at once.
func TestAWrongFleetIsTheCallersFault(t *testing.T) {
	w := newWorld(t)
	_, err := Config{Fleet: &fleet.Config{Store: fleet.NewMemory(0), Quorum: -1}}.NewClient("orders", w.Handle, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), "Quorum is -1") {
		t.Errorf("got %v", err)
	}
}

// TestTheRegistryIsTheStore that nobody has to name; one that is older than that keeps nobody from calling.
func TestTheRegistryIsTheStore(t *testing.T) {
	w := newWorld(t)
	addr, _ := serve(t, &parrot{name: "a"})
	w.Set("orders", fake.Up("orders", "a", addr))
	wantSay(t, w.client(Config{Fleet: &fleet.Config{}}, "orders"), "a")
}
