//go:build linux

package supervise_test

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
)

// fronted starts a program behind a front, and returns where that listens.
func (w *world) fronted(p program, flags ...string) (*run, string) {
	w.t.Helper()
	at := freePort(w.t)
	r := w.start(p, append([]string{"--front", at}, flags...)...)
	seen := w.is(eider.Up)
	if in := seen[len(seen)-1].Instances[0]; in.Address != at {
		w.t.Errorf("callers are sent to %s, want the front, %s", in.Address, at)
	}
	return r, at
}

// The front says for the program that it leaves, is waited for by those who are counted, and the program hears of its end
// when nobody calls any more.
func TestAFrontTellsForTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, at := w.fronted(program{Exit: 3}, "--unknown", "5s")
	ask := func() *http.Response {
		t.Helper()
		resp, err := http.Get("http://" + at + "/") // a POST may be answered before its body is read, which ends the connection
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(string(text), "pid ") || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s, %v", resp.StatusCode, text, err)
		}
		return resp
	}
	if resp := ask(); resp.Close || resp.Header.Get("Eider-Leaving") != "" {
		t.Errorf("before the leave it says %v", resp.Header)
	}
	r.signal(syscall.SIGTERM)
	w.is(eider.Draining)
	if resp := ask(); !resp.Close || resp.Header.Get("Eider-Leaving") == "" {
		t.Errorf("in the pause it says %v", resp.Header)
	}
	if _, early := r.find("heard terminated"); early {
		t.Error("the program was told before its callers had let go")
	}
	w.is(eider.Left)
	if code := r.exit(); code != 3 || r.count("heard terminated") != 1 {
		t.Errorf("it exits with %d, told %d times", code, r.count("heard terminated"))
	}
	report := r.report()
	if len(report.Services) != 1 || report.Services[0].ServedAfterLeave != 1 || report.Services[0].EndedBy != drain.ByBarrier || !report.Services[0].Left {
		t.Errorf("%+v", report)
	}
}

// Without unknown callers nobody is waited for blindly: that is what it counts for.
func TestAFrontWaitsForNobodyInVain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, _ := w.fronted(program{})
	r.signal(syscall.SIGTERM)
	w.is(eider.Left)
	r.exit()
	if s := r.report().Services[0]; s.EndedBy != drain.ByBarrier || s.Pause.Seconds() >= 8 {
		t.Errorf("%+v", s)
	}
}

func TestAProgramThatCrashesBehindItsFront(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, at := w.fronted(program{Exit: 4})
	_, _ = post(t, at, "/quit") // a 502, or the end of the connection, whoever hears of it first
	w.is(eider.Dead)
	if code := r.exit(); code != 4 {
		t.Errorf("it exits with %d", code)
	}
}

func TestAFrontsPortIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(program{}, "--front", w.grpc)
	if code := r.exit(); code != 125 {
		t.Errorf("it exits with %d, want 125", code)
	}
	r.says("address already in use")
}

func TestAFrontWhereItCantBe(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"nowhere": "write [HOST]:PORT", ":70000": "write [HOST]:PORT", "other=:1": "there is no --service other", ":8080": "where the program does"} {
		r := command(t, "", []string{"--service", "orders=:8080", "--front", flag, "--", "/bin/true"}, nil)
		if code := r.exit(); code != 2 {
			t.Errorf("%s: it exits with %d", flag, code)
		}
		r.says(want)
	}
}
