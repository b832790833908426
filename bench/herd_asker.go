package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const httpVariable = "EIDER_BENCH_HTTP"

// asker is somebody else who asks the node meanwhile, in a process of its own: the herd's is too busy to measure.
type asker struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   bytes.Buffer
}

func startAsker(addr string) (*asker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &asker{cmd: exec.Command(exe)}
	a.cmd.Env = append(os.Environ(), roleVariable+"=asker", httpVariable+"="+addr)
	a.cmd.Stdout, a.cmd.Stderr = &a.out, os.Stderr
	if a.stdin, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return a, a.cmd.Start()
}

// end has it tell what it measured.
func (a *asker) end(f *HerdFigures) error {
	_ = a.stdin.Close()
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("the asker: %w", err)
	}
	return json.Unmarshal(a.out.Bytes(), f)
}

// serveAsker asks every 50 ms until its standard input closes.
func serveAsker() error {
	over := make(chan struct{})
	go func() { waitForEnd(); close(over) }()
	client := &http.Client{Timeout: 10 * time.Second}
	var f struct {
		Slowest       time.Duration
		Asked, Failed int
	}
	for {
		began := time.Now()
		resp, err := client.Get("http://" + os.Getenv(httpVariable) + "/v1/services/orders")
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			err = errors.Join(err, resp.Body.Close())
		}
		if err != nil {
			f.Failed++
		}
		f.Asked, f.Slowest = f.Asked+1, max(f.Slowest, time.Since(began))
		select {
		case <-over:
			return json.NewEncoder(os.Stdout).Encode(f)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// peak returns the most bytes of memory that the process has held.
func (p *process) peak() (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("no VmHWM")
}

// metric reads one of the node's metrics that has no labels.
func (n *node) metric(name string) (float64, error) {
	resp, err := http.Get("http://" + n.http + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if value, ok := strings.CutPrefix(s.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the node has no metric %s", name)
}
