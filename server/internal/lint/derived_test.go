package lint

import (
	"testing"
	"time"
)

// TestPresets: the windows that manifests are held to are there, and their numbers are the known ones.
func TestPresets(t *testing.T) {
	for name, want := range map[string]time.Duration{"kubernetes": 2 * time.Second, "eureka": 95500 * time.Millisecond} {
		if got := planned(name, nil).Worst(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
