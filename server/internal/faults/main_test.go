//go:build linux

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

// orderEnv makes this test binary a child that plays the role in it.
const orderEnv = "EIDER_FAULTS_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(orderEnv); text != "" {
		os.Exit(obey(text))
	}
	goleak.VerifyTestMain(m)
}

const patience = 30 * time.Second // how long a test waits for what must come

var quiet = slog.New(slog.DiscardHandler)

// order is what a child is told to be.
type order struct {
	Role     string        // registry, instance, caller or asker
	Settings node.Settings // of a registry

	GRPC, Service, ID, Listen string        // of an instance or caller
	InFlight, Streams         time.Duration // of an instance
	Unknown                   time.Duration // likewise
	SlowStart                 bool          // once its signals are heard it waits for a line on its standard input
	Base                      bool          // of a caller: serves an instance of the service named by ID too
}

// line is what a child says on its standard output.
type line struct {
	Kind   string        // ready, starting, serving, listed, unlisted, progress, report, tally, asked, log or failed
	At     time.Time     // when
	GRPC   string        `json:",omitempty"`
	HTTP   string        `json:",omitempty"`
	Addr   string        `json:",omitempty"`
	Text   string        `json:",omitempty"`
	Drain  *eider.Drain  `json:",omitempty"`
	Report *drain.Report `json:",omitempty"`
	Tally  *tally        `json:",omitempty"`

	Slowest time.Duration `json:",omitzero"` // of an asker's
	Asked   int           `json:",omitzero"` // answers
}

// speaker writes a child's lines.
type speaker struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func (s *speaker) say(l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.At = time.Now()
	s.enc.Encode(l)
}

// Write makes a line of what is logged.
func (s *speaker) Write(b []byte) (int, error) {
	s.say(line{Kind: "log", Text: string(b)})
	return len(b), nil
}

// obey is a child's main.
func obey(text string) int {
	say := &speaker{enc: json.NewEncoder(os.Stdout)}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		say.say(line{Kind: "failed", Text: err.Error()})
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	words := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			words <- in.Text()
		}
		os.Exit(9) // the test is gone
	}()
	log := slog.New(slog.NewTextHandler(say, nil))
	code, err := 1, fmt.Errorf("no role %q", o.Role)
	switch o.Role {
	case "registry":
		code, err = o.registry(ctx, say, words)
	case "instance":
		code, err = o.instance(ctx, say, words, log)
	case "asker":
		code, err = o.asker(say, words)
	case "caller":
		code, err = o.caller(ctx, say, words, log)
	}
	if err != nil {
		say.say(line{Kind: "failed", Text: err.Error()})
	}
	return code
}

// process is a running child.
type process struct {
	t   *testing.T
	who string
	cmd *exec.Cmd
	in  io.WriteCloser

	mu    sync.Mutex
	lines []line
	news  chan struct{} // closed and replaced with each line
	over  chan struct{} // closed when it has ended and is reaped
}

// spawn starts a child, which the end of the test kills.
func spawn(t *testing.T, o order) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, who: o.Role + " " + o.ID, cmd: exec.Command(os.Args[0]), news: make(chan struct{}), over: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a stopped child doesn't notice the end of its standard input
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err = p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.over
		if t.Failed() {
			p.dump()
		}
	})
	return p
}

func (p *process) read(out io.Reader) {
	defer close(p.over)
	scan := bufio.NewScanner(out)
	for scan.Buffer(nil, 1<<20); scan.Scan(); {
		var l line
		if json.Unmarshal(scan.Bytes(), &l) != nil {
			l = line{Kind: "log", Text: scan.Text()}
		}
		p.mu.Lock()
		p.lines = append(p.lines, l)
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
	p.cmd.Wait()
}

func (p *process) dump() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines[max(0, len(p.lines)-25):] {
		text, _ := json.Marshal(l)
		p.t.Logf("%s: %.600s", p.who, text)
	}
}

// said returns the first line that is as it should be, of those that have come so far.
func (p *process) said(ok func(*line) bool) (line, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.lines {
		if ok(&p.lines[i]) {
			return p.lines[i], true
		}
	}
	return line{}, false
}

// await waits for the first line that is as it should be.
func (p *process) await(what string, ok func(*line) bool) line {
	p.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		p.mu.Lock()
		news := p.news
		p.mu.Unlock()
		if l, found := p.said(ok); found {
			return l
		}
		select {
		case <-news:
		case <-p.over:
			if l, found := p.said(ok); found {
				return l
			}
			p.t.Fatalf("%s ended without: %s", p.who, what)
		case <-late.C:
			p.t.Fatalf("%s: no %s within %v", p.who, what, patience)
		}
	}
}

func (p *process) awaitKind(kind string) line {
	p.t.Helper()
	return p.await(kind, func(l *line) bool { return l.Kind == kind })
}

func (p *process) hears(sig syscall.Signal) time.Time {
	p.t.Helper()
	at := time.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("%s: %v", p.who, err)
	}
	return at
}

// freeze stops it, and returns once every thread of it has stopped: a signal takes a moment.
func (p *process) freeze() time.Time {
	p.t.Helper()
	p.hears(syscall.SIGSTOP)
	eventually(p.t, p.who+" stopped", func() bool {
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		for _, name := range stats {
			text, err := os.ReadFile(name)
			if _, rest, ok := strings.Cut(string(text), ") "); err != nil || !ok || rest[0] != 'T' {
				return false
			}
		}
		return len(stats) > 0
	})
	return time.Now()
}

func (p *process) thaw() { p.t.Helper(); p.hears(syscall.SIGCONT) }

// kill ends it as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	p.t.Helper()
	p.hears(syscall.SIGKILL)
	<-p.over
}

func (p *process) tell(word string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, word+"\n"); err != nil {
		p.t.Fatalf("%s: %v", p.who, err)
	}
}

// exit waits for the end, and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(patience):
		p.t.Fatalf("%s hasn't ended within %v", p.who, patience)
	}
	return p.cmd.ProcessState.ExitCode()
}
