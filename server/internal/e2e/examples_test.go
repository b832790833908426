package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// The examples are programs that a reader copies, so they are run as they stand, as processes: one
// serves, three others find it, and on SIGTERM it leaves with a report.
func TestExamplesRunAsTheyStand(t *testing.T) {
	folder := t.TempDir()
	build := exec.Command("go", "build", "-o", folder+string(filepath.Separator), "github.com/eiderhq/eider/examples/...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr := startNode(t, node.Settings{}).grpc
	run := func(name string, args ...string) (*exec.Cmd, *said) {
		cmd, text := exec.Command(filepath.Join(folder, name), args...), &said{}
		cmd.Env = append(os.Environ(), "EIDER_ADDR="+addr)
		cmd.Stdout, cmd.Stderr = text, text
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd, text
	}
	serve, served := run("serve", "-addr", "127.0.0.1:0")
	tills, left := run("grpcserve", "-addr", "127.0.0.1:0")
	waitListed(t, addr, "orders")
	waitListed(t, addr, "tills")
	for name, want := range map[string]string{"call": "200 OK paid", "pick": "connected to orders/", "grpccall": "tills: SERVING"} {
		cmd, text := run(name)
		if err := cmd.Wait(); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%s: %v, it said %q, want %q", name, err, text, want)
		}
	}
	watch, watched := run("watch")
	watched.await(t, "UP")
	if err := watch.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(); err != nil {
		t.Errorf("watch: %v", err)
	}
	for name, p := range map[string]struct {
		*exec.Cmd
		*said
	}{"serve": {serve, served}, "grpcserve": {tills, left}} {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil || !strings.Contains(p.said.String(), "ended by: barrier") {
			t.Errorf("%s: %v, it said %q", name, err, p.said)
		}
	}
}

// The example of event streams ends its streams with a word, once nobody is sent to it any more (D9).
func TestExampleEndsItsStreams(t *testing.T) {
	program := filepath.Join(t.TempDir(), "stream")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/eiderhq/eider/examples/stream").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr := startNode(t, node.Settings{}).grpc
	cmd, text := exec.Command(program, "-addr", "127.0.0.1:0"), &said{}
	cmd.Env = append(os.Environ(), "EIDER_ADDR="+addr)
	cmd.Stdout, cmd.Stderr = text, text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+waitListed(t, addr, "ticks").Address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Eider-Caller", "test@1") // else it is an unknown caller, and waited for by the clock
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasPrefix(string(body), "data: ") || !strings.Contains(string(body), "event: bye\n") {
		t.Errorf("the stream says %q, %v", body, err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(text.String(), "ended by: barrier") || strings.Contains(text.String(), "cut") {
		t.Errorf("%v, it said %q", err, text)
	}
}

func waitListed(t *testing.T, addr, service string) eider.Instance {
	t.Helper()
	reg := registry.Open(registry.Config{Addr: addr})
	defer reg.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for view, err := range reg.Watch(ctx, service) {
		if err == nil && len(view.Instances) == 1 && view.Instances[0].Status == eider.Up {
			return view.Instances[0]
		}
	}
	t.Fatal("the example isn't listed after 10 s")
	return eider.Instance{}
}

// said is what a process has said so far.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		if strings.Contains(s.text.String(), want) {
			s.mu.Unlock()
			return
		}
		if s.more == nil {
			s.more = make(chan struct{})
		}
		more := s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("it didn't say %q, but %q", want, s)
		}
	}
}
