package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/internal/control"
)

const patience = 30 * time.Second

// listening is a process that hears hooks.
type listening struct {
	begun chan struct{}
	left  chan struct{}
	now   control.Answer
}

func (l *listening) Leave() {
	select {
	case <-l.begun:
	default:
		close(l.begun)
	}
}
func (l *listening) Left() <-chan struct{}   { return l.left }
func (l *listening) Outcome() control.Answer { return l.now }

func named() string { return fmt.Sprintf("eider-test-%016x", rand.Uint64()) }

// listen has a process hear hooks, whose pause is over if it says so.
func listen(t *testing.T, now control.Answer) (name string, l *listening) {
	t.Helper()
	name, l = named(), &listening{begun: make(chan struct{}), left: make(chan struct{}), now: now}
	if now.State == control.Left {
		close(l.left)
	}
	s, err := control.Listen(name, "", l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.Run(context.Background()) }()
	t.Cleanup(func() { s.Close(); <-done })
	return name, l
}

// leave runs the small binary's command in this process.
func leave(t *testing.T, ctx context.Context, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e strings.Builder
	code = small(ctx, "test", append([]string{"leave"}, args...), &o, &e)
	return code, o.String(), e.String()
}

func TestLeaveSaysOneLineAndACode(t *testing.T) {
	t.Setenv("EIDER_CONTROL", "")
	t.Setenv("EIDER_GRACE", "")
	left := control.Answer{State: control.Left, Services: []string{"orders"}, Pause: 40 * time.Millisecond, EndedBy: "barrier", Waited: 3}
	short := left
	short.Pause, short.EndedBy, short.Open = 8*time.Second, "grace", 1
	nobody := control.Answer{State: control.Left, Services: []string{"a", "b"}, EndedBy: "never up"}
	for _, c := range []struct {
		name         string
		now          control.Answer
		args         []string
		code         int
		out, problem string
	}{
		{"left", left, []string{"--wait"}, 0, "orders: left after 40ms, nobody of 3 callers is waited for any more (barrier)", ""},
		{"callers were left", short, []string{"--wait"}, 1, "orders: the pause of 8s (ended by: grace) was too short for 1 of 3 callers: its log names them; a longer terminationGracePeriodSeconds gives them time", ""},
		{"nobody called", nobody, []string{"--wait"}, 0, "a, b: left after 0s, nobody had to be waited for (never up)", ""},
		{"between two runs", control.Answer{State: control.Left}, []string{"--wait"}, 0, "the program: left after 0s, nobody had to be waited for (it wasn't running)", ""},
		{"not waited for", control.Answer{State: control.Leaving, Services: []string{"orders"}}, nil, 0, "orders: leaving", ""},
		{"no name for a service", control.Answer{State: control.Leaving}, nil, 0, "the program: leaving", ""},
		{"no answer in time", control.Answer{State: control.Leaving}, []string{"--wait", "--timeout", "50ms"}, 1, "", "no answer within 50ms: the program hangs, or its grace is longer than --timeout"},
		{"--timeout below 0", left, []string{"--timeout", "-1s"}, 2, "", "--timeout -1s is no time above 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, _ := listen(t, c.now)
			code, out, problem := leave(t, t.Context(), append([]string{"--control", name}, c.args...)...)
			first, _, _ := strings.Cut(problem, "\n")
			if code != c.code || strings.TrimSuffix(out, "\n") != c.out || strings.TrimPrefix(first, "eider-run: ") != c.problem {
				t.Errorf("%d, want %d\n%s%s", code, c.code, out, problem)
			}
		})
	}
}

func TestLeaveSaysWhatToDo(t *testing.T) {
	t.Setenv("EIDER_CONTROL", "")
	t.Setenv("EIDER_GRACE", "")
	if code, _, problem := leave(t, t.Context()); code != 2 || !strings.Contains(problem, "Set EIDER_CONTROL") {
		t.Errorf("without a name: %d\n%s", code, problem)
	}
	name := named()
	t.Setenv("EIDER_CONTROL", name)
	if code, out, problem := leave(t, t.Context(), "--wait"); code != 3 || out != "" || !strings.Contains(problem, "nobody listens at @"+name) || strings.Count(problem, "\n") != 1 {
		t.Errorf("nobody: %d\n%s", code, problem)
	}
	if code, _, problem := leave(t, t.Context(), "--control", "a b"); code != 1 || !strings.Contains(problem, "is no name for a socket") {
		t.Errorf("no name: %d\n%s", code, problem)
	}
	t.Setenv("EIDER_GRACE", "soon")
	if code, _, problem := leave(t, t.Context()); code != 2 || !strings.Contains(problem, "as in 45s") {
		t.Errorf("no grace: %d\n%s", code, problem)
	}
	t.Setenv("EIDER_GRACE", "60ms")
	name, _ = listen(t, control.Answer{State: control.Leaving})
	if code, _, problem := leave(t, t.Context(), "--control", name, "--wait"); code != 1 || !strings.Contains(problem, "no answer within 60ms") {
		t.Errorf("the grace is over: %d\n%s", code, problem)
	}
	t.Setenv("EIDER_GRACE", "1h")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if code, _, problem := leave(t, ctx, "--control", name, "--wait"); code != 1 || !strings.Contains(problem, "the program goes on leaving") {
		t.Errorf("stopped: %d\n%s", code, problem)
	}
	if code, out, _ := leave(t, t.Context(), "--control", "@"+name, "-o", "json"); code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, `"state":"leaving"`) {
		t.Errorf("as JSON: %d\n%s", code, out)
	}
	if code, _, problem := leave(t, t.Context(), "--control", name, "-o", "yaml"); code != 2 || !strings.Contains(problem, "neither table nor json") {
		t.Errorf("as YAML: %d\n%s", code, problem)
	}
}

// within is a command that has a folder for its root.
func within(root, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Geteuid() != 0 { // who may change his root
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// A hook's image holds nothing but the static binary: no shell, no libc, no folder. Its program is asked all the same,
// serves while the hook waits, and has the time until the hook is back (D20).
func TestD20LeaveInARootThatHoldsOnlyTheBinary(t *testing.T) {
	root := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(root, "eider-run"), "../../cmd/eider-run")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	name, ended := named(), make(chan error, 1)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	leaving := make(chan struct{})
	go func() {
		_, err := drain.Serve(ctx, srv, drain.Config{Service: "orders", Listener: ln, Pause: 2 * time.Second, Control: name,
			Logger: slog.New(tells{slog.DiscardHandler, leaving})})
		ended <- err
	}()
	url := "http://" + ln.Addr().String()
	get := func() error {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	cmd := within(root, "/eider-run", "leave", "--wait")
	cmd.Env = []string{"EIDER_CONTROL=" + name}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("the binary can't be run alone: %v", err)
	}
	back := make(chan error, 1)
	go func() { back <- cmd.Wait() }()
	select {
	case <-leaving:
	case err := <-back:
		t.Fatalf("the hook is back before the leave: %v\n%s", err, said.String())
	case <-time.After(patience):
		t.Fatal("the hook has nobody leave")
	}
	if err := get(); err != nil && len(back) == 0 { // else this machine took longer than the pause to get here
		t.Errorf("during the pause: %v", err)
	}
	if err := <-back; err != nil || !strings.HasPrefix(said.String(), "orders: left after ") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("%v\n%s", err, said.String())
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// tells closes a channel at the leave, as the log has it.
type tells struct {
	slog.Handler
	leaving chan struct{}
}

func (l tells) Enabled(context.Context, slog.Level) bool { return true }

func (l tells) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "leaving" {
		close(l.leaving)
	}
	return nil
}
