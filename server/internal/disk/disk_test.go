package disk

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Unix(1_000_000, 0)

func open(t testing.TB, dir string) (*Store, Found) {
	t.Helper()
	s, found, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.lock.Close() })
	return s, found
}

func put(t testing.TB, s *Store, key, value string) {
	t.Helper()
	if err := s.Put(key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func flush(t testing.TB, s *Store, now time.Time) {
	t.Helper()
	if err := s.Flush(now); err != nil {
		t.Fatal(err)
	}
}

// crash ends a store as kill -9 does.
func (s *Store) crash() {
	if s.log != nil {
		s.log.Close()
	}
	s.lock.Close()
}

func words(pairs map[string]string) map[string]string { return maps.Clone(pairs) }

func TestWhatIsFlushedIsThereAfterACrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, found := open(t, dir)
	if found.Before || found.Closed || found.Damaged || len(found.Pairs) > 0 || !found.Written.IsZero() {
		t.Fatalf("a new folder: %+v", found)
	}
	flush(t, s, start)
	put(t, s, "a", "1")
	put(t, s, "b", "2")
	put(t, s, "a", "3")
	flush(t, s, start.Add(time.Second))
	s.Delete("b")
	put(t, s, "c", "")
	flush(t, s, start.Add(2*time.Second))
	put(t, s, "late", "lost")
	s.crash()
	_, found = open(t, dir)
	want := map[string]string{"a": "3", "c": ""}
	if got := words(found.Pairs); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !found.Before || found.Closed || found.Damaged || len(found.Notes) > 0 || !found.Written.Equal(start.Add(2*time.Second)) {
		t.Errorf("%+v", found)
	}
	for _, name := range []string{"", snapshotName, logName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%q has mode %o", name, mode)
		}
	}
}

// Only a run that nothing came after has ended in order.
func TestClosedIsSaidOnce(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	put(t, s, "a", "1")
	if err := s.Close(start); err != nil {
		t.Fatal(err)
	}
	s, found := open(t, dir)
	if !found.Closed || found.Pairs["a"] != "1" {
		t.Fatalf("%+v", found)
	}
	s.crash() // before it has written anything
	s, found = open(t, dir)
	if found.Closed || found.Pairs["a"] != "1" {
		t.Fatalf("closed by a run that has crashed: %+v", found)
	}
	flush(t, s, start)
	s.crash()
	if _, found = open(t, dir); found.Closed {
		t.Errorf("%+v", found)
	}
}

func TestOneProcessAFolder(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	_, _, err := Open(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "--data") {
		t.Errorf("the second: %v", err)
	}
	s.crash()
	open(t, dir)
}

// A log longer than its snapshot is history: the folder stays as small as what it holds.
func TestTheLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	now, value := start, strings.Repeat("x", 1000)
	for i := range 20_000 {
		put(t, s, fmt.Sprint(i%10), value+fmt.Sprint(i))
		if i%100 == 0 {
			now = now.Add(100 * time.Millisecond)
			flush(t, s, now)
		}
	}
	var size int64
	for _, name := range []string{snapshotName, logName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if st := s.Stats(); size > 2*minLog || st.Bytes != size || st.Keys != 10 {
		t.Errorf("%d bytes for ten keys; it says %+v", size, st)
	}
	flush(t, s, now)
	s.crash()
	if _, found := open(t, dir); len(found.Pairs) != 10 || found.Pairs["9"] != value+"19999" {
		t.Errorf("%d pairs", len(found.Pairs))
	}
}

// What can't be written stays in mind, and is written whole once it can be.
func TestAFailureIsToldAndHeals(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	put(t, s, "a", "1")
	flush(t, s, start)
	hindrance := filepath.Join(dir, snapshotName+".tmp")
	if err := os.MkdirAll(filepath.Join(hindrance, "in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.log.Close() // the next append fails, and so does a snapshot
	put(t, s, "b", "2")
	now := start
	for range 5 {
		now = now.Add(100 * time.Millisecond)
		if err := s.Flush(now); err == nil {
			t.Fatal("a failure isn't told")
		}
		put(t, s, "c", now.String())
	}
	if n := s.Stats().Errors; n != 2 {
		t.Errorf("%d errors, want one of the log and one of the snapshot: it is tried again after a second", n)
	}
	if err := os.RemoveAll(hindrance); err != nil {
		t.Fatal(err)
	}
	now = s.Due()
	flush(t, s, now)
	s.crash()
	if _, found := open(t, dir); len(found.Pairs) != 3 || found.Damaged {
		t.Errorf("%+v", found)
	}
}

// A crash between the two files of a new generation leaves a log of the one before, which is contained.
func TestALogOfTheGenerationBefore(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	flush(t, s, start)
	put(t, s, "a", "1")
	flush(t, s, start)
	log, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	s.Delete("a")
	s.logged = minLog + 1
	flush(t, s, start)
	s.crash()
	if err := os.WriteFile(filepath.Join(dir, logName), log, 0o600); err != nil {
		t.Fatal(err)
	}
	_, found := open(t, dir)
	if len(found.Pairs) > 0 || found.Damaged || len(found.Notes) > 0 {
		t.Errorf("%+v", found)
	}
}

// history writes a folder step by step, and returns the state after each.
func history(t testing.TB, dir string) (states []map[string]string) {
	s, _ := open(t, dir)
	for i := range 4 {
		put(t, s, fmt.Sprint("before", i), strings.Repeat("b", i))
	}
	flush(t, s, start)
	states = append(states, words(s.pairs))
	for i := range 6 {
		put(t, s, fmt.Sprint("key", i%4), strings.Repeat("v", 3*i))
		if i == 4 {
			s.Delete("before1")
			states = append(states, nil) // between two frames of one batch
		}
		flush(t, s, start.Add(time.Duration(i)*time.Second))
		states = append(states, words(s.pairs))
	}
	s.crash()
	return states
}

// right tells whether a state is one that there was.
func right(states []map[string]string, got map[string]string) bool {
	for _, st := range states {
		if st != nil && maps.Equal(words(got), st) {
			return true
		}
	}
	// Between two frames of the one batch that has several.
	between := maps.Clone(states[4])
	between["key0"] = strings.Repeat("v", 12)
	return maps.Equal(words(got), between)
}

// Each byte of each file is turned over, and each file is cut at each length: what is found was once so, or is
// nothing, and what is missing is said.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	states := history(t, dir)
	whole := states[len(states)-1]
	files := map[string][]byte{}
	for _, name := range []string{snapshotName, logName} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	try := func(what, name string, data []byte) Found {
		dir := t.TempDir()
		for n, d := range files {
			if n == name {
				d = data
			}
			if err := os.WriteFile(filepath.Join(dir, n), d, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, found, err := Open(dir)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer s.crash()
		if name == snapshotName && len(found.Pairs) > 0 || name == logName && !right(states, found.Pairs) {
			t.Errorf("%s: found %v", what, words(found.Pairs))
		}
		if len(found.Notes) == 0 && !maps.Equal(words(found.Pairs), whole) && len(data) == len(files[name]) {
			t.Errorf("%s: something is missing, and nothing is said", what)
		}
		if found.Closed {
			t.Errorf("%s: closed", what)
		}
		if aside, _ := filepath.Glob(filepath.Join(dir, "*-1")); found.Damaged != (len(aside) > 0) {
			t.Errorf("%s: damaged %t, aside %v: %v", what, found.Damaged, aside, found.Notes)
		}
		return found
	}
	for name, data := range files {
		for i := range data {
			turned := bytes.Clone(data)
			turned[i] ^= 0x41
			found := try(fmt.Sprintf("%s, byte %d", name, i), name, turned)
			if name == snapshotName && !found.Damaged {
				t.Errorf("byte %d of the snapshot: no damage", i)
			}
			if early := i < len(data)/2; name == logName && early && !found.Damaged {
				t.Errorf("byte %d of the log, in its middle: no damage", i)
			}
			cut := try(fmt.Sprintf("%s, %d bytes", name, i), name, data[:i])
			if name == logName && i >= headerSize && cut.Damaged {
				t.Errorf("a log of %d bytes is taken for damaged: %v", i, cut.Notes)
			}
		}
	}
}

func TestAnotherVersionIsSetAside(t *testing.T) {
	for v, ending := range map[byte]string{0: "old", 2: "newer"} {
		dir := t.TempDir()
		history(t, dir)
		path := filepath.Join(dir, snapshotName)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[8] = v
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, found := open(t, dir)
		if kept := path + "." + ending + "-1"; !found.Damaged || len(found.Pairs) > 0 || !strings.Contains(strings.Join(found.Notes, "\n"), kept) {
			t.Errorf("version %d: %+v", v, found)
		}
		if data, err = os.ReadFile(path + "." + ending + "-1"); err != nil || data[8] != v {
			t.Errorf("version %d: what was set aside: %v", v, err)
		}
	}
}

// Any run of puts, deletes, flushes, failures, crashes and ends, beside a map.
func TestAStoreIsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		s, _, err := Open(dir)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { s.crash() }()
		now, model, flushed, closed := start, map[string]string{}, map[string]string{}, false
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"put", "put", "put", "delete", "flush", "flush", "long", "crash", "close"}).Draw(rt, "step") {
			case "put":
				k, v := fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "key")), rapid.StringN(0, 8, -1).Draw(rt, "value")
				model[k] = v
				if err := s.Put(k, []byte(v)); err != nil {
					rt.Fatal(err)
				}
			case "delete":
				k := fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "key"))
				delete(model, k)
				s.Delete(k)
			case "long":
				s.logged = minLog + 1
			case "flush":
				now = now.Add(400 * time.Millisecond)
				if err := s.Flush(now); err != nil {
					rt.Fatal(err)
				}
				flushed = maps.Clone(model)
				continue
			case "crash":
				s.crash()
				model, closed = maps.Clone(flushed), false
			case "close":
				if err := s.Close(now); err != nil {
					rt.Fatal(err)
				}
				flushed, closed = maps.Clone(model), true
			}
			if s.lock.Fd() != ^uintptr(0) {
				continue
			}
			var found Found
			if s, found, err = Open(dir); err != nil {
				rt.Fatal(err)
			}
			if !maps.Equal(words(found.Pairs), model) || found.Closed != closed || found.Damaged {
				rt.Fatalf("found %+v, want %v, closed %t", found, model, closed)
			}
		}
	})
}
