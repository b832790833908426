//go:build linux

package supervise_test

import (
	"syscall"
	"testing"

	"github.com/eiderhq/eider"
)

// A program that fails is started anew, as another incarnation; a leave isn't a failure, whatever its exit code.
func TestAProgramThatFailsIsStartedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(program{Exit: 5}, "--restart", "on-failure", "--unknown", "none")
	seen := w.is(eider.Up)
	first := seen[len(seen)-1].Instances[0].Incarnation
	if _, err := post(t, r.at, "/quit"); err == nil {
		t.Error("it goes on")
	}
	w.await("orders", "another incarnation", func(v eider.View) bool {
		return len(v.Instances) == 1 && v.Instances[0].Status == eider.Up && !v.Instances[0].Incarnation.Is(first)
	})
	r.signal(syscall.SIGTERM)
	if code := r.exit(); code != 5 {
		t.Errorf("it exits with %d", code)
	}
	if report := r.report(); report.Runs != 2 {
		t.Errorf("the program was started %d times", report.Runs)
	}
}
