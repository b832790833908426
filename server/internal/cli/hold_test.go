package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
)

// attached registers an instance with a server that runs, until the test ends.
func attached(t *testing.T, reg *registry.Registry, service, id string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	listing, err := reg.Register(registry.Registration{Service: service, ID: id, Address: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for state := range listing.Watch(ctx) {
		if state.Listed {
			return
		}
	}
	t.Fatalf("%s/%s: %s", service, id, listing.State())
}

// TestHoldAndRelease over a real server: a held instance isn't picked, which --wait waits for; released, it is again.
func TestHoldAndRelease(t *testing.T) {
	_, at, _ := startServer(t, "--fresh")
	reg := registry.Open(registry.Config{Addr: at.GRPC})
	defer reg.Close()
	attached(t, reg, "orders", "a")
	attached(t, reg, "orders", "b")
	r := roster.Follow(reg, "orders")
	defer r.Close()
	picks := func(n int) (ids string) {
		t.Helper()
		for range n {
			in, done, err := r.Pick(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if done(nil); !strings.Contains(ids, in.ID) {
				ids += in.ID
			}
		}
		return ids
	}
	picks(1)
	eider := func(want int, part string, args ...string) string {
		t.Helper()
		code, out, errs := runReal(append(args, "--http", at.HTTP)...)
		if code != want || !strings.Contains(out+errs, part) {
			t.Fatalf("eider %s: exit %d, want %d and %q:\n%s%s", strings.Join(args, " "), code, want, part, out, errs)
		}
		return out
	}
	attached(t, reg, "pay", "b")
	eider(exitUsage, `say which, as orders/b or pay/b`, "hold", "b")
	eider(exitNotFound, "nobody of that name", "hold", "orders/c")
	eider(exitNotFound, `no instance "c" is listed`, "hold", "c")
	eider(exitNotFound, "isn't held", "release", "orders/a")
	eider(exitUsage, "too short", "hold", "orders/a", "--for", "1ms")
	eider(exitOK, "nobody calls it any more: 1 caller let go", "hold", "a", "--reason", "disk swap", "--for", "2h", "--wait")
	if ids := picks(200); ids != "b" {
		t.Errorf("picked are %q, want b alone", ids)
	}
	eider(exitOK, "disk swap, until 2", "instances", "orders")
	eider(exitOK, "UP held", "drains", "orders")
	eider(exitOK, "disk swap; until", "events")
	eider(exitOK, `"held": 1`, "services", "--json")
	eider(exitOK, "a is released", "release", "a")
	end := time.Now().Add(10 * time.Second)
	for picks(200) == "b" && time.Now().Before(end) {
		<-time.After(10 * time.Millisecond)
	}
	if ids := picks(200); !strings.Contains(ids, "a") {
		t.Errorf("released, only %q is picked", ids)
	}
}

// onDisk waits until a node's folder holds a text: a piece's name, or a word in one.
func onDisk(t *testing.T, data, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		for _, name := range []string{"snapshot", "log"} {
			if content, _ := os.ReadFile(filepath.Join(data, name)); bytes.Contains(content, []byte(text)) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%q isn't on disk", text)
		}
	}
}

// TestR7AHoldOutlivesKill9 of the registry, with --data; the end of its instance; and the next one under its id.
func TestR7AHoldOutlivesKill9(t *testing.T) {
	data := t.TempDir()
	cmd, at, _ := startServer(t, "--data", data)
	reg := registry.Open(registry.Config{Addr: at.GRPC})
	defer reg.Close()
	attached(t, reg, "orders", "a")
	onDisk(t, data, "orders\x00a") // and so what a run writes as it starts is written: a hold that comes now is in none of it
	for _, reason := range []string{"a look", "disk swap"} {
		if code, _, errs := runReal("hold", "orders/a", "--reason", reason, "--http", at.HTTP); code != exitOK {
			t.Fatal(errs)
		}
		onDisk(t, data, reason)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	_, at, errs := startServer(t, "--data", data)
	another := registry.Open(registry.Config{Addr: at.GRPC})
	defer another.Close()
	code, out, _ := runReal("instances", "orders", "--json", "--http", at.HTTP)
	var v eider.View
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK || len(v.Instances) != 1 || v.Instances[0].Hold == nil || v.Instances[0].Hold.Reason != "disk swap" {
		files, _ := os.ReadDir(data)
		t.Fatalf("after a restart: exit %d, %s (%v; %v)\n%s", code, out, err, files, errs.text.String())
	}
	attached(t, another, "orders", "a2")
	if code, _, errs := runReal("release", "a", "--http", at.HTTP); code != exitOK {
		t.Fatal(errs)
	}
}
