package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/front/console"
	"github.com/eiderhq/eider/server/internal/front/console/stage"
	"github.com/eiderhq/eider/server/internal/memnet"
)

var update = flag.Bool("update", false, "write the golden files and docs/cli.md anew")

// TestMain lets this program be eider itself, for what only a process of its own can show.
func TestMain(m *testing.M) {
	if os.Getenv("EIDER_TEST_MAIN") != "" {
		os.Exit(Main("v0"))
	}
	goleak.VerifyTestMain(m)
}

// run is the node run of every scene.
const run = 0xabc

// world is a network in a bubble, with or without a registry in it.
type world struct {
	t     *testing.T
	net   *memnet.Net
	reg   *stage.Registry
	env   map[string]string
	tty   bool
	width int // of the terminal
}

// bubble plays in a world without a registry: it is 2000-01-01.
func bubble(t *testing.T, play func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		play(&world{t: t, net: memnet.New(), reg: stage.New(eider.Node{Name: "node-1", Run: run, Ready: true, Complete: true}), env: map[string]string{}})
	})
}

// serve starts the registry's HTTP port; the function returned stops it.
func (w *world) serve() (stop func()) {
	return w.serveWith(console.New(w.reg, console.Config{Version: "v0", Logger: slog.New(slog.DiscardHandler)}))
}

func (w *world) serveWith(h http.Handler) (stop func()) {
	l, err := w.net.Listen("127.0.0.1:8761")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return ctx }}
	over := make(chan struct{})
	go func() { defer close(over); _ = srv.Serve(l) }()
	return func() {
		cancel()
		synctest.Wait()
		srv.Close()
		<-over
		synctest.Wait()
	}
}

// printed is what a command has written so far.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// rewind returns what was written since the last rewind.
func (p *printed) rewind() string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.text.Reset()
	return p.text.String()
}

func (w *world) process(args []string, out, errs *printed) Process {
	return Process{Args: args, Getenv: func(k string) string { return w.env[k] }, Out: out, Err: errs, Zone: time.UTC, Version: "v0",
		Terminal: w.tty, Width: func() int { return w.width }, Dial: w.net.From("127.0.0.2").Dial}
}

// eider runs one command to its end.
func (w *world) eider(args ...string) (code int, out, errs string) {
	var o, e printed
	code = w.process(args, &o, &e).Run(w.t.Context())
	return code, o.text.String(), e.text.String()
}

// begin runs a command until stop, which returns its exit code.
func (w *world) begin(args ...string) (out, errs *printed, stop func() int) {
	ctx, cancel := context.WithCancel(w.t.Context())
	out, errs = &printed{}, &printed{}
	code := make(chan int, 1)
	go func() { code <- w.process(args, out, errs).Run(ctx) }()
	return out, errs, func() int { cancel(); return <-code }
}

// raw returns what the registry's port answers.
func (w *world) raw(path string) string {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.net.From("127.0.0.1").Dial(ctx, address)
	}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://127.0.0.1:8761" + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// story runs commands and holds what they say to a golden file.
func (w *world) story(name string, commands ...string) {
	w.t.Helper()
	golden(w.t, filepath.Join("testdata", name), w.tell(commands...))
}

// tell runs commands and returns what they say: "!" is on standard error, "=" is the exit code.
func (w *world) tell(commands ...string) []byte {
	var all bytes.Buffer
	for _, c := range commands {
		code, out, errs := w.eider(strings.Fields(c)...)
		fmt.Fprintf(&all, "$ eider %s\n%s", c, out)
		for line := range strings.Lines(errs) {
			fmt.Fprintf(&all, "! %s", line)
		}
		fmt.Fprintf(&all, "= %d\n\n", code)
	}
	return all.Bytes()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, diff)
	}
}

func nonce(n uint64) eider.Incarnation { return eider.Incarnation{Number: 3, Nonce: n} }

func instance(id string, status eider.Status, doubt eider.Suspicion) eider.Instance {
	return eider.Instance{Suspicion: doubt, Record: eider.Record{Key: eider.Key{Service: "orders", ID: id}, Incarnation: nonce(uint64(id[0])),
		Attachment: 1, Version: 1, Status: status, Address: "127.0.0.1:808" + string(id[0]&7+'0')}}
}

func drain(id string, began time.Duration, status eider.Status, members ...eider.Member) eider.Drain {
	d := eider.Drain{Departure: eider.Departure{Key: eider.Key{Service: "orders", ID: id}, Incarnation: nonce(uint64(id[0]))}, Kind: eider.LeaveDrain,
		Since: time.Now().Add(-began), Bound: 8 * time.Second, Reached: true, Status: status, Over: status.Gone(), Total: len(members), Members: members}
	for _, m := range members {
		if !m.State.Settled() {
			d.Reached = false
			d.Open++
		}
		d.Barrier = max(d.Barrier, m.Settled)
	}
	if !d.Reached {
		d.Barrier = 0
	}
	return d
}

// scene fills the registry with something of everything.
func (w *world) scene() {
	now := time.Now()
	up := instance("1", eider.Up, 0)
	up.Zone, up.Ports = "eu-1a", map[string]uint16{"metrics": 9090, "admin": 9091}
	w.reg.SetCallers(
		eider.Caller{ID: "checkout@b2f19c", Kind: eider.Native, Service: "orders", Stream: true, Since: now.Add(-192 * time.Second), Cursor: eider.Cursor{Run: run, Number: 7}, Cap: 8 * time.Second},
		eider.Caller{ID: "web@11aa22", Kind: eider.Native, Service: "orders", Since: now.Add(-26 * time.Hour), Behind: 2, Cap: 8 * time.Second},
		eider.Caller{ID: "evil\x1b[2Jname", Kind: eider.FromBefore, Service: "pay", Since: now.Add(-2 * time.Hour), Cap: 1500 * time.Millisecond},
	)
	w.reg.SetView(&eider.View{Service: "orders", Cursor: eider.Cursor{Run: run, Number: 7}, Complete: true, Instances: []eider.Instance{
		up, instance("2", eider.Draining, 0), instance("3", eider.Up, eider.StreamEnded|eider.BeatsMissed), instance("4", eider.Starting, 0), instance("5", eider.Down, 0)},
		Gone: []eider.Gone{{ID: "0", Incarnation: nonce(9), Attachment: 1, Version: 4, Status: eider.Left}, {ID: "7", Incarnation: nonce(8), Status: eider.Dead}, {ID: "8", Incarnation: nonce(7), Status: eider.Lapsed}}})
	w.reg.SetView(&eider.View{Service: "pay", Cursor: eider.Cursor{Run: run, Number: 1}, Complete: true, Gone: []eider.Gone{{ID: "a", Incarnation: nonce(1), Status: eider.Left}}})
	member := func(name string, state eider.MemberState, stream bool, settled time.Duration) eider.Member {
		return eider.Member{Caller: name, Kind: eider.Native, State: state, Stream: stream, Cap: 8 * time.Second, Settled: settled}
	}
	w.reg.SetDrains(
		drain("2", 2*time.Second, eider.Draining, member("web@11aa22", eider.Waiting, false, 0), member("cart@1", eider.NoAlternative, true, 0), member("checkout@b2f19c", eider.LetGo, true, 4*time.Millisecond)),
		drain("9", time.Second, eider.Draining),
		drain("3", 40*time.Second, eider.Left, member("web@11aa22", eider.Capped, false, 8*time.Second), member("checkout@b2f19c", eider.LetGo, true, 4*time.Millisecond)),
		drain("4", 3*time.Minute, eider.Left, member("checkout@b2f19c", eider.LetGo, true, 12*time.Millisecond), member("cart@1", eider.SaidGoodbye, false, 5*time.Millisecond)),
		drain("1", 200*time.Second, eider.Draining, member("cart@1", eider.LetGo, true, 12*time.Millisecond)),
		drain("5", 4*time.Minute, eider.Left, member("cart@1", eider.SaidGoodbye, false, 1340*time.Millisecond)),
		drain("6", 5*time.Minute, eider.Left, member("cart@1", eider.Ended, false, 800*time.Microsecond)),
		drain("7", time.Hour, eider.Dead, member("web@11aa22", eider.Waiting, true, 0)),
		drain("8", 50*time.Hour, eider.Left),
	)
	w.reg.Tell(eider.Event{Kind: eider.EventRegistered, Service: "orders", ID: "2", Incarnation: nonce(2), Time: now.Add(-time.Hour), Status: eider.Up})
	w.reg.Tell(eider.Event{Kind: eider.EventSuspect, Service: "orders", ID: "3", Suspicion: eider.BeatsMissed, Detail: "silent for 5s\nand \x1b[31mmore"})
	w.reg.Tell(eider.Event{Kind: eider.EventPreserved, Service: "pay"})
	w.reg.Tell(eider.Event{Kind: eider.EventCapped, Service: "orders", ID: "3", Caller: "web@11aa22"})
}

func TestTables(t *testing.T) {
	bubble(t, func(w *world) {
		defer w.serve()()
		w.story("nothing.txt", "services", "callers", "drains", "events", "services --json", "callers -o json", "drains -o json", "events -o json")
		w.scene()
		w.story("tables.txt", "services", "instances orders", "instances ORDERS --gone", "instances pay", "instances pay --gone", "callers orders", "callers pay", "callers",
			"drains", "drains orders", "drains pay", "events", "events --last 1", "events -n 0", "events --service pay", "events --service ordes")
		w.story("json.txt", "services --json", "instances pay -o json", "callers pay --json", "events -n 1 -o json", "version -o json --help")
		w.tty = true
		w.story("colours.txt", "services", "instances orders --gone", "callers", "drains", "events")
		w.env["NO_COLOR"] = "1"
		if _, out, _ := w.eider("instances", "orders"); strings.Contains(out, "\x1b") {
			t.Errorf("NO_COLOR is set, and there are colours: %q", out)
		}
		w.reg.SetNode(eider.Node{Name: "node-1", Run: run, Ready: true, Void: []string{"3 of 4 instances of orders are silent"}})
		w.story("cold.txt", "services", "instances ordres")
		w.reg.SetNode(eider.Node{Name: "node-1", Run: run, Ready: true, Complete: true})
		w.tty = false
		w.story("unknown.txt", "instances ordres", "instances nothing-like-it", "callers nothing-like-it")
		w.reg.SetView(&eider.View{Service: "carts", Complete: true, Gone: []eider.Gone{{ID: "1", Incarnation: nonce(9), Status: eider.Dead}}})
		w.reg.SetView(&eider.View{Service: "mail", Complete: true})
		w.story("ended.txt", "services", "instances carts", "instances orders --gone", "instances mail --gone")
	})
}

func TestHelp(t *testing.T) {
	bubble(t, func(w *world) {
		w.story("help.txt", "", "services --help", "instances -h", "callers --help", "drains --help", "events --help", "version --help", "completion --help")
	})
}
