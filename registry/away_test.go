package registry

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// said is a log without times.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// lines returns the messages logged since the last call.
func (s *said) lines() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range regexp.MustCompile(`msg="([^"]*)"`).FindAllStringSubmatch(s.text.String(), -1) {
		out = append(out, m[1])
	}
	s.text.Reset()
	return out
}

func (s *said) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

func wantSaid(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s it says\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestR9AProcessThatIsNotListedSaysSo: what to do at first, then since when, once a minute, as long as it lasts.
func TestR9AProcessThatIsNotListedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		node.kill(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
		var log said
		reg := node.open(Config{Logger: log.logger()})
		begun := time.Now()
		if _, err := reg.Register(orders); err != nil {
			t.Fatal(err)
		}
		since := "not listed since " + begun.Format(time.TimeOnly) + "; it is tried again for ever"
		time.Sleep(50 * time.Second)
		wantSaid(t, "at first", log.lines(), "no registry at node:8762 yet: start one with `eider server` or set EIDER_ADDR; not listed until then")
		time.Sleep(20 * time.Second)
		wantSaid(t, "after a minute", log.lines(), since)
		time.Sleep(10 * time.Minute)
		if got := len(log.lines()); got < 9 || got > 10 {
			t.Errorf("in ten minutes it says so %d times", got)
		}
		node.start()
		c := node.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		idle(c, 2*time.Minute)
		wantSaid(t, "listed", log.lines(), "registry is there")
		node.kill(errRefused)
		time.Sleep(50 * time.Second)
		wantSaid(t, "away again", log.lines(), "registry is away: what was heard last stays, and it is tried again for ever")
	})
}

// TestR9ARefusedProcessSaysSo: the registry is there, and doesn't take it.
func TestR9ARefusedProcessSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		var log said
		reg := node.open(Config{Logger: log.logger()})
		begun := time.Now()
		if _, err := reg.Register(orders); err != nil {
			t.Fatal(err)
		}
		c := node.attach()
		for time.Since(begun) < 130*time.Second {
			m := c.hear()
			if r := m.GetRegister(); r != nil {
				c.say(refusal(r, eider.Conflict, 0))
			}
			answer(c, m)
		}
		since := "not listed since " + begun.Format(time.TimeOnly) + "; it is tried again for ever"
		wantSaid(t, "in two minutes", log.lines(), "not listed; it is tried again for ever", since, since)
	})
}

// TestAnHTTPPortIsRecognised: what gRPC says of one helps nobody.
func TestAnHTTPPortIsRecognised(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler()}
	over := make(chan struct{})
	go func() { defer close(over); _ = srv.Serve(ln) }()
	defer func() { srv.Close(); <-over }()
	reg := Open(Config{Addr: ln.Addr().String(), Logger: slog.New(slog.DiscardHandler)})
	defer reg.Close()
	l, err := reg.Register(orders)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for s := range l.Watch(ctx) {
		if s.Err != nil && strings.Contains(s.Err.Error(), "that is an HTTP port, as a registry's own is; programs use its gRPC port, 8762 by default") {
			return
		}
	}
	t.Errorf("it says %v", l.State().Err)
}
