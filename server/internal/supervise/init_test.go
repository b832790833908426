//go:build linux

package supervise_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/supervise"
)

// early is eider-run that SIGTERM has reached as it began.
func early() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	syscall.Kill(os.Getpid(), syscall.SIGTERM)
	<-ctx.Done()
	text, _ := json.Marshal(program{At: os.Args[2]})
	report, err := supervise.Run(ctx, supervise.Config{Command: []string{os.Args[0], asProgram, string(text)},
		Services: []supervise.Service{{Name: "orders", Address: os.Args[2]}}, Registry: registry.Config{Addr: os.Args[1]}})
	if err != nil {
		fmt.Println(err)
	}
	text, _ = json.Marshal(report)
	fmt.Println(string(text))
	return report.Exit
}

// D14: SIGTERM before the program is started: it never is, and nobody is told that it was there.
func TestD14AStopBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := freePort(t)
	r := command(t, at, []string{w.grpc, at}, func(c *exec.Cmd) { c.Env = append(c.Env, earlyEnv+"=1") })
	if code := r.exit(); code != 143 {
		t.Errorf("it exits with %d, want 143", code)
	}
	if report := r.report(); report.Runs != 0 || len(report.Services) != 0 {
		t.Errorf("the report is %+v", report)
	}
	if r.count("pid ") > 0 {
		t.Error("the program was started")
	}
	w.await("orders", "nobody", func(v eider.View) bool { return len(v.Instances)+len(v.Gone) == 0 })
}

// D11: a signal that comes at any time since the program is there has it leave: here from the program itself, as its
// first deed.
func TestD11HandlersAreThereBeforeTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(program{Hasty: true, Exit: 3})
	r.says("ends")
	if code := r.exit(); code != 3 {
		t.Errorf("it exits with %d, want the program's own 3", code)
	}
	r.report()
}

// D11: a shell that doesn't pass SIGTERM on is named, with what to write; one above that has become this process isn't.
func TestD11AShellAboveIsNamed(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell here")
	}
	for name, c := range map[string]struct {
		script string
		warned int
	}{"waits": {`"$@"; true`, 1}, "exec": {`exec "$@"`, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			at := freePort(t)
			words := ofProgram(t, program{At: at, Exit: 0}, "--registry", w.grpc, "--service", "orders="+at)
			r := command(t, at, nil, func(c2 *exec.Cmd) {
				c2.Path, c2.Args = sh, append([]string{"sh", "-c", c.script, "sh", os.Args[0]}, words...)
				c2.SysProcAttr.Setpgid = true // as a container's first process; a person's shell has it so as well
			})
			w.is(eider.Up)
			if n := r.count("exec eider run"); n != c.warned {
				t.Errorf("the shell was named %d times, want %d", n, c.warned)
			}
			if _, err := post(t, r.at, "/quit"); err == nil {
				t.Error("the program goes on")
			}
			r.exit()
		})
	}
}

// D20: no shell is asked for anything: there is none in PATH, and what would mean something to one reaches the program
// as it is; an exec check is a program too.
func TestD20NoShellIsNeeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, folder := freePort(t), t.TempDir()
	trap := "; touch " + folder + "/touched $(touch " + folder + "/touched) `touch " + folder + "/touched`"
	text, _ := json.Marshal(program{At: at})
	r := command(t, at, []string{"--registry", w.grpc, "--service", "orders=" + at, "--unknown", "none",
		"--check-timeout", "30s", "--ready", "exec:" + os.Args[0] + " " + asProgram + " well", "--", os.Args[0], asProgram, string(text), trap},
		func(c *exec.Cmd) { c.Env = []string{runEnv + "=1", "PATH=", atOnce} })
	r.says("argument " + trap)
	w.is(eider.Up)
	r.signal(syscall.SIGTERM)
	w.is(eider.Left)
	if code := r.exit(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
	if _, err := os.Stat(filepath.Join(folder, "touched")); err == nil {
		t.Error("a shell has read it")
	}
}

// Orphans are reaped while the program runs, as PID 1 and as any other process.
func TestOrphansAreReaped(t *testing.T) {
	for name, flags := range map[string]uintptr{"beside others": 0, "PID 1": syscall.CLONE_NEWPID | syscall.CLONE_NEWNS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if flags != 0 && os.Geteuid() != 0 {
				t.Skip("only root may make namespaces everywhere")
			}
			w := newWorld(t)
			at := freePort(t)
			orphan := &program{Name: "orphan ", Soon: true}
			p := program{At: at, Name: "program ", Child: &program{Soon: true, Child: &program{Soon: true, Child: orphan}}}
			r := command(t, at, ofProgram(t, p, "--registry", w.grpc, "--service", "orders="+at, "--unknown", "none", "--report", "-"),
				func(c *exec.Cmd) { c.SysProcAttr.Cloneflags = flags })
			r.says("orphan pid")
			w.is(eider.Up)
			late := time.After(patience)
			for len(children(r.cmd.Process.Pid)) != 1 {
				select {
				case <-late:
					t.Fatalf("its children are %v, want the program alone", children(r.cmd.Process.Pid))
				case <-time.After(5 * time.Millisecond):
				}
			}
			r.signal(syscall.SIGTERM)
			r.says("program ends")
			if code := r.exit(); code != 0 {
				t.Errorf("it exits with %d", code)
			}
			w.is(eider.Left)
		})
	}
}

// children lists the pids of a process' children, those that have ended and aren't reaped among them.
func children(parent int) (pids []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if _, rest, ok := strings.Cut(string(text), ") "); err == nil && ok && strings.Fields(rest)[1] == strconv.Itoa(parent) {
			pids = append(pids, name)
		}
	}
	return pids
}
