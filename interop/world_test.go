package interop

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

const (
	service  = "orders"
	patience = 3 * time.Minute // a virtual machine takes its time on a machine that others use
)

// process is a child whose lines are kept.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	over chan struct{} // closed when it has ended and all that it said is kept

	mu    sync.Mutex
	lines []string
	news  chan struct{} // closed and replaced with each line
}

// start starts a command, which the end of the test kills.
func start(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: cmd, over: make(chan struct{}), news: make(chan struct{})}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	in.Close()
	if err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go p.hear(out)
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.over
		for _, line := range p.lines {
			if t.Failed() {
				t.Logf("%s: %s", name, line)
			}
		}
	})
	return p
}

func (p *process) hear(out io.ReadCloser) {
	defer close(p.over)
	defer out.Close()
	for s := bufio.NewScanner(out); s.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
	p.cmd.Wait()
}

// said returns the first line that is as it should be, and what is closed with the next one.
func (p *process) said(ok func(string) bool) (line string, found bool, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if ok(line) {
			return line, true, p.news
		}
	}
	return "", false, p.news
}

func (p *process) await(what string, ok func(string) bool) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		line, found, news := p.said(ok)
		if found {
			return line
		}
		select {
		case <-news:
		case <-p.over:
			if line, found, _ := p.said(ok); found {
				return line
			}
			p.t.Fatalf("%s ended without %s", p.name, what)
		case <-late:
			p.t.Fatalf("%s: no %s within %v", p.name, what, patience)
		}
	}
}

// exit waits for its end, and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(patience):
		p.t.Fatalf("%s hasn't ended within %v", p.name, patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// world is a registry, and what observes it.
type world struct {
	t    *testing.T
	grpc string
	reg  *registry.Registry
}

// build builds what is tested, once.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", "../bin/", "../server/cmd/eider", "../server/cmd/eider-run")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building eider and eider-run: %w\n%s", err, out)
	}
	return nil
})

func newWorld(t *testing.T) *world {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	p := start(t, "the registry", exec.Command("../bin/eider", "server", "--fresh", "--json", "--log-level", "warn", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"))
	var ready struct {
		Ready bool
		GRPC  string
	}
	p.await("a line that it is ready", func(line string) bool { return json.Unmarshal([]byte(line), &ready) == nil && ready.Ready })
	w := &world{t: t, grpc: ready.GRPC, reg: registry.Open(registry.Config{Addr: ready.GRPC, Caller: "test", Logger: slog.New(slog.DiscardHandler)})}
	t.Cleanup(func() { w.reg.Close() })
	return w
}

// awaitView waits for a view of the service that is as it should be.
func (w *world) awaitView(what string, ok func(*eider.View) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last error
	for view, err := range w.reg.Watch(ctx, service) {
		if err == nil && ok(view) {
			return
		}
		last = err
	}
	w.t.Fatalf("%s: not within %v: %v", what, patience, cmp.Or(last, ctx.Err()))
}

// instance is a program under `eider run`.
type instance struct {
	*process
	id     string
	report string // a file
}

// run starts a program at a port of its own, and waits until it is listed.
func (w *world) run(id string, argv ...string) *instance {
	w.t.Helper()
	address := freeAddress(w.t)
	_, port, _ := net.SplitHostPort(address)
	report := filepath.Join(w.t.TempDir(), "report.json")
	flags := []string{"--service", service + "=" + address, "--id", id, "--registry", w.grpc, "--ready", "http://" + address + "/ready",
		"--start", patience.String(), "--unknown", "none", "--report", report, "--"}
	cmd := exec.Command("../bin/eider-run", append(flags, argv...)...)
	cmd.Env = append(os.Environ(), "PORT="+port)
	in := &instance{process: start(w.t, argv[0]+" "+id, cmd), id: id, report: report}
	w.awaitView(id+" is listed", func(v *eider.View) bool {
		is, ok := v.Find(id)
		return ok && is.Status == eider.Up && is.Address == address
	})
	return in
}

// freeAddress is of a port that nobody listens on, below those that systems give to connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000))))
		if err == nil {
			ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}
