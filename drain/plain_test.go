package drain

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// beginPlain serves a line protocol: each line is echoed; "hang" ends with its context alone.
func beginPlain(t *testing.T, tune func(*Config), handle func(context.Context, net.Conn)) *run {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Service: "orders", ID: "1", Logger: slog.New(slog.DiscardHandler)}
	if tune != nil {
		tune(&cfg)
	}
	ctx, stop := context.WithCancel(t.Context())
	reg := newScript()
	r := &run{t: t, addr: ln.Addr().String(), reg: reg, stop: stop, result: make(chan result, 1)}
	go func() {
		report, err := serveListener(ctx, ln, handle, cfg, reg)
		r.result <- result{report, err}
	}()
	t.Cleanup(stop)
	soon(t, reg.known, "the registration")
	return r
}

// echo serves until the client ends it, or the drain does between two lines.
func echo(ctx context.Context, nc net.Conn) {
	Goodbye(ctx, func() {
		io.WriteString(nc, "bye\n")
		nc.SetReadDeadline(time.Unix(1, 0))
	})
	for lines := bufio.NewReader(nc); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if line == "hang\n" {
			io.WriteString(nc, "for ever\n")
			<-ctx.Done()
			return
		}
		io.WriteString(nc, line)
	}
}

func (p *peer) says(line, want string) {
	p.t.Helper()
	io.WriteString(p, line)
	if got, err := p.r.ReadString('\n'); got != want {
		p.t.Errorf("%q is answered by %q, %v, want %q", line, got, err, want)
	}
}

// A plain listener leaves as an HTTP server does: it serves on until the barrier, and then says goodbye.
func TestListenerServesUntilTheBarrier(t *testing.T) {
	r := beginPlain(t, nil, echo)
	old := r.dial()
	old.says("one\n", "one\n")
	r.leave()
	fresh := r.dial()
	fresh.says("two\n", "two\n")
	old.says("three\n", "three\n")
	r.barrier()
	for _, p := range []*peer{old, fresh} {
		p.says("", "bye\n")
		p.closed()
	}
	r.unlistened()
	rep := r.end()
	if rep.Exit != ExitClean || rep.EndedBy != ByBarrier || rep.CutCount != 0 || rep.ServedAfterLeave < 1 || !rep.Left || rep.Took > 4*time.Second || rep.Waited != 0 {
		t.Errorf("%+v", rep)
	}
	if reg := r.reg.registered[0]; reg.Address != r.addr || reg.Status != eider.Up {
		t.Errorf("it was registered as %+v", reg)
	}
}

// D9: what doesn't end is cut after its budget, and named; its handler's context ends.
func TestD9ListenerCutsWhatDoesNotEnd(t *testing.T) {
	r := beginPlain(t, func(c *Config) { c.Streams = 100 * time.Millisecond }, echo)
	p := r.dial()
	p.says("one\n", "one\n")
	p.says("hang\n", "for ever\n")
	r.leave()
	r.barrier()
	p.says("", "bye\n")
	p.closed()
	rep := r.end()
	if rep.CutCount != 1 || rep.Exit != ExitLoss || !strings.Contains(rep.String(), "    a connection from 127.0.0.1:") {
		t.Errorf("%+v\n%s", rep, rep)
	}
}

// D5: whoever waits in the accept queue when the pause ends is served.
func TestD5ListenerEmptiesItsQueue(t *testing.T) {
	r := beginPlain(t, func(c *Config) { c.Streams = patience / 2 }, func(_ context.Context, nc net.Conn) {
		line, _ := bufio.NewReader(nc).ReadString('\n')
		io.WriteString(nc, line)
	})
	r.leave()
	var waiting []*peer
	for range 50 {
		waiting = append(waiting, r.dial())
	}
	r.barrier()
	r.unlistened()
	for i, p := range waiting {
		p.says(fmt.Sprintln(i), fmt.Sprintln(i))
	}
	if rep := r.end(); rep.Exit != ExitClean || rep.ServedAfterLeave < 50 {
		t.Errorf("%+v", rep)
	}
}

// A connection doesn't say whose it is: unknown callers are waited for only if that is asked for, and if there were any.
func TestListenerWaitsForTheUnknownWhenAsked(t *testing.T) {
	for _, c := range []struct {
		unknown time.Duration
		calls   bool
		waits   bool
	}{{0, true, false}, {300 * time.Millisecond, true, true}, {patience / 4, false, false}} {
		r := beginPlain(t, func(cfg *Config) { cfg.Unknown = c.unknown }, echo)
		if c.calls {
			r.dial().says("one\n", "one\n")
		}
		r.leave()
		r.barrier()
		if rep := r.end(); (rep.Pause >= cmp.Or(c.unknown, patience/4)) != c.waits || (rep.Waited == 1) != c.waits {
			t.Errorf("%+v: %+v", c, rep)
		}
	}
}

func TestListenerFaultsAreAllSaid(t *testing.T) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ServeListener(t.Context(), nil, nil, Config{Listener: one})
	one.Close()
	for _, want := range []string{"lis: it is nil", "serve: it is nil", "Listener: it isn't lis"} {
		if err == nil || !strings.Contains(err.Error(), want) || eider.KindOf(err) != eider.Invalid {
			t.Errorf("%v doesn't say %q", err, want)
		}
	}
}

// Once it is left a listener is closed: who dials then is refused, and doesn't wait in a queue that nobody empties.
func TestListenerIsClosedWhenItIsLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	reg := newScript()
	done := make(chan error, 1)
	go func() {
		_, err := serveListener(ctx, ln, echo, Config{Service: "orders", ID: "1", Logger: slog.New(slog.DiscardHandler), Unknown: -1}, reg)
		done <- err
	}()
	soon(t, reg.known, "the registration")
	stop()
	soon(t, reg.leave, "the leave")
	close(reg.barrier)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is still open: %v", err)
	}
}
