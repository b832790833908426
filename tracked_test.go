package eider_test

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// What a build makes isn't kept beside its sources: a clone carries it for ever, and a test may take it for what it has built.
func TestHouseNothingBuiltIsKept(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("this is no clone: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(name)
		if err != nil {
			continue // taken away, and not told yet
		}
		if info.Size() > 1<<20 || slices.Contains([]string{".jar", ".class", ".pyc", ".o", ".test"}, path.Ext(name)) {
			t.Errorf("%s (%d bytes) is kept, and a build makes it: git rm it and name it in .gitignore", name, info.Size())
		}
	}
}
