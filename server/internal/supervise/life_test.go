//go:build linux

package supervise_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
)

// post asks the program for something, and tells what it answered.
func post(t *testing.T, at, path string) (string, error) {
	t.Helper()
	answer, err := http.Post("http://"+at+path, "text/plain", strings.NewReader("x"))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	http.DefaultClient.CloseIdleConnections()
	return string(text), err
}

// S1 to S5: listed once it is ready; on SIGTERM it leaves while it serves, the program hears of it when the pause is
// over, finishes, and only then it is LEFT; the exit code is the program's.
func TestS1TheWholeLife(t *testing.T) {
	t.Parallel()
	w := newPatientWorld(t, time.Hour)
	r := w.start(program{Exit: 7, Late: true}, "--unknown", "1s", "--in-flight", "1h", "--grace", "3h")
	r.says("begun")
	w.is(eider.Starting)
	r.signal(syscall.SIGUSR2) // passed on: it begins to serve
	w.is(eider.Up)
	release := w.pick()
	r.signal(syscall.SIGTERM)
	w.is(eider.Draining)
	if _, err := post(t, r.at, "/"); err != nil {
		t.Errorf("in the pause it doesn't serve: %v", err)
	}
	if _, early := r.find("heard terminated"); early {
		t.Error("the program was told before its callers had let go")
	}
	release()
	r.says("ends")
	w.is(eider.Left)
	if code := r.exit(); code != 7 {
		t.Errorf("it exits with %d, want the program's own 7", code)
	}
	if n := r.count("heard terminated"); n != 1 {
		t.Errorf("the program was told %d times", n)
	}
	report := r.report()
	if report.Exit != 7 || report.Runs != 1 || report.Left != 0 || len(report.Services) != 1 {
		t.Fatalf("the report is %+v", report)
	}
	if s := report.Services[0]; s.EndedBy != drain.ByBarrier || !s.Left || s.Pause.Seconds() < 1 {
		t.Errorf("the service's report is %+v", s)
	}
}

// D12: who the program has started is told and waited for, in its process group or beyond, and nobody is killed who
// ends in time.
func TestD12SlowChildrenAreWaitedFor(t *testing.T) {
	for name, apart := range map[string]bool{"in the group": false, "in a session of its own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			file := filepath.Join(t.TempDir(), "end")
			r := w.start(program{Child: &program{Name: "child ", Linger: file, Apart: apart}}, "--unknown", "none")
			r.says("child begun")
			w.is(eider.Up)
			r.signal(syscall.SIGTERM)
			r.says("child heard terminated")
			r.says("are waited for")
			if _, over := r.find(`{"exit":`); over {
				t.Error("it is over, and a child of the program isn't")
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r.says("child ends")
			if code := r.exit(); code != 0 {
				t.Errorf("it exits with %d", code)
			}
			if n := r.count("child heard terminated"); n != 1 {
				t.Errorf("the child was told %d times", n)
			}
			if report := r.report(); report.Left != 0 {
				t.Errorf("the report is %+v", report)
			}
		})
	}
}

// S4: who doesn't end by the deadline is killed, the program or who it has left behind.
func TestS4WhoDoesntEndIsKilled(t *testing.T) {
	for name, c := range map[string]struct {
		program program
		exit    int
	}{
		"the program":          {program{Deaf: true}, 124},
		"its child":            {program{Exit: 3, Child: &program{Name: "child ", Deaf: true}}, 3},
		"a child apart":        {program{Exit: 3, Child: &program{Name: "child ", Deaf: true, Apart: true}}, 3},
		"program and grandson": {program{Deaf: true, Child: &program{Name: "child ", Child: &program{Name: "grandson ", Deaf: true, Apart: true}}}, 124},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.start(c.program, "--unknown", "none", "--in-flight", "500ms")
			pids := []int{r.pid("pid")}
			for p, name := c.program.Child, ""; p != nil; p = p.Child {
				name = p.Name
				pids = append(pids, r.pid(name+"pid"))
				r.says(name + "begun")
			}
			w.is(eider.Up)
			r.signal(syscall.SIGTERM)
			if code := r.exit(); code != c.exit {
				t.Errorf("it exits with %d, want %d", code, c.exit)
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d outlives it", pid)
				}
			}
			w.is(eider.Left)
		})
	}
}
