package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// raw sends bytes and returns all that comes back.
func (s *station) raw(t *testing.T, network, addr, text string) string {
	t.Helper()
	nc, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(nc, text); err != nil {
		t.Fatal(err)
	}
	back, _ := io.ReadAll(nc)
	return string(back)
}

func TestGarbageIsAnsweredAndEnds(t *testing.T) {
	s := start(t, nil)
	for text, want := range map[string]string{
		"hello\n":                                   "isn't understood",
		`{"do":"leave","now":true}` + "\n":          "isn't understood",
		`{"do":"stop"}` + "\n":                      "can't be asked for",
		`{"do":"leave"} {"do":"leave"}` + "\n":      "more on the line",
		strings.Repeat("x", maxQuestion+1):          "longer than 256 bytes",
		`{"do":"leave"` + strings.Repeat(" ", 1000): "longer than 256 bytes",
	} {
		if back := s.raw(t, "unix", "@"+s.name, text); !strings.Contains(back, want) || strings.Count(back, "\n") != 1 && len(text) <= maxQuestion {
			t.Errorf("%.40q is answered %q, want %q", text, back, want)
		}
	}
	if back := s.raw(t, "unix", "@"+s.name, `{"do":"leave"`); back != "" {
		t.Errorf("half a question is answered %q", back)
	}
	if s.times() != 0 {
		t.Error("it leaves for a question that it refused")
	}
}

// Whoever connects and says nothing takes a slot for two seconds, and no longer: the hook gets through.
func TestStrangersCannotKeepTheHookAway(t *testing.T) {
	s := start(t, nil)
	for range 2 * maxConns {
		for network, addr := range map[string]string{"unix": "@" + s.name, "tcp": s.Addr().String()} {
			nc, err := net.Dial(network, addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
		}
	}
	s.pauseIsOver()
	if err := <-s.ask(t, true); err != nil {
		t.Error(err)
	}
	if text := <-s.get(t, "/leave"); !strings.HasPrefix(text, "200 ") {
		t.Error(text)
	}
	if n := len(s.unix.slots) + len(s.tcp.slots); n > 2*maxConns {
		t.Errorf("%d connections at once", n)
	}
}

// A hook that is killed while it waits frees its slot.
func TestWhoGivesUpIsForgotten(t *testing.T) {
	s := start(t, nil)
	for range 2 * maxConns {
		ctx, cancel := context.WithCancel(t.Context())
		told := s.times()
		gone := make(chan error, 1)
		go func() { _, err := Leave(ctx, s.name, true); gone <- err }()
		for s.times() == told {
			<-time.After(time.Millisecond)
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatalf("it gives up: %v", err)
		}
	}
	s.pauseIsOver()
}

// as does something as another user, if it may: the kernel's word of who connects and who listens is that of the thread.
func as(uid int, do func()) (could bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e == 0 {
			could = true
			do()
		}
	}()
	<-done
	return could
}

// Another user of the network namespace is sent away, by the kernel's word, and the log says so now and then.
func TestOtherUsersAreRefused(t *testing.T) {
	var log locked
	s := start(t, &log)
	refused := func() {
		for range 5 {
			if _, err := Leave(t.Context(), s.name, false); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "run the hook as its user") {
				t.Errorf("another user hears %v", err)
			}
		}
	}
	if !as(65534, refused) {
		s.self = -5 // a user that nobody is
		refused()
	}
	if s.times() != 0 {
		t.Error("it leaves for another user")
	}
	s.end()
	if n := strings.Count(log.String(), "somebody who may not"); n != 1 {
		t.Errorf("5 refusals at once make %d lines:\n%s", n, log.String())
	}
}

// Whoever takes the name first can't tell a hook of another user that the pause is over.
func TestAnotherUsersWordIsNotTaken(t *testing.T) {
	name := fmt.Sprintf("eider-test-%016x", rand.Uint64())
	var ln net.Listener
	var err error
	if !as(65534, func() { ln, err = net.Listen("unix", "@"+name) }) {
		t.Skip("this user can't become another one")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	as(65533, func() { _, err = Leave(ctx, name, true) })
	if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "user 65534 listens there") {
		t.Errorf("it hears %v", err)
	}
}

// locked is a log that several goroutines write.
type locked struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func FuzzQuestion(f *testing.F) {
	for _, s := range []string{`{"do":"leave","wait":true}`, `{"do":"leave"}`, `{"do":"stop"}`, "null", "[]", `{"do":"leave"}x`, "\xff", strings.Repeat("[", 300)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		q, err := parse(line)
		if err == nil && (q.Do != "leave" || len(line) > maxQuestion) || err != nil && q != (question{}) {
			t.Errorf("%q: %+v, %v", line, q, err)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%q makes an error of %d bytes", line, len(err.Error()))
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"state":"left","services":["orders"],"pause_ns":1,"waited":1,"open":0}`, `{"error":"no"}`, `{"denied":true}`, "null", `{"state":7}`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := read(line)
		if err == nil && a.State != Serving && a.State != Leaving && a.State != Left {
			t.Errorf("%q: %+v", line, a)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("%q makes an error of %d bytes", line, len(err.Error()))
		}
	})
}
