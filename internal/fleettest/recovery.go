package fleettest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/recovery"
)

// Recovery plays the scene of [recovery] with a store: fifty callers, one probe, and nobody pushes it over. Each caller may be
// given a client of its own.
//
// While the machine stands still calls pile up in what they need, and no breaker can know: a scene that was broken so is no
// fault of the store's, and is played once more.
func Recovery(t *testing.T, store func(caller int) fleet.Store) {
	t.Helper()
	for range 5 {
		still := stillness()
		broken := played(t, store)
		longest := still()
		switch {
		case broken == "":
			return
		case longest < stalled:
			t.Fatalf("%s; the machine stood still for %v at most", broken, longest)
		}
		t.Logf("on a machine that stood still for %v: %s", longest, broken)
	}
	t.Skip("this machine has too much to do for the scene: each time it stood still in it")
}

// stalled is how long calls may pile up by the machine alone: two and a half works.
const stalled = 5 * recovery.Work / 2

// played plays the scene and tells what has broken its promise, if anything.
func played(t *testing.T, store func(caller int) fleet.Store) (broken string) {
	t.Helper()
	var mu sync.Mutex
	var parted []string
	said := func(ev fleet.Event) {
		if ev.Parted != nil {
			mu.Lock()
			defer mu.Unlock()
			parted = append(parted, ev.Parted.Error())
		}
	}
	r, err := recovery.Scene{Guard: recovery.Fleet(store, said), Watch: patience}.Play(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if r.Parallel == 1 && r.Relapses == 0 && r.Back != nil {
		return ""
	}
	return fmt.Sprintf("%d probes at once, want 1; %d relapses, want 0; back: %v; %+v; who lost the store: %s", r.Parallel, r.Relapses, r.Back != nil, r, strings.Join(parted, "; "))
}

// stillness measures, until it is asked, the longest that this process wasn't run.
func stillness() (longest func() time.Duration) {
	stop, most := make(chan struct{}), make(chan time.Duration)
	go func() {
		var longest time.Duration
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				most <- longest
				return
			case <-time.After(5 * time.Millisecond):
				longest = max(longest, time.Since(last))
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-most
	}
}
