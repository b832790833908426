package drain

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

func TestDefaultsFitKubernetes(t *testing.T) {
	t.Setenv("EIDER_GRACE", "")
	s, err := Config{}.resolve(&http.Server{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Grace != 30*time.Second || s.InFlight != 20*time.Second || s.Streams != 5*time.Second || s.room.Worst() != 8*time.Second {
		t.Errorf("grace %s, in flight %s, streams %s, room %s", s.Grace, s.InFlight, s.Streams, s.room)
	}
}

func TestGraceOfTheEnvironmentIsDivided(t *testing.T) {
	t.Setenv("EIDER_GRACE", "16s")
	s, err := Config{}.resolve(&http.Server{})
	if err != nil || s.InFlight != 10*time.Second || s.room.Worst() != 4*time.Second {
		t.Errorf("of 16s: %v, room %s", err, s.room)
	}
	if s, err = (Config{Grace: time.Minute}).resolve(&http.Server{}); err != nil || s.Grace != time.Minute || s.room.Worst() != 38*time.Second {
		t.Errorf("Config.Grace goes first: %v, room %s", err, s.room)
	}
	if s, err = (Config{InFlight: time.Second, Streams: -1, Silent: -1, Round: time.Minute}).resolve(&http.Server{}); err != nil ||
		s.Streams != 0 || s.Silent != 0 || s.Round != time.Minute || s.room.Worst() != 13*time.Second {
		t.Errorf("settings of its own: %v, %+v", err, s)
	}
}

func TestEveryFaultAtOnce(t *testing.T) {
	t.Setenv("EIDER_GRACE", "soon")
	ln := closable{closed: make(chan struct{})}
	_, err := Serve(t.Context(), &http.Server{TLSConfig: &tls.Config{}}, Config{Registry: new(registry.Registry), InFlight: 40 * time.Second, Listener: ln})
	if eider.KindOf(err) != eider.Invalid {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"service: it is empty", `EIDER_GRACE: "soon"`, "srv.TLSConfig: it has no certificate",
		"InFlight: 40s and the margin of 2s exceed the grace of 30s (default) by 12s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it doesn't say %q:\n%v", want, err)
		}
	}
	select {
	case <-ln.closed:
	default:
		t.Error("the listener is left open")
	}
	for _, bad := range []Config{{Grace: 2 * time.Second}, {InFlight: -1}, {Service: "Or ders"}} {
		t.Setenv("EIDER_GRACE", "")
		if _, err := bad.resolve(&http.Server{}); eider.KindOf(err) != eider.Invalid {
			t.Errorf("%+v passes", bad)
		}
	}
	if _, err := (Config{}).resolve(nil); eider.KindOf(err) != eider.Invalid {
		t.Error("no server passes")
	}
}

type closable struct {
	net.Listener
	closed chan struct{}
}

func (c closable) Close() error { close(c.closed); return nil }

func TestAdvertised(t *testing.T) {
	ln := &net.TCPAddr{IP: net.IPv6zero, Port: 8080}
	for set, want := range map[string]string{
		"": "[::]:8080", "10.0.0.7": "10.0.0.7:8080", "10.0.0.7:": "10.0.0.7:8080", "orders.example:0": "orders.example:8080",
		"10.0.0.7:99": "10.0.0.7:99", ":99": ":99", "[fd00::7]": "[fd00::7]:8080", "[fd00::7]:99": "[fd00::7]:99",
	} {
		if got := advertised(set, ln); got != want {
			t.Errorf("%q is advertised as %q, want %q", set, got, want)
		}
	}
	if got := advertised("10.0.0.7:99", &net.UnixAddr{Name: "/run/x"}); got != "10.0.0.7:99" {
		t.Errorf("beside a Unix socket: %q", got)
	}
}

func quietly(cfg Config) Config {
	cfg.Logger = slog.New(slog.DiscardHandler)
	return cfg
}

// A port that is taken is an error, and nothing was registered.
func TestD14ListenErrorComesBeforeTheRegistry(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	reg := newScript()
	_, err = serve(t.Context(), &http.Server{Addr: taken.Addr().String()}, quietly(Config{Service: "orders"}), reg)
	if eider.KindOf(err) != eider.Conflict || !strings.Contains(err.Error(), "drain orders: listen") || len(reg.registered) != 0 {
		t.Errorf("%v, registered %v", err, reg.registered)
	}
}

// Only of a port that is taken is it asked who has it.
func TestListenErrorsSayWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for addr, want := range map[string]string{
		taken.Addr().String(): "address already in use; is another process serving there? Set the server's Addr, or Config.Listener",
		"nonsense":            "listen tcp: address nonsense: missing port in address; the server's Addr must be host:port or :port, as in 127.0.0.1:8080",
		"127.0.0.1:nonsense":  "; the server's Addr must be host:port or :port, as in 127.0.0.1:8080",
		"192.0.2.7:8080":      "cannot assign requested address; this machine hasn't got that address: set the server's Addr to one that it has, or to :PORT for all of them",
	} {
		_, err := serve(t.Context(), &http.Server{Addr: addr}, quietly(Config{Service: "orders"}), newScript())
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "another process") != (addr == taken.Addr().String()) {
			t.Errorf("%s: %v\nwant %s", addr, err, want)
		}
	}
}

// A stop that comes before the registration forbids it.
func TestD14StopDuringStartNeverRegisters(t *testing.T) {
	over, stop := context.WithCancel(t.Context())
	stop()
	reg := newScript()
	rep, err := serve(over, &http.Server{Addr: "nowhere at all"}, quietly(Config{Service: "orders"}), reg)
	if err != nil || rep.EndedBy != ByNoCallers || rep.Exit != ExitClean || len(reg.registered) != 0 {
		t.Errorf("stopped before: %+v, %v, registered %v", rep, err, reg.registered)
	}
	// it listens already, and would register now
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reg = newScript()
	d := &drainer{reg: reg, listing: nil}
	stop()
	if err := d.register(ctx); err != nil || len(reg.registered) != 0 {
		t.Errorf("stopped meanwhile: %v, registered %v", err, reg.registered)
	}
}

// An instance that leaves while STARTING is never UP, and nobody is waited for.
func TestD14StopBeforeReadyIsNeverUp(t *testing.T) {
	ready := make(chan struct{})
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Ready = ready })
	r.leave()
	close(ready) // too late
	rep := r.end()
	if rep.EndedBy != ByNoCallers || rep.Pause > time.Second || len(r.reg.statuses) != 0 || r.reg.registered[0].Status != eider.Starting || r.reg.left != 1 {
		t.Errorf("%+v, statuses %v", rep, r.reg.statuses)
	}
}

func TestReadyMakesItUp(t *testing.T) {
	ready := make(chan struct{})
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Ready = ready })
	close(ready)
	for {
		r.reg.mu.Lock()
		told := len(r.reg.statuses)
		r.reg.mu.Unlock()
		if told > 0 {
			break
		}
		p := r.dial() // something to do meanwhile
		p.send("/free")
		p.answer()
		p.Close()
	}
	r.leave()
	r.barrier()
	if rep := r.end(); rep.EndedBy != ByBarrier || len(r.reg.statuses) != 1 || r.reg.statuses[0] != eider.Up {
		t.Errorf("%+v, statuses %v", rep, r.reg.statuses)
	}
}

// A process says of itself whether it can serve; while it is STARTING nobody is told.
func TestHealthIsTold(t *testing.T) {
	ready, health := make(chan struct{}), make(chan error)
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Ready, c.Health = ready, health })
	health <- errors.New("the disk is full")
	health <- nil
	health <- errors.New("the disk is full again")
	told := func(want string) {
		t.Helper()
		for begun := time.Now(); ; <-time.After(time.Millisecond) {
			r.reg.mu.Lock()
			got := fmt.Sprint(r.reg.statuses)
			r.reg.mu.Unlock()
			if got == want {
				return
			}
			if time.Since(begun) > patience {
				t.Fatalf("the registry was told %s, want %s", got, want)
			}
		}
	}
	told("[]")
	close(ready)
	told("[DOWN]")
	health <- nil
	told("[DOWN UP]")
	health <- errors.New("the database is away")
	told("[DOWN UP DOWN]")
	r.leave()
	r.barrier()
	if rep := r.end(); rep.EndedBy != ByBarrier {
		t.Errorf("%+v", rep)
	}
}

// After the leave no status is written any more: one in flight could re-create the entry.
func TestD16NoStatusAfterTheLeave(t *testing.T) {
	ready := make(chan struct{})
	close(ready)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	reg := newScript()
	d := &drainer{reg: reg, listing: reg, set: settings{Config: Config{Ready: ready}}, log: slog.New(slog.DiscardHandler), served: make(chan error)}
	for range 100 { // both are ready: select must not matter
		if err := d.stay(ctx); err != nil || len(reg.statuses) != 0 || d.up {
			t.Fatalf("%v, statuses %v", err, reg.statuses)
		}
	}
}

// A registration that breaks a bound ends Serve, and frees the port.
func TestRegistrationIsRefused(t *testing.T) {
	reg := newScript()
	reg.refuse = eider.Errorf(eider.Invalid, "register orders/1", "zone: bad")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = serve(t.Context(), &http.Server{}, quietly(Config{Service: "orders", Listener: ln}), reg)
	if !errors.Is(err, reg.refuse) {
		t.Errorf("%v", err)
	}
	if nc, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		nc.Close()
		t.Error("it still listens")
	}
}

// The grace budget is checked while there is still time to do something about it.
func TestBoundBeyondTheGraceIsWarnedAboutAtStart(t *testing.T) {
	lines := make(chan string, 10)
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Logger = slog.New(slog.NewTextHandler(chanWriter(lines), nil)) })
	r.reg.becomes(func() { r.reg.state.Bound = 65 * time.Second })
	line := soon(t, lines, "the warning")
	for _, want := range []string{"level=WARN", "bound=1m5s", "8s = grace 30s (default)"} {
		if !strings.Contains(line, want) {
			t.Errorf("it doesn't say %q: %s", want, line)
		}
	}
	r.leave()
	r.barrier()
	r.end()
}

// Whoever wants to know hears when the registry no longer lists the instance.
func TestR9ListedIsTold(t *testing.T) {
	heard := make(chan registry.State, 10)
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Listed = func(s registry.State) { heard <- s } })
	for _, listed := range []bool{true, false, true} {
		r.reg.becomes(func() { r.reg.state.Listed = listed })
		for soon(t, heard, "news").Listed != listed {
		}
	}
	r.leave()
	r.barrier()
	r.end()
}

type chanWriter chan string

func (c chanWriter) Write(b []byte) (int, error) {
	select {
	case c <- string(b):
	default:
	}
	return len(b), nil
}
