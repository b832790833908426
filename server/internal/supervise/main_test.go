//go:build linux

package supervise_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/launch"
	"github.com/eiderhq/eider/server/internal/node"
	"github.com/eiderhq/eider/server/internal/supervise"
)

// This test binary is also eider-run, and the program that it runs.
const (
	runEnv    = "EIDER_TEST_RUN"           // set: it is eider-run
	filesEnv  = "EIDER_TEST_FILES"         // how many it may have open
	earlyEnv  = "EIDER_TEST_EARLY"         // set: it has been sent SIGTERM by the time that it would start the program
	atOnce    = "GORACE=atexit_sleep_ms=0" // the race detector's exit takes a second otherwise
	asProgram = "as-the-program"           // first argument: it is the program, the second says which
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asProgram {
		os.Exit(play(os.Args[2]))
	}
	if n, _ := strconv.Atoi(os.Getenv(filesEnv)); n > 0 {
		few := syscall.Rlimit{Cur: uint64(n), Max: uint64(n)}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			fmt.Println(err)
			os.Exit(97)
		}
	}
	if os.Getenv(earlyEnv) != "" {
		os.Exit(early())
	}
	if os.Getenv(runEnv) != "" {
		os.Exit(launch.Main("test"))
	}
	goleak.VerifyTestMain(m)
}

const patience = 30 * time.Second // how long a test waits for what must come, on whatever machine

// world is a registry, and who looks at it.
type world struct {
	t    *testing.T
	grpc string
	look *registry.Registry
}

func newWorld(t *testing.T) *world { return newPatientWorld(t, 0) }

// newPatientWorld is one whose drains wait so long for a caller that doesn't let go; 0 means as ever.
func newPatientWorld(t *testing.T, most time.Duration) *world {
	t.Helper()
	w := &world{t: t}
	n, err := node.New(node.Config{Settings: node.Settings{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Fresh: true, Cap: most}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := n.Run(ctx); err != nil {
			t.Errorf("the registry: %v", err)
		}
	}()
	t.Cleanup(func() { stop(); <-over })
	<-n.Ready()
	w.grpc = n.Addrs().GRPC.String()
	w.look = registry.Open(registry.Config{Addr: w.grpc, Caller: "test", Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { w.look.Close() })
	return w
}

// await waits for a view of orders that is as it should be, and returns all that came on the way.
func (w *world) await(service, what string, ok func(eider.View) bool) (seen []eider.View) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for v, err := range w.look.Watch(ctx, service) {
		if err != nil {
			break
		}
		seen = append(seen, *v)
		if ok(*v) {
			return seen
		}
	}
	w.t.Fatalf("%s: not within %v; the views were %+v", what, patience, seen)
	return nil
}

// status of the one instance, gone or not.
func status(v eider.View) (eider.Status, bool) {
	for _, i := range v.Instances {
		return i.Status, true
	}
	for _, g := range v.Gone {
		return g.Status, true
	}
	return 0, false
}

// is waits until the one instance of orders has a status.
func (w *world) is(want eider.Status) (seen []eider.View) {
	w.t.Helper()
	return w.await("orders", want.String(), func(v eider.View) bool {
		s, ok := status(v)
		return ok && s == want
	})
}

// freePort returns a loopback address that is the test's alone: a socket is bound to it that doesn't listen, so that the
// kernel gives the port to nobody else, refuses who connects, and lets a program listen that names it (SO_REUSEADDR, as
// Go's do).
func freePort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(at.(*syscall.SockaddrInet4).Port)).String()
}

// run is one eider-run.
type run struct {
	t    *testing.T
	cmd  *exec.Cmd
	at   string // where the program serves
	in   io.WriteCloser
	mu   sync.Mutex
	said []string
	news chan struct{}
	over chan struct{} // it has ended, and all that it said has been read
}

// change prepares a run in another way than usual.
type change func(*exec.Cmd)

// start starts eider-run with flags and a program, which serves orders at an address of its own.
func (w *world) start(p program, flags ...string) *run {
	w.t.Helper()
	if p.At == "" {
		p.At = freePort(w.t)
	}
	return launchRun(w.t, p, append([]string{"--registry", w.grpc, "--service", "orders=" + p.At, "--report", "-"}, flags...), nil)
}

func launchRun(t *testing.T, p program, flags []string, alter change) *run {
	t.Helper()
	return command(t, p.At, ofProgram(t, p, flags...), alter)
}

// ofProgram is a command line with a program.
func ofProgram(t *testing.T, p program, flags ...string) []string {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return append(flags, "--", os.Args[0], asProgram, string(text))
}

// quietly has all output go elsewhere.
func quietly(to *os.File) change { return func(c *exec.Cmd) { c.Stdout, c.Stderr = to, to } }

// limited leaves so many file descriptors to it.
func limited(files int) change {
	return func(c *exec.Cmd) { c.Env = append(c.Env, fmt.Sprintf("%s=%d", filesEnv, files)) }
}

// buffered is how many bytes wait in a pipe.
func buffered(t *testing.T, pipe *os.File) int {
	t.Helper()
	var n int32
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, pipe.Fd(), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		t.Fatal(errno)
	}
	return int(n)
}

func command(t *testing.T, at string, args []string, alter change) *run {
	t.Helper()
	r := &run{t: t, at: at, cmd: exec.Command(os.Args[0], args...), news: make(chan struct{}), over: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), runEnv+"=1", atOnce)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Stdout, r.cmd.Stderr = to, to
	if alter != nil {
		alter(r.cmd)
	}
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	to.Close()
	go func() {
		defer close(r.over)
		r.read(from)
		r.cmd.Wait()
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill() // the program goes with it
		select {
		case <-r.over:
		case <-time.After(patience):
			t.Error("somebody outlives it, and holds its output open")
		}
		from.Close()
		if t.Failed() {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, line := range r.said[max(0, len(r.said)-40):] {
				t.Logf("%.500s", line)
			}
		}
	})
	return r
}

func (r *run) read(from io.Reader) {
	scan := bufio.NewScanner(from)
	for scan.Buffer(nil, 1<<20); scan.Scan(); {
		r.mu.Lock()
		r.said = append(r.said, scan.Text())
		close(r.news)
		r.news = make(chan struct{})
		r.mu.Unlock()
	}
}

// find returns the first line that holds a text.
func (r *run) find(text string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.said {
		if strings.Contains(line, text) {
			return line, true
		}
	}
	return "", false
}

// place is the number of the first line that holds a text, -1 if none does.
func (r *run) place(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.IndexFunc(r.said, func(line string) bool { return strings.Contains(line, text) })
}

// count is how many lines hold a text.
func (r *run) count(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.said {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// says waits for a line that holds a text.
func (r *run) says(text string) string {
	r.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		r.mu.Lock()
		news := r.news
		r.mu.Unlock()
		if line, ok := r.find(text); ok {
			return line
		}
		select {
		case <-news:
		case <-r.over:
			if line, ok := r.find(text); ok {
				return line
			}
			r.t.Fatalf("it ended without a line with %q", text)
		case <-late.C:
			r.t.Fatalf("no line with %q within %v", text, patience)
		}
	}
}

func (r *run) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code.
func (r *run) exit() int {
	r.t.Helper()
	select {
	case <-r.over:
	case <-time.After(patience):
		r.t.Fatalf("it hasn't ended within %v", patience)
	}
	return r.cmd.ProcessState.ExitCode()
}

// report is what it wrote for --report -.
func (r *run) report() (out supervise.Report) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.says(`{"exit":`)), &out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// pid reads a number that the program said after a word.
func (r *run) pid(word string) (pid int) {
	r.t.Helper()
	if _, err := fmt.Sscanf(r.says(word+" "), word+" %d", &pid); err != nil {
		r.t.Fatal(err)
	}
	return pid
}

// alive tells whether a process runs; one that has ended and isn't reaped doesn't.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
