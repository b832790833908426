package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// departing is a process whose test says how it leaves.
type departing struct {
	mu     sync.Mutex
	told   int
	left   chan struct{}
	begun  chan struct{} // closed by the first Leave
	answer Answer
}

func newDeparting() *departing {
	return &departing{left: make(chan struct{}), begun: make(chan struct{}), answer: Answer{State: Serving, Services: []string{"orders"}}}
}

func (d *departing) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told++; d.told == 1 {
		if d.answer.State == Serving {
			d.answer.State = Leaving
		}
		close(d.begun)
	}
}

func (d *departing) Left() <-chan struct{} { return d.left }

func (d *departing) Outcome() Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answer
}

func (d *departing) times() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told
}

// pauseIsOver ends its pause.
func (d *departing) pauseIsOver() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer.State, d.answer.Pause, d.answer.EndedBy, d.answer.Waited = Left, 40*time.Millisecond, "barrier", 3
	close(d.left)
}

// station is a server under test.
type station struct {
	*Server
	*departing
	name, url string
	ended     chan error
	stop      context.CancelFunc
}

func start(t *testing.T, log io.Writer) *station {
	t.Helper()
	s := &station{departing: newDeparting(), name: fmt.Sprintf("eider-test-%016x", rand.Uint64()), ended: make(chan error, 1)}
	if log == nil {
		log = io.Discard
	}
	var err error
	if s.Server, err = Listen(s.name, "127.0.0.1:0", s.departing, slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + s.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() { s.ended <- s.Run(ctx); close(s.ended) }()
	t.Cleanup(s.end)
	return s
}

func (s *station) end() {
	s.stop()
	<-s.ended
}

// ask asks beside the test.
func (s *station) ask(t *testing.T, wait bool) <-chan error {
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		a, err := Leave(ctx, s.name, wait)
		if err == nil && wait && (a.State != Left || a.Pause != 40*time.Millisecond || a.EndedBy != "barrier" || a.Waited != 3 || len(a.Services) != 1) {
			err = fmt.Errorf("it answers %+v", a)
		}
		answered <- err
	}()
	return answered
}

// get asks by HTTP beside the test.
func (s *station) get(t *testing.T, path string) <-chan string {
	t.Helper()
	answered := make(chan string, 1)
	go func() {
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Timeout: patience, Transport: tr}).Get(s.url + path)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answered <- fmt.Sprint(resp.StatusCode, " ", string(body))
	}()
	return answered
}

// Twice, at once, by both ways, and after the end: each is answered when the pause is over, and it begins once.
func TestLeaveIsAnsweredWhenThePauseIsOver(t *testing.T) {
	s := start(t, nil)
	var asked []<-chan error
	var got []<-chan string
	for range 5 {
		asked = append(asked, s.ask(t, true))
		got = append(got, s.get(t, "/leave"))
	}
	<-s.begun
	if a, err := Leave(t.Context(), s.name, false); err != nil || a.State != Leaving {
		t.Errorf("without waiting: %+v, %v", a, err)
	}
	if text := <-s.get(t, "/leave?wait=0"); !strings.HasPrefix(text, `200 {"state":"leaving","services":["orders"]`) {
		t.Errorf("without waiting: %s", text)
	}
	for _, c := range asked {
		select {
		case err := <-c:
			t.Fatalf("answered during the pause: %v", err)
		default:
		}
	}
	s.pauseIsOver()
	for i := range asked {
		if err := <-asked[i]; err != nil {
			t.Error(err)
		}
		if text := <-got[i]; !strings.HasPrefix(text, `200 {"state":"left","services":["orders"],"pause_ns":40000000,"ended_by":"barrier","waited":3,"open":0}`) {
			t.Error(text)
		}
	}
	if err := <-s.ask(t, true); err != nil {
		t.Errorf("after the end: %v", err)
	}
	s.end()
	if _, err := Leave(t.Context(), s.name, true); !errors.Is(err, ErrNobody) {
		t.Errorf("after the process: %v", err)
	}
}

// The process ends before its pause does: who waits hears how it stands.
func TestCloseAnswersWhoWaits(t *testing.T) {
	s := start(t, nil)
	asked, got := s.ask(t, true), s.get(t, "/leave")
	<-s.begun
	for s.times() < 2 {
		<-time.After(time.Millisecond)
	}
	s.end()
	if err := <-asked; err == nil || !strings.Contains(err.Error(), "State:leaving") {
		t.Errorf("it hears %v", err)
	}
	if text := <-got; !strings.HasPrefix(text, `200 {"state":"leaving"`) && !strings.HasPrefix(text, `503 `) {
		t.Errorf("it hears %s", text)
	}
}

// A process whose hook runs in its own namespace of processes takes the hook's process with it as it ends: it stays until
// that has the answer.
func TestCloseWaitsUntilTheAnswerIsTaken(t *testing.T) {
	s := start(t, nil)
	nc, err := net.Dial("unix", "@"+s.name)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s.pauseIsOver()
	if _, err := io.WriteString(nc, `{"do":"leave","wait":true}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(nc).ReadString('\n'); err != nil || !strings.Contains(line, `"state":"left"`) {
		t.Fatalf("%q, %v", line, err)
	}
	read := time.Now()
	s.stop()
	select {
	case <-s.ended:
		if stayed := time.Since(read); stayed < hangUp/2 {
			t.Errorf("it ended %s after the answer, before that was taken", stayed)
		}
	case <-time.After(hangUp / 4):
		began := time.Now() // before it is taken: a machine that is busy in between makes it longer
		nc.Close()
		<-s.ended
		if time.Since(began) < parting && began.Sub(read) < hangUp/2 {
			t.Error("it leaves the hook's process no moment to end")
		}
	}
}

func TestHookDoesOnlyThis(t *testing.T) {
	s := start(t, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{{"GET", "/", "", 404}, {"GET", "/leave/", "", 404}, {"POST", "/leave", "", 405}, {"HEAD", "/leave", "", 405}, {"DELETE", "/leave", "x", 405}, {"GET", "/leave?wait=2", "", 400}, {"GET", "/leave?wait=0&wait=1", "", 400}} {
		req, err := http.NewRequest(c.method, s.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Timeout: patience}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status || !resp.Close {
			t.Errorf("%s %s: %d, want %d, and the end of the connection", c.method, c.path, resp.StatusCode, c.status)
		}
	}
	if s.times() != 0 {
		t.Error("it leaves for a question that it refused")
	}
}

// What can't be listened at is an error at start, every fault at once, and leaves nothing behind.
func TestListenSaysWhatToSet(t *testing.T) {
	s := start(t, nil)
	_, err := Listen(s.name, s.Addr().String(), newDeparting(), slog.New(slog.DiscardHandler))
	for _, want := range []string{"set a name of its own", "listens there: set another port"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for _, c := range []struct{ name, hook, want string }{
		{"a b", "", "is no name for a socket"}, {strings.Repeat("x", 101), "", "is no name"}, {"@", "", "is no name"},
		{"", "8764", "as in :8764"}, {"", "192.0.2.1:8764", "as in :8764"}, {"", "127.0.0.1:99999", "as in :8764"},
	} {
		if _, err := Listen(c.name, c.hook, newDeparting(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: %v, want %q", c.name, c.hook, err, c.want)
		}
		if _, err := Leave(t.Context(), c.name, false); c.want == "is no name for a socket" && err == nil {
			t.Errorf("%q is asked", c.name)
		}
	}
	again := s.name
	s.end()
	second, err := Listen("@"+again, "", newDeparting(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("the name of a process that ended isn't free: %v", err)
	}
	second.Close()
	if err := second.Run(t.Context()); err != nil {
		t.Errorf("Run after Close: %v", err)
	}
}

// A process that says nothing, or too much, or hangs up, is an error that says so, and in time.
func TestLeaveDoesNotTrustWhoAnswers(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{"", "ended before it answered"},
		{"{}\n", "says nothing of a departure"},
		{`{"state":"gone"}` + "\n", "says nothing of a departure"},
		{"\x1b[31m\n", "isn't understood"},
		{strings.Repeat("x", maxAnswer+1), "ended before it answered"},
		{`{"error":"no"}` + "\n", `it answers "no"`},
	} {
		name := fmt.Sprintf("eider-test-%016x", rand.Uint64())
		ln, err := net.Listen("unix", "@"+name)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			bufio.NewReader(nc).ReadString('\n')
			io.WriteString(nc, c.says)
		}()
		if a, err := Leave(t.Context(), name, true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: %+v, %v, want %q", c.says, a, err, c.want)
		}
		ln.Close()
		<-done
	}
	ln, err := net.Listen("unix", "@"+fmt.Sprintf("eider-test-%016x", rand.Uint64()))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() // its queue takes us, and nobody answers
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := Leave(ctx, ln.Addr().String(), true); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("a hang: %v", err)
	}
}
