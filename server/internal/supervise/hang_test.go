//go:build linux

package supervise_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/eiderhttp"
)

// U3: behind a supervisor that beats on, a program that hangs is DOWN: its callers leave it alone, and come back when it
// answers again. Its registration stays what it was.
func TestU3CallersLeaveAHungProgramAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs [2]*run
	var pids [2]string
	for i := range runs {
		at := freePort(t)
		runs[i] = w.start(program{At: at}, "--ready", "http://"+at+"/", "--check-every", "100ms")
		pids[i] = fmt.Sprint("pid ", runs[i].pid("pid"))
	}
	hung := func(v eider.View) (in eider.Instance, up int) {
		for _, i := range v.Instances {
			if i.Status == eider.Up {
				up++
			}
			if i.Address == runs[0].at {
				in = i
			}
		}
		return in, up
	}
	until := func(what string, status eider.Status, ups int) eider.Instance {
		t.Helper()
		seen := w.await("orders", what, func(v eider.View) bool {
			in, up := hung(v)
			return in.Status == status && up == ups
		})
		in, _ := hung(seen[len(seen)-1])
		return in
	}
	transport := &eiderhttp.Transport{Registry: w.look}
	t.Cleanup(func() { transport.Close() })
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	call := func() string { t.Helper(); return calls(ctx, t, client) }
	before := until("both are up", eider.Up, 2)
	for call() != pids[0] {
	}
	runs[0].signal(syscall.SIGUSR1)
	during := until("one is down", eider.Down, 1)
	if during.Incarnation != before.Incarnation {
		t.Errorf("it was registered anew: %v, then %v", before.Incarnation, during.Incarnation)
	}
	for range 100 {
		if got := call(); got != pids[1] {
			t.Fatalf("%q answers, want %q", got, pids[1])
		}
	}
	runs[0].signal(syscall.SIGUSR1)
	until("both are up again", eider.Up, 2)
	for call() != pids[0] {
	}
}

// calls posts to orders, and returns the answer.
func calls(ctx context.Context, t *testing.T, client *http.Client) string {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", "http://orders/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}
