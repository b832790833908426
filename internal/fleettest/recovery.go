package fleettest

import (
	"strings"
	"sync"
	"testing"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/recovery"
)

// Recovery plays the scene of [recovery] with a store: fifty callers, one probe, and nobody pushes it over. Each caller may be
// given a client of its own.
func Recovery(t *testing.T, store func(caller int) fleet.Store) {
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
	if r.Parallel != 1 || r.Relapses != 0 || r.Back == nil {
		t.Errorf("%d probes at once, want 1; %d relapses, want 0; back: %v; %+v; who lost the store: %s", r.Parallel, r.Relapses, r.Back != nil, r, strings.Join(parted, "; "))
	}
}
