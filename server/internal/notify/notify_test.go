package notify

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socket is what systemd would listen at; it returns what it was told, one datagram a call.
func socket(t *testing.T) (next func() string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		buf := make([]byte, 4096)
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

// The manager hears each word as sd_notify(3) has it, and a status never adds a variable of its own.
func TestReadyAndStopping(t *testing.T) {
	next := socket(t)
	s := Open(slog.New(slog.DiscardHandler))
	s.Ready("serving at 127.0.0.1:8762\nWATCHDOG=trigger")
	if got, want := next(), "READY=1\nSTATUS=serving at 127.0.0.1:8762 WATCHDOG=trigger"; got != want {
		t.Errorf("ready: %q, want %q", got, want)
	}
	s.Stopping("")
	if got := next(); got != "STOPPING=1" {
		t.Errorf("stopping: %q", got)
	}
}

// Without a manager nothing is said, not even into the log.
func TestNobodyAsks(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	var log bytes.Buffer
	s := Open(slog.New(slog.NewTextHandler(&log, nil)))
	s.Ready("x")
	s.Watch(t.Context(), func(context.Context) error { t.Error("asked although there is no watchdog"); return nil })
	s.Stopping("x")
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}

// A manager that can't be told is a line in the log, one, and no fault of the service.
func TestAManagerThatIsGone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	var log bytes.Buffer
	s := Open(slog.New(slog.NewTextHandler(&log, nil)))
	s.Ready("x")
	s.Stopping("x")
	if n := strings.Count(log.String(), "can't be told"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, log.String())
	}
}

// The time is that which WATCHDOG_USEC gives to this process and to no other.
func TestWatchdogOfThisProcess(t *testing.T) {
	for _, one := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0},
		{"30000000", "", 30 * time.Second},
		{"30000000", strconv.Itoa(os.Getpid()), 30 * time.Second},
		{"30000000", strconv.Itoa(os.Getppid()), 0},
		{"soon", "", 0},
	} {
		t.Setenv("WATCHDOG_USEC", one.usec)
		t.Setenv("WATCHDOG_PID", one.pid)
		if one.pid == "" {
			os.Unsetenv("WATCHDOG_PID")
		}
		if got := Open(slog.New(slog.DiscardHandler)).within; got != one.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: %s, want %s", one.usec, one.pid, got, one.want)
		}
	}
}

func TestWithout(t *testing.T) {
	all := []string{"A=1", "NOTIFY_SOCKET=/x", "WATCHDOG_USEC=1", "NOTIFY_SOCKETS=mine", "WATCHDOG_PID=1"}
	if got := strings.Join(Without(all), " "); got != "A=1 NOTIFY_SOCKETS=mine" || all[1] != "NOTIFY_SOCKET=/x" {
		t.Errorf("left is %s, of %v", got, all)
	}
}

// beating is a Service with a watchdog of 30 s, and how often it was told.
func beating(log *bytes.Buffer) (*Service, *atomic.Int32) {
	told := &atomic.Int32{}
	return &Service{log: slog.New(slog.NewTextHandler(log, nil)), within: 30 * time.Second, send: func(state string) error {
		if state == "WATCHDOG=1" {
			told.Add(1)
		}
		return nil
	}}, told
}

func TestWatchdogIsToldOnlyWhileTheServiceAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, told := beating(&log)
		var how atomic.Int32 // 0 answers, 1 fails, 2 hangs
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.Watch(ctx, func(ctx context.Context) error {
				switch how.Load() {
				case 1:
					return errors.New("wedged")
				case 2:
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
		}()
		during := func(d time.Duration) int32 {
			before := told.Load()
			time.Sleep(d)
			synctest.Wait()
			return told.Load() - before
		}
		time.Sleep(time.Second) // between two of them
		if n := during(time.Minute); n != 6 {
			t.Errorf("told %d times in a minute, want 6: three in a watchdog's time", n)
		}
		for _, bad := range []int32{1, 2} {
			how.Store(bad)
			during(10 * time.Second) // the one that may be under way
			if n := during(time.Minute); n != 0 {
				t.Errorf("told %d times while it doesn't answer (%d), want none", n, bad)
			}
		}
		how.Store(0)
		during(20 * time.Second)
		if n := during(time.Minute); n != 6 {
			t.Errorf("told %d times in a minute, want 6 again", n)
		}
		cancel()
		<-over
		if bad, well := strings.Count(log.String(), "doesn't answer itself"), strings.Count(log.String(), "answers itself again"); bad != 1 || well != 1 {
			t.Errorf("the log tells %d times that it doesn't answer and %d times that it does again, want once each:\n%s", bad, well, log.String())
		}
	})
}

// What is asked as the service ends is no failure of it.
func TestWatchEndsQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, told := beating(&log)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		s.Watch(ctx, func(ctx context.Context) error {
			if told.Load() == 0 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if log.Len() > 0 {
			t.Errorf("logged %s", log.String())
		}
	})
}
