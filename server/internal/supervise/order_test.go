//go:build linux

package supervise_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// D19: first the registry is told, then the front lets what is in flight through it end, and only then the program is
// told to: until then it and its own calls go on as ever.
func TestD19TheProgramIsTheLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "answer")
	r, at := w.fronted(program{Exit: 3, Slow: file}, "--unknown", "none")
	answered := make(chan error, 1)
	go func() {
		text, err := post(t, at, "/slow")
		if err == nil && text != "slow" {
			err = errors.New("it answers " + text)
		}
		answered <- err
	}()
	r.says("slow begun")
	r.signal(syscall.SIGTERM)
	late := time.After(patience)
	for refused := false; !refused; { // the front takes nobody any more: the pause is over
		nc, err := net.Dial("tcp", at)
		if refused = err != nil; !refused {
			nc.Close()
		}
		select {
		case <-late:
			t.Fatal("the front goes on listening")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("what was in flight through the front: %v", err)
	}
	w.is(eider.Left)
	if code := r.exit(); code != 3 {
		t.Errorf("it exits with %d", code)
	}
	if answer, told := r.place("slow answered"), r.place("heard terminated"); answer < 0 || told < answer {
		t.Errorf("the program was told to end (line %d) before it had answered (line %d)", told, answer)
	}
	http.DefaultClient.CloseIdleConnections()
}
