package roster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// suffers has the disk fail under a roster that has saved its list, and heal. Views and picks go on meanwhile; it is said
// once, loudly; what was saved stays as it was, with nothing half written beside it; and the disk is tried once a minute.
func suffers(t *testing.T, dir string, fail func(t *testing.T) (heal func()), says string) {
	t.Helper()
	file := filepath.Join(dir, "orders.roster")
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		w.push("a UP", "b UP")
		w.wait(2 * time.Second)
		heal := fail(t)
		was, unreadable := os.ReadFile(file)
		for i := range 20 {
			w.push("a UP", "b UP", "c UP")
			w.wait(2 * time.Second)
			w.want(fmt.Sprint("picked ", i), w.picked(), "a b c")
		}
		if log.count("level=WARN") != 1 || log.count("can't be saved to disk") != 1 || log.count(says) != 1 {
			t.Errorf("it should be said once, with %q: %s", says, &log.text)
		}
		if is, err := os.ReadFile(file); unreadable == nil && (err != nil || !bytes.Equal(is, was)) {
			t.Errorf("what was saved is %q now (%v), and was %q", is, err, was)
		}
		if parts, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(parts) > 0 {
			t.Errorf("half written lists stay: %q", parts)
		}
		heal()
		w.wait(saveRetry - saveRetry/4 - 3*time.Second)
		if n := log.count("saved to disk again"); n != 0 {
			t.Errorf("a disk that failed was tried again at once: %s", &log.text)
		}
		w.wait(saveRetry/4 + 3*time.Second)
		s, err := decode(mustRead(t, file), "orders", time.Now())
		if err != nil || ids(s.View) != "a b c" || log.count("saved to disk again") != 1 {
			t.Errorf("healed, the file says %+v (%v), and the log %s", s, err, &log.text)
		}
	})
}

// starts has a process start from a list on a disk that can't be written to, while the registry is away and then isn't.
func starts(t *testing.T, dir, says string) {
	t.Helper()
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		w.want("picked from disk", w.picked(), "a")
		w.push("a UP", "b UP")
		w.wait(time.Hour)
		w.want("picked", w.picked(), "a b")
		if log.count("can't be saved to disk") != 1 || log.count(says) != 1 {
			t.Errorf("it should be said once, with %q: %s", says, &log.text)
		}
	})
}

// must ends the test if a step of it failed.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderThatIsGoneDisturbsNobody(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rosters")
	suffers(t, dir, func(t *testing.T) func() {
		must(t, os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600))
		return func() { must(t, os.Remove(dir), os.Rename(dir+".away", dir)) }
	}, "not a directory")
}

// What is written and can't take its place is removed: a disk that is nearly full isn't filled with it.
func TestAListThatCantTakeItsPlaceIsRemoved(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "orders.roster")
	suffers(t, dir, func(t *testing.T) func() {
		must(t, os.Remove(file), os.MkdirAll(filepath.Join(file, "in the way"), 0o700))
		return func() { must(t, os.RemoveAll(file)) }
	}, "rename")
}

func TestAFolderThatNobodyMayWriteToDisturbsNobody(t *testing.T) {
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("this user may write to whatever he likes: TestAReadOnlyDisk is his")
	}
	dir := t.TempDir()
	suffers(t, dir, func(t *testing.T) func() {
		must(t, os.Chmod(dir, 0o500))
		return func() { must(t, os.Chmod(dir, 0o700)) }
	}, "permission denied")
	saves(t, dir, "a UP")
	must(t, os.Chmod(dir, 0o500))
	starts(t, dir, "permission denied")
	must(t, os.Chmod(dir, 0o700))
}

// TestAHeldInstanceOnDisk: an operator's hold is no less in force because the registry is away. Who is held isn't picked
// at a start, and is named to nobody before a node has said so itself; it is picked if there is nobody else.
func TestAHeldInstanceOnDisk(t *testing.T) {
	dir := t.TempDir()
	saves(t, dir, "a UP", "b!3 UP")
	b := &book{}
	onDisk(t, Config{LetGo: b.config().LetGo}, dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		w.want("picked", w.picked(), "a")
		if u := w.View(); !u.FromDisk {
			t.Fatalf("the roster says %+v", u)
		}
		if in, ok := w.View().View.Find("b"); !ok || in.Hold == nil || in.Hold.Count != 3 {
			t.Fatalf("b is %+v, want it held", in)
		}
		w.wait(time.Hour)
		w.want("let go of", b.take(), "")
		w.want("acknowledged", w.src.last(), "")
		w.push("a UP", "b!3 UP")
		w.want("let go of for the node", b.take(), "user lets go of b")
		w.want("acknowledged to it", w.src.last(), "1:1 let go b!3")
	})
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		w.want("picked while held", w.picked(), "a")
		w.push("a UP", "b UP")
		w.want("released meanwhile", w.pickedBy(1000), "a b")
	})
	saves(t, dir, "b!3 UP")
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		w.want("the only one there is", w.picked(), "b")
	})
}
