package lab_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider/server/internal/lab"
)

// Twenty restarts of a program that knows nothing of Eider, each as PID 1's child in a root that holds nothing else, and
// twenty behind the proxy: Eider's callers lose nothing, those that know nothing lose nothing behind the proxy, and
// without it no more than beside a sleep of 5 s.
func TestSceneAnyProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a hundred processes")
	}
	root := newRoot(t)
	binary := filepath.Join(t.TempDir(), "eider")
	build(t, "../../cmd/eider", binary) // a hundred processes with the race detector are more than two cores bear
	var out, errs bytes.Buffer
	err := lab.Run(t.Context(), lab.Options{Scenes: []string{"anyprogram"}, Binary: binary, Run: root.run, JSON: true, Out: &out, Err: &errs})
	t.Logf("%s%s", out.Bytes(), errs.Bytes())
	if err != nil {
		t.Error(err)
	}
	var got lab.Result
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	r := got.AnyProgram
	if r == nil {
		t.Fatal("no anyprogram")
	}
	if r.Run.Restarts < 20 || r.Front.Restarts < 20 || r.Sleep.Restarts < 20 || r.Run.Requests < 2000 || r.Run.Strange.Requests < 2000 {
		t.Errorf("it shows little: %+v", r)
	}
}

// What the scene runs in is what it says: PID 1, a static binary and a static program, and nothing that can be written to.
func TestS12ARootHoldsNothingElse(t *testing.T) {
	root := newRoot(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	nobody := "127.0.0.1:1" // no registry ever answers there
	cmd := root.run([]string{"--service", "orders=" + address, "--registry", nobody, "--grace", "3s", "--in-flight", "1s", "--ready", "http://" + address + "/ready"}, address, 0)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	world := askWorld(t, address)
	if want := "parent 1\n/eider-run false\n/program false\nopen /new: read-only file system\n"; world != want {
		t.Errorf("the program sees %q, want %q", world, want)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("%v, want the program's own code, 7:\n%s", err, said.String())
	}
}

// askWorld asks the program what it sees, once it answers.
func askWorld(t *testing.T, address string) string {
	t.Helper()
	for begun := time.Now(); ; <-time.After(10 * time.Millisecond) {
		resp, err := http.Get("http://" + address + "/world")
		if err == nil {
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return strings.ReplaceAll(string(text), "\r", "")
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatal(err)
		}
	}
}
