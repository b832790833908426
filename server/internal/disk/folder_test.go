//go:build unix

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func refused(t *testing.T, dir, why string) {
	t.Helper()
	s, _, err := Open(dir)
	if err == nil {
		s.crash()
	}
	if !errors.Is(err, ErrFolder) || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, want something of %q", dir, err, why)
	}
}

func make0(t *testing.T, mode os.FileMode, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	if err := os.Mkdir(dir, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What others could have written isn't believed: they would decide who is called.
func TestAFolderThatOthersWriteToIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make another user's folder")
	}
	other := func(dir string) string {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	shared := make0(t, 0o777|os.ModeSticky, t.TempDir(), "shared")
	refused(t, other(make0(t, 0o777, t.TempDir(), "open")), "every user of this machine")
	refused(t, other(make0(t, 0o700, shared, "squatted")), "isn't this user's alone")
	link := filepath.Join(shared, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	refused(t, link, "is a link")

	open(t, filepath.Join(shared, "new")) // made here, for this user alone
}

// A folder of this user's is made its alone, and a planted file isn't read.
func TestPlantedFilesAreRefused(t *testing.T) {
	dir := make0(t, 0o777, t.TempDir(), "mine")
	s, _ := open(t, dir)
	flush(t, s, start)
	s.crash()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	name := filepath.Join(dir, snapshotName)
	if os.Geteuid() == 0 {
		if err := os.Chown(name, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, "belongs to user 12345")
	}
	if err := os.Rename(name, name+".real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name+".real", name); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, "is a link")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	make0(t, 0o700, name)
	refused(t, dir, "isn't a plain file")
}
