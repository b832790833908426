//go:build linux

package supervise_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// systemd is what a service manager would listen with.
type systemd struct {
	*net.UnixConn
	t *testing.T
}

func newSystemd(t *testing.T) systemd {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return systemd{c, t}
}

// hears returns what it is told next, within a time, but of a watchdog; "" if nothing.
func (s systemd) hears(within time.Duration) string {
	s.t.Helper()
	if err := s.SetReadDeadline(time.Now().Add(within)); err != nil {
		s.t.Fatal(err)
	}
	for buf := make([]byte, 4096); ; {
		n, err := s.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return ""
		case err != nil:
			s.t.Fatal(err)
		case string(buf[:n]) != "WATCHDOG=1":
			return string(buf[:n])
		}
	}
}

// systemd (Type=notify) hears that a service serves once its program is ready, that it stops from the leave on, and all from
// this process: the program isn't asked to tell.
func TestSystemdIsTold(t *testing.T) {
	t.Parallel()
	manager := newSystemd(t)
	w := newWorld(t)
	goOn := filepath.Join(t.TempDir(), "go-on")
	p := program{At: freePort(t), Late: true, Linger: goOn}
	r := launchRun(t, p, []string{"--registry", w.grpc, "--service", "orders=" + p.At, "--unknown", "1s"}, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+manager.LocalAddr().String(), "WATCHDOG_USEC=30000000")
	})
	r.says("begun")
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", r.pid("pid")))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(environment), "NOTIFY_SOCKET=") || strings.Contains(string(environment), "WATCHDOG_") {
		t.Error("the program is asked to tell systemd")
	}
	w.is(eider.Starting)
	if got := manager.hears(time.Millisecond); got != "" {
		t.Errorf("told %q before the program is ready", got)
	}
	r.signal(syscall.SIGUSR2)
	if got := manager.hears(patience); got != "READY=1\nSTATUS=serves orders" {
		t.Errorf("told %q, want that it serves", got)
	}
	w.is(eider.Up)
	r.signal(syscall.SIGTERM)
	if got := manager.hears(patience); !strings.HasPrefix(got, "STOPPING=1\nSTATUS=leaves") {
		t.Errorf("told %q, want that it stops", got)
	}
	if _, err := post(t, r.at, "/"); err != nil {
		t.Errorf("told that it stops, it serves no more: %v", err)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.exit()
}
