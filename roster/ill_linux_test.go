package roster

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// small mounts a file system of 64 KiB.
func small(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("this machine lets nobody mount a small disk: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func TestAFullDiskDisturbsNobody(t *testing.T) {
	disk := small(t)
	suffers(t, filepath.Join(disk, "rosters"), func(t *testing.T) func() {
		filler := filepath.Join(disk, "filler")
		f, err := os.Create(filler)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		f.Close()
		return func() { must(t, os.Remove(filler)) }
	}, "no space left on device")
}

func TestAReadOnlyDiskDisturbsNobody(t *testing.T) {
	disk := small(t)
	dir := filepath.Join(disk, "rosters")
	remount := func(t *testing.T, flags uintptr) {
		t.Helper()
		must(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|flags, "size=64k,mode=0700"))
	}
	suffers(t, dir, func(t *testing.T) func() {
		remount(t, syscall.MS_RDONLY)
		return func() { remount(t, 0) }
	}, "read-only file system")
	saves(t, dir, "a UP")
	remount(t, syscall.MS_RDONLY)
	starts(t, dir, "read-only file system")
}
