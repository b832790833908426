package supervise

import (
	"strings"
	"testing"
	"time"
)

// Pauses between starts double, to a bound; a run that was healthy for a while has them begin anew.
func TestPausesBetweenStarts(t *testing.T) {
	var r restarts
	const most = 0 // full jitter draws from the top
	var last time.Duration
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		last = r.next(0, most)
		if want *= time.Second; last > want || last < want-time.Millisecond {
			t.Errorf("pause %d is %v, want %v at most", i, last, want)
		}
	}
	if last = r.next(healthyAfter, most); last > restartFirst {
		t.Errorf("after a healthy run the pause is %v", last)
	}
	if last = r.next(0, most); last <= restartFirst {
		t.Errorf("the failure after that is the second in a row, and the pause is %v", last)
	}
}

// A shell that waits in the same process group is a script's, or a container's first process. A person's gives each job
// its own.
func TestD11WhichShells(t *testing.T) {
	for name, want := range map[string]bool{"sh": true, "bash": true, "busybox": true, "systemd": false, "containerd-shim": false, "fish": false} {
		for _, together := range []bool{true, false} {
			text := ofShell(name, 7, together)
			if got := text != ""; got != (want && together) {
				t.Errorf("%s, in the same group %t: %q", name, together, text)
			}
			if text != "" && !strings.Contains(text, "exec") {
				t.Errorf("it doesn't say what to write: %s", text)
			}
		}
	}
}
