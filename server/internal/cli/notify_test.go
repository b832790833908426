package cli

import (
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServerTellsSystemd, as sd_notify(3) has it: ready once it serves, alive for each time that it has answered itself
// and no other, stopping as it begins to.
func TestServerTellsSystemd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	next := func() string {
		t.Helper()
		buf := make([]byte, 4096)
		if err := manager.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := manager.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "3000000")
	cmd, at, _ := startServer(t)
	if got, want := next(), "READY=1\nSTATUS=serves, grpc "+at.GRPC+" http "+at.HTTP; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	const times = 2
	for range times {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("told %q, want WATCHDOG=1", got)
		}
	}
	_, metrics := get(t, "http://"+at.HTTP+"/metrics")
	asked := regexp.MustCompile(`(?m)^eider_http_requests_total\{code="200",route="/healthz"\} (\d+)$`).FindStringSubmatch(metrics)
	if asked == nil {
		t.Error("the watchdog was told without the node having been asked")
	} else if n, _ := strconv.Atoi(asked[1]); n < times {
		t.Errorf("the node was asked %d times, and the watchdog told at least %d", n, times)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for {
		got := next()
		if strings.HasPrefix(got, "STOPPING=1\n") {
			break
		}
		if got != "WATCHDOG=1" { // one that was on its way
			t.Fatalf("told %q, want STOPPING=1", got)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
