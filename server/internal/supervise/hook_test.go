//go:build linux

package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/control"
)

// A hook has it leave, and hears of it when the pause is over: two at once, and again after its end. SIGTERM that comes
// then, as kubelet sends it, changes nothing.
func TestHooksHaveItLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := fmt.Sprintf("eider-test-%d-hooks", os.Getpid())
	port := freePort(t)
	file := t.TempDir() + "/end"
	r := w.start(program{Linger: file, Exit: 3}, "--unknown", "1s", "--control", name, "--hook", port)
	w.is(eider.Up)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			a, err := control.Leave(ctx, name, true)
			if err != nil || a.State != control.Left || a.Pause < time.Second || a.Open != 0 || len(a.Services) != 1 {
				t.Errorf("the socket answers %+v, %v", a, err)
			}
		})
		asking.Go(func() {
			answer, err := http.Get("http://" + port + "/leave")
			if err != nil {
				t.Errorf("the port: %v", err)
				return
			}
			defer answer.Body.Close()
			if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
				t.Errorf("the port answers %d %s", answer.StatusCode, text)
			}
		})
	}
	asking.Wait()
	r.says("heard terminated")
	if a, err := control.Leave(ctx, name, true); err != nil || a.State != control.Left {
		t.Errorf("asked again, the socket answers %+v, %v", a, err)
	}
	r.signal(syscall.SIGTERM)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := r.exit(); code != 3 || r.count("heard terminated") != 1 {
		t.Errorf("it exits with %d, and the program was told %d times", code, r.count("heard terminated"))
	}
	if _, err := control.Leave(ctx, name, true); !errors.Is(err, control.ErrNobody) {
		t.Errorf("after its end the hook says %v", err)
	}
}
