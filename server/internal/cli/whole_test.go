package cli

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// TestAWholeDeparture: a real registry, an instance and a caller; what every command says while the
// instance comes, serves and leaves, and that watching holds up nobody.
func TestAWholeDeparture(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, at, _ := startServer(t, "--fresh")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	serves := registry.Open(registry.Config{Addr: at.GRPC, Caller: "serves"})
	defer serves.Close()
	listing, err := serves.Register(registry.Registration{Service: "orders", ID: "1", Address: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	for state := range listing.Watch(ctx) {
		if state.Listed {
			break
		}
	}
	calls := registry.Open(registry.Config{Addr: at.GRPC, Caller: "calls"})
	defer calls.Close()
	sub, err := calls.Follow("orders")
	if err != nil {
		t.Fatal(err)
	}
	next(ctx, t, sub, eider.Up)

	lines := watch(ctx, t, "instances", "orders", "-w", "--http", at.HTTP)
	lines.until(t, "UP")
	expectAll(t, at, "services", "orders", "1")
	expectAll(t, at, "callers orders", calls.Caller(), "connected")

	leaving := listing.Leave()
	v, dep := next(ctx, t, sub, eider.Draining)
	lines.until(t, "DRAINING")
	expectAll(t, at, "drains orders", "DRAINING", "waits for 1 of 1: "+calls.Caller())
	sub.Ack(v.Cursor, []eider.Departure{dep}, nil)
	select {
	case <-leaving.Barrier():
	case <-ctx.Done():
		t.Fatal("the barrier isn't reached, though the only caller has let go")
	}
	if err := listing.Left(ctx); err != nil {
		t.Fatal(err)
	}
	lines.until(t, "Nobody serves orders now")
	expectAll(t, at, "drains", "orders/1", "LEFT", calls.Caller()+" let go, the last")
	expectAll(t, at, "instances orders --gone", "left as planned")
	expectAll(t, at, "events", "registered", "leaving", "barrier", "left")
}

// next follows until the instance has the status, acknowledging what comes before.
func next(ctx context.Context, t *testing.T, sub *registry.Subscription, status eider.Status) (*eider.View, eider.Departure) {
	t.Helper()
	for {
		update, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("waiting for %s: %v", status, err)
		}
		if update.View == nil {
			continue
		}
		if in, ok := update.View.Find("1"); ok && in.Status == status {
			if status != eider.Draining {
				sub.Ack(update.View.Cursor, nil, nil)
			}
			return update.View, in.Departure()
		}
		sub.Ack(update.View.Cursor, nil, nil)
	}
}

// expectAll runs a command and wants all parts in what it prints.
func expectAll(t *testing.T, at listening, args string, parts ...string) {
	t.Helper()
	code, out, errs := runReal(append(strings.Fields(args), "--http", at.HTTP)...)
	for _, part := range parts {
		if code != exitOK || !strings.Contains(out, part) {
			t.Errorf("eider %s: exit %d, want %q in:\n%s%s", args, code, part, out, errs)
		}
	}
}

// watched is a command that goes on printing.
type watched struct{ lines *bufio.Scanner }

// watch runs a command until the end of the test.
func watch(ctx context.Context, t *testing.T, args ...string) watched {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		code := Process{Args: args, Getenv: func(string) string { return "" }, Out: w, Err: io.Discard, Zone: time.UTC}.Run(ctx)
		w.Close()
		if code != exitOK {
			t.Errorf("eider %v: exit %d", args, code)
		}
	}()
	t.Cleanup(func() {
		cancel()
		_, _ = io.Copy(io.Discard, r)
		<-over
	})
	return watched{bufio.NewScanner(r)}
}

// until reads lines up to one that holds the part.
func (w watched) until(t *testing.T, part string) {
	t.Helper()
	var seen []string
	for w.lines.Scan() {
		if seen = append(seen, w.lines.Text()); strings.Contains(w.lines.Text(), part) {
			return
		}
	}
	t.Fatalf("the watch ended before %q:\n%s", part, strings.Join(seen, "\n"))
}
