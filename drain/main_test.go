package drain

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also is the second process of the signal tests: see child_test.go.
func TestMain(m *testing.M) {
	if scene := os.Getenv("EIDER_DRAIN_CHILD"); scene != "" {
		child(scene)
		return
	}
	goleak.VerifyTestMain(m)
}
