package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startServer runs `eider server` on free ports as a process of its own, and returns once it serves. The
// process is killed at the end of the test at the latest.
func startServer(t *testing.T, args ...string) (cmd *exec.Cmd, at listening, errs *printed) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, self, append([]string{"server", "--json", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "EIDER_TEST_MAIN=1")
	errs = &printed{}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() }) // it has ended, if the test went well
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || json.Unmarshal([]byte(line), &at) != nil || !at.Ready {
		cancel()
		_ = cmd.Wait()
		t.Fatalf("the server printed %q (%v); its log:\n%s", line, err, errs.text.String())
	}
	return cmd, at, errs
}

// run runs a short command in this process over the real network.
func runReal(args ...string) (code int, out, errs string) {
	var o, e printed
	code = Process{Args: args, Getenv: func(string) string { return "" }, Out: &o, Err: &e, Zone: time.UTC}.Run(context.Background())
	return code, o.text.String(), e.text.String()
}

// TestServer: it serves, is asked, and ends in order at one signal.
func TestServer(t *testing.T) {
	cmd, at, errs := startServer(t, "--fresh", "--node", "n1")
	if code, out, e := runReal("services", "--http", at.HTTP); code != exitOK || !strings.Contains(out, "No service is registered here, and none was lately") {
		t.Errorf("services: exit %d, %s%s", code, out, e)
	}
	if code, _, e := runReal("instances", "orders", "--http", at.HTTP); code != exitNotFound || !strings.Contains(e, "never heard of a service") {
		t.Errorf("instances orders: exit %d, %s", code, e)
	}
	for _, path := range []string{"/", "/readyz", "/healthz", "/metrics", "/v1/sd"} {
		if status, _ := get(t, "http://"+at.HTTP+path); status != http.StatusOK {
			t.Errorf("GET %s: status %d", path, status)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v; want exit code 0", err)
	}
	for _, part := range []string{"eider: ready, grpc " + at.GRPC + " http " + at.HTTP, "this machine only", "nothing is kept", "stopped"} {
		if !strings.Contains(errs.text.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, errs.text.String())
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestServerEndsAtTheSecondSignal: a connection that says nothing holds up the order of the first; the
// second ends the process at once.
func TestServerEndsAtTheSecondSignal(t *testing.T) {
	cmd, at, _ := startServer(t)
	silent, err := net.Dial("tcp", at.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	events, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.HTTP+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	events.Header.Set("Accept", "text/event-stream")
	stream, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(events) // accepted after the silent one, so that is accepted
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	// Until the stream ends the first may not have been heard. From then on a stop in order takes two seconds, since somebody is silent.
	if said, err := io.ReadAll(stream.Body); err != nil || !strings.Contains(string(said), "event: end") {
		t.Fatalf("the event stream said %q, %v", said, err)
	}
	// Not another interrupt: whoever was started in the background of a script ignores that by default.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	failed, _ := errors.AsType[*exec.ExitError](err)
	if failed == nil {
		t.Fatalf("after the second signal: %v; want death by it", err)
	}
	if status := failed.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("after the second signal: %v; want death by it", err)
	}
}

// TestServerSettings: every fault at once, with its source; a taken port says what to do.
func TestServerSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "eider.yaml")
	if err := os.WriteFile(file, []byte("lease: soon\nleese: 20s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := runReal("server", "--config", file, "--grpc", "0.0.0.0:1", "--cap", "eight")
	for _, part := range []string{"eider.yaml:1: lease", `eider.yaml:2: "leese"`, "--grpc", "--cap", "`eider server --help`"} {
		if code != exitUsage || !strings.Contains(errs, part) {
			t.Errorf("exit %d, want 2 and %q in:\n%s", code, part, errs)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, errs = runReal("server", "--grpc", "127.0.0.1:0", "--http", l.Addr().String())
	if code != exitFailure || !strings.Contains(errs, "is taken") {
		t.Errorf("a taken port: exit %d, want 1 and a sentence: %s", code, errs)
	}
}

// TestServerStopsWhileItStarts: a signal that comes first is not forgotten.
func TestServerStopsWhileItStarts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var o, e printed
	code := Process{Args: []string{"server", "--json", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, Getenv: func(string) string { return "" }, Out: &o, Err: &e}.Run(ctx)
	if code != exitOK || strings.Contains(o.text.String(), "ready") {
		t.Errorf("exit %d, printed %q; want 0 and no word of being ready\n%s", code, o.text.String(), e.text.String())
	}
}
