package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// roleVariable names the server that a child of this binary plays: see [Role].
const roleVariable = "EIDER_BENCH_ROLE"

// Role plays a server if this process is such a child, and then doesn't return. Call it first in main and TestMain.
func Role() {
	var err error
	switch os.Getenv(roleVariable) {
	case "":
		return
	case "raw":
		err = serveRaw()
	case "etcd":
		err = serveEtcd()
	case "instance":
		err = serveInstance()
	case "grpc":
		err = serveGRPC()
	case "asker":
		err = serveAsker()
	default:
		err = fmt.Errorf("nobody plays %q", os.Getenv(roleVariable))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is a server that runs beside the measurement.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string // what its ready line named
	done  chan struct{}
}

// start runs a command until its output has a line with the words; the rest of that line is its address.
func start(cmd *exec.Cmd, ready string) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	found := make(chan string, 1)
	go func() {
		defer close(p.done)
		var last string
		for s := bufio.NewScanner(out); s.Scan(); {
			last = s.Text()
			if _, rest, ok := strings.Cut(last, ready); ok {
				rest = strings.TrimSuffix(rest, `"`)
				select {
				case found <- rest:
				default:
				}
			}
		}
		_ = cmd.Wait()
		close(found)
	}()
	select {
	case addr, ok := <-found:
		if !ok {
			return nil, fmt.Errorf("%s ended before it was ready", cmd)
		}
		p.addr = addr
		return p, nil
	case <-time.After(30 * time.Second):
		p.stop()
		return nil, fmt.Errorf("%s isn't ready after 30 s", cmd)
	}
}

// self starts this binary as a server, with settings as NAME=VALUE.
func self(role string, settings ...string) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), settings...)
	return start(cmd, "ready ")
}

func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// resident returns the bytes of memory that the process holds.
func (p *process) resident() (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// node is the built eider binary as a registry.
type node struct {
	*process
	grpc, http string
}

// startNode starts it with its defaults but for the flags; flags that come later win.
func startNode(flags ...string) (*node, error) {
	binary, err := build("eider")
	if err != nil {
		return nil, err
	}
	return startBuilt(binary, flags...)
}

func startBuilt(binary string, flags ...string) (*node, error) {
	p, err := start(exec.Command(binary, append([]string{"server", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, flags...)...), "eider: ready, ")
	if err != nil {
		return nil, err
	}
	n := &node{process: p}
	if _, err := fmt.Sscanf(p.addr, "grpc %s http %s", &n.grpc, &n.http); err != nil {
		p.stop()
		return nil, fmt.Errorf("the node's ready line %q: %w", p.addr, err)
	}
	return n, nil
}

// build builds a binary of the product as `make build` does the small ones; the go command does it once and then knows.
func build(name string) (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "bin", name+"-bench")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./server/cmd/"+name)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return binary, nil
}

// root is the repository's top folder.
func root() (string, error) {
	top, err := exec.Command("go", "env", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOWORK: %w; run this in the repository", err)
	}
	return filepath.Dir(strings.TrimSpace(string(top))), nil
}

// waitForEnd blocks until the parent closes standard input.
func waitForEnd() { _, _ = io.Copy(io.Discard, os.Stdin) }
