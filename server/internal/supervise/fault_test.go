//go:build linux

package supervise_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
)

// A program that ends by itself has left, or is dead at once, as its exit code says; this process' exit code is the
// same.
func TestAProgramThatEndsByItself(t *testing.T) {
	for name, c := range map[string]struct {
		exit int
		want eider.Status
	}{
		"planned": {0, eider.Left},
		"crashed": {5, eider.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.start(program{Exit: c.exit})
			w.is(eider.Up)
			begun := time.Now()
			if _, err := post(t, r.at, "/quit"); err == nil {
				t.Error("it goes on")
			}
			w.is(c.want)
			if lease := 20 * time.Second; c.want == eider.Dead && time.Since(begun) > lease/2 {
				t.Errorf("it was found dead after %v", time.Since(begun))
			}
			if code := r.exit(); code != c.exit {
				t.Errorf("it exits with %d, want %d", code, c.exit)
			}
			if r.count("heard terminated") > 0 {
				t.Error("a program that had ended was told to")
			}
		})
	}
}

// A program that ends before it is ready was never picked by anybody: its exit code is passed on.
func TestAProgramThatEndsBeforeItIsReady(t *testing.T) {
	for name, p := range map[string]program{"at once, planned": {Soon: true}, "at once": {Soon: true, Exit: 9}, "later": {Mute: true, Exit: 9}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.start(p)
			if !p.Soon {
				w.is(eider.Starting)
				r.says("begun")
				r.signal(syscall.SIGQUIT)
			}
			if code := r.exit(); code != p.Exit {
				t.Errorf("it exits with %d, want %d", code, p.Exit)
			}
		})
	}
}

// A program that ends in the pause serves nobody any more: the pause is over.
func TestAProgramThatEndsInThePause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(program{Exit: 4}, "--unknown", "1h", "--grace", "2h")
	w.is(eider.Up)
	r.signal(syscall.SIGTERM)
	w.is(eider.Draining)
	r.signal(syscall.SIGQUIT)
	w.is(eider.Left)
	if code := r.exit(); code != 4 {
		t.Errorf("it exits with %d", code)
	}
	if report := r.report(); len(report.Services) != 1 || report.Services[0].EndedBy != drain.ByServer {
		t.Errorf("the report is %+v", report)
	}
}

// U3: the lease is renewed by this process, and says nothing of one whose requests hang. It is DOWN until it answers.
func TestAProgramThatHangsWhileItsLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := freePort(t)
	r := w.start(program{At: at}, "--ready", "http://"+at+"/", "--check-every", "100ms")
	w.is(eider.Up)
	r.signal(syscall.SIGUSR1)
	w.is(eider.Down)
	r.signal(syscall.SIGUSR1)
	w.is(eider.Up)
}

// A program that is stopped hangs in the same way; told to end, it is woken to heed it.
func TestAProgramThatIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := freePort(t)
	r := w.start(program{At: at, Exit: 6}, "--ready", "http://"+at+"/", "--check-every", "100ms", "--unknown", "none")
	w.is(eider.Up)
	if err := syscall.Kill(r.pid("pid"), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.is(eider.Down)
	r.signal(syscall.SIGTERM)
	r.says("ends")
	if code := r.exit(); code != 6 {
		t.Errorf("it exits with %d", code)
	}
}

// Stopped itself, eider-run has the program serve on, and leaves as ever once it goes on; a SIGTERM meanwhile waits.
func TestTheSupervisorIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(program{}, "--unknown", "none")
	w.is(eider.Up)
	r.signal(syscall.SIGSTOP)
	if _, err := post(t, r.at, "/"); err != nil {
		t.Errorf("the program doesn't serve: %v", err)
	}
	r.signal(syscall.SIGTERM)
	r.signal(syscall.SIGCONT)
	w.is(eider.Left)
	if code := r.exit(); code != 0 || r.count("heard terminated") != 1 {
		t.Errorf("it exits with %d; the program was told %d times", code, r.count("heard terminated"))
	}
}

// A program that floods its output, which nobody reads, hangs by that; its departure doesn't.
func TestAProgramThatFloodsItsOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := freePort(t)
	full, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	defer unread.Close()
	p := program{At: at, Flood: 8 << 20, Bare: true}
	r := command(t, at, ofProgram(t, p, "--registry", w.grpc, "--service", "orders="+at, "--unknown", "none"), quietly(unread))
	w.is(eider.Starting)
	for buffered(t, full) < 32<<10 { // it may be full by then: no page of it holds but whole lines
		<-time.After(time.Millisecond)
	}
	r.signal(syscall.SIGTERM)
	w.is(eider.Left)
	if code := r.exit(); code != 143 {
		t.Errorf("it exits with %d", code)
	}
}

// What the program writes goes where this process' output goes, all of it.
func TestTheProgramsOutputIsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(program{Flood: 2 << 20}, "--unknown", "none")
	r.says("flooded")
	if n := r.count(strings.Repeat("x", 1023)); n != 2<<10 {
		t.Errorf("%d lines of %d came", n, 2<<10)
	}
	w.is(eider.Up)
	r.signal(syscall.SIGTERM)
	r.exit()
}

// Its port is taken: that is said before, and the program's end is this process'.
func TestThePortIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r := w.start(program{At: ln.Addr().String()})
	r.says("somebody else serves there already")
	r.says("can't serve")
	if code := r.exit(); code != 98 {
		t.Errorf("it exits with %d", code)
	}
}

// The registry is away for the whole life: the program runs, and leaves at once since nobody can have been told of it.
func TestTheRegistryIsAwayForTheWholeLife(t *testing.T) {
	t.Parallel()
	at := freePort(t)
	r := launchRun(t, program{At: at, Exit: 2}, []string{"--registry", freePort(t), "--service", "orders=" + at, "--report", "-"}, nil)
	r.says("begun")
	r.says("says of itself that it is UP")
	r.signal(syscall.SIGTERM)
	r.says("ends")
	if code := r.exit(); code != 2 {
		t.Errorf("it exits with %d", code)
	}
	if report := r.report(); len(report.Services) != 1 || report.Services[0].EndedBy != drain.NeverListed || report.Services[0].Open != 0 {
		t.Errorf("the report is %+v", report)
	}
	for _, noise := range []string{"their next call may fail", "why="} {
		if r.count(noise) > 0 {
			t.Errorf("its log says %q of an end that went as planned", noise)
		}
	}
}

// A disk that can't be written costs what is written there, and nothing else.
func TestADiskThatCantBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := freePort(t)
	r := launchRun(t, program{At: at}, []string{"--registry", w.grpc, "--service", "orders=" + at, "--unknown", "none",
		"--report", "/proc/no/report", "--leave-file", "/proc/no/leaving"}, nil)
	w.is(eider.Up)
	r.signal(syscall.SIGTERM)
	r.says("the program isn't told of its leave")
	r.says("the report can't be written")
	w.is(eider.Left)
	if code := r.exit(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
}

// Few file descriptors are enough to live and to leave.
func TestFewFileDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := freePort(t)
	r := command(t, at, ofProgram(t, program{At: at, Name: "program "}, "--registry", w.grpc, "--service", "orders="+at, "--unknown", "none"), limited(16))
	w.is(eider.Up)
	r.signal(syscall.SIGTERM)
	r.says("program ends")
	w.is(eider.Left)
	if code := r.exit(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
}

// A second SIGINT ends it now; SIGTERMs change nothing (D13).
func TestASecondInterruptEndsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(program{Deaf: true}, "--unknown", "1h", "--grace", "2h", "--in-flight", "1h")
	w.is(eider.Up)
	r.signal(syscall.SIGINT)
	w.is(eider.Draining)
	r.signal(syscall.SIGTERM)
	r.signal(syscall.SIGTERM)
	if _, err := post(t, r.at, "/"); err != nil {
		t.Errorf("SIGTERM after SIGINT ended the pause: %v", err)
	}
	r.signal(syscall.SIGINT)
	if code := r.exit(); code != 130 {
		t.Errorf("it exits with %d, want 130", code)
	}
	if alive(r.pid("pid")) {
		t.Error("the program outlives it")
	}
}

// Other signals are the program's, each once; further services, metadata and ports are listed.
func TestOtherSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(program{}, "--unknown", "none", "--service", "admin="+freePort(t))
	r.says("begun")
	w.is(eider.Up)
	r.signal(syscall.SIGHUP)
	r.says("heard hangup")
	r.signal(syscall.SIGWINCH)
	r.says("heard window")
	r.signal(syscall.SIGTERM)
	r.says("ends")
	r.exit()
	for _, text := range []string{"heard hangup", "heard window", "heard terminated"} {
		if n := r.count(text); n != 1 {
			t.Errorf("the program %s %d times", text, n)
		}
	}
}

// The program is told of its leave before the pause, in the ways that it wants.
func TestTheProgramIsToldOfTheLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := freePort(t)
	file := filepath.Join(t.TempDir(), "leaving")
	if err := os.WriteFile(file, nil, 0o600); err != nil { // of an earlier run
		t.Fatal(err)
	}
	r := w.start(program{At: at}, "--unknown", "1h", "--grace", "2h", "--on-leave-url", "http://"+at+"/leaving", "--leave-file", file)
	r.says("finds " + file)
	w.is(eider.Up)
	if _, err := os.Stat(file); err == nil {
		t.Error("the file of an earlier run is still there")
	}
	r.signal(syscall.SIGTERM)
	r.says("POST /leaving")
	w.is(eider.Draining)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the pause has begun, and %v", err)
	}
	if r.count("POST /leaving") != 1 || r.count("heard terminated") != 0 {
		t.Errorf("told %d times, signalled %d times", r.count("POST /leaving"), r.count("heard terminated"))
	}
}

// A log whose reader has gone ends nothing: the program serves, and leaves as ever. A broken pipe is still the program's
// own end, as without this process.
func TestALogWhoseReaderHasGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from.Close()
	defer to.Close()
	at := freePort(t)
	r := launchRun(t, program{At: at, Exit: 3}, []string{"--registry", w.grpc, "--service", "orders=" + at, "--unknown", "none"},
		func(c *exec.Cmd) { c.Stderr = to })
	w.is(eider.Up)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid("pid")))
	if err != nil {
		t.Fatal(err)
	}
	var ignored uint64
	_, rest, _ := strings.Cut(string(text), "SigIgn:")
	if _, err := fmt.Sscanf(rest, "%x", &ignored); err != nil {
		t.Fatal(err)
	}
	if ignored&(1<<(syscall.SIGPIPE-1)) != 0 {
		t.Error("the program is started with SIGPIPE ignored")
	}
	r.signal(syscall.SIGTERM)
	w.is(eider.Left)
	if code := r.exit(); code != 3 {
		t.Errorf("it exits with %d, want the program's own 3", code)
	}
}

// A check that is sent elsewhere, is never answered, or by something that is no HTTP, is answered by nobody: the program
// isn't picked, and why is said.
func TestAnAnswerThatIsNoneLeavesItUnlisted(t *testing.T) {
	for path, why := range map[string]string{"/elsewhere": "/login", "/never": "isn't answered within", "/garbage": "malformed"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			at := freePort(t)
			r := w.start(program{At: at, Exit: 7}, "--ready", "http://"+at+path, "--start", "5s", "--unknown", "none") // long enough to begin to serve in
			if line := r.says("isn't ready in the time"); !strings.Contains(line, why) || strings.Contains(line, "\x1b") {
				t.Errorf("it says %q, want why: %s", line, why)
			}
			w.is(eider.Starting)
			r.signal(syscall.SIGTERM)
			if code := r.exit(); code != 7 {
				t.Errorf("it exits with %d", code)
			}
			if report := r.report(); len(report.Services) != 1 || report.Services[0].EndedBy != drain.ByNoCallers {
				t.Errorf("somebody picked it: %+v", report)
			}
		})
	}
}
