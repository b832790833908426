package roster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

var errAway = eider.Errorf(eider.Unavailable, "registry", "nobody is there")

// log keeps what was logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count tells how many lines hold a text.
func (l *logged) count(of string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), of)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// onDisk runs a test in a bubble, with a roster that keeps its list in a folder.
func onDisk(t *testing.T, c Config, dir string, test func(t *testing.T, w *world, log *logged)) {
	t.Helper()
	onDiskOf(t, c, newFolder(dir), test)
}

func onDiskOf(t *testing.T, c Config, dir folder, test func(t *testing.T, w *world, log *logged)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		src, log := newFake(), &logged{}
		w := &world{t: t, src: src, run: 1}
		w.Roster = c.follow("orders", "", func() (source, error) { return src, nil })
		w.disk = newDisk("", "orders", log.logger())
		w.disk.folder = dir
		defer w.Close()
		w.View()
		test(t, w, log)
	})
}

// saves leaves a list on disk, as a process that has ended does.
func saves(t *testing.T, dir string, lines ...string) {
	t.Helper()
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) { w.push(lines...) })
}

func (w *world) away() { w.update(registry.Update{Err: errAway}) }

func TestU5StartsFromDiskWhileTheRegistryIsAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "as needed")
	saves(t, dir, "a UP", "b DRAINING", "c DOWN", "d UP beats missed")
	b := &book{}
	onDisk(t, b.config(), dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		w.want("picked at once", w.picked(), "a")
		u := w.View()
		if !u.FromDisk || u.Connected || u.View.Complete || u.View.Cursor != (eider.Cursor{}) || !errors.Is(u.Err, errAway) {
			t.Fatalf("the roster says %+v, want an incomplete view from disk", u)
		}
		w.wait(time.Hour)
		w.away()
		if u = w.View(); !u.FromDisk || time.Since(u.Heard) < time.Hour || time.Since(u.Heard) > time.Hour+time.Minute {
			t.Fatalf("an hour later it says %+v, want its age to have grown", u)
		}
		w.want("acknowledged", w.src.last(), "")
		w.want("let go of", b.take(), "make a; make b; make c; make d")
		if log.count("picking from the list on disk") != 1 {
			t.Errorf("it should be said once: %s", &log.text)
		}
	})
}

// What is on disk is a hint: the first view of a node stands as it is, also where its records are older.
func TestANodesFirstViewRulesOverTheDisk(t *testing.T) {
	dir := t.TempDir()
	saves(t, dir, "a#2.9 UP", "b#1.9 DRAINING", "c#1.9 DOWN", "d UP", "e UP", "f UP")
	b := &book{}
	onDisk(t, Config{LetGo: b.config().LetGo}, dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		w.want("from disk", w.picked(), "a d e f")
		w.run = 1 // a node may well be the one that said it, but this process owes it nothing
		w.push("a#1.1 UP", "b#1.1 UP", "c#1.1 UP", "d gone DEAD", "e DRAINING", "g UP")
		if u := w.View(); u.FromDisk || !u.Connected || !u.View.Complete {
			t.Fatalf("the roster says %+v, want it to be the node's", u)
		}
		w.want("ids", ids(w.View().View), "a b c e f g")
		w.want("picked", w.picked(), "a b c g")
		w.want("let go of", b.take(), "user lets go of e")
		w.want("acknowledged", w.src.last(), "1:1 let go e")
		if in, _ := w.View().View.Find("f"); in.Suspicion != eider.Absent {
			t.Fatalf("f, that a complete view lacks, is suspect as %q, want absent", in.Suspicion)
		}
		w.wait(19 * time.Second)
		w.want("within the lease", ids(w.View().View), "a b c e f g")
		w.wait(2 * time.Second)
		w.want("after it", ids(w.View().View), "a b c e g")
	})
}

func TestAnIncompleteFirstViewKeepsWhoIsOnDisk(t *testing.T) {
	dir := t.TempDir()
	saves(t, dir, "a UP", "b UP")
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		cold := w.view("c UP")
		cold.Complete = false
		w.update(registry.Update{View: cold, Connected: true, Lease: 20 * time.Second})
		w.wait(time.Hour)
		w.want("picked", w.picked(), "a b c")
	})
}

// What an instance says of itself is no hint: it is let go of at once, and acknowledged when there is a node.
func TestLeavingInBandIsHeardWhileFromDisk(t *testing.T) {
	dir := t.TempDir()
	saves(t, dir, "a UP", "b UP")
	b := &book{}
	onDisk(t, Config{LetGo: b.config().LetGo}, dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		c := w.takeOf("a")
		c.Leaving(c.Instance().Incarnation)
		c.Done(Success)
		w.wait(time.Second)
		w.want("picked", w.picked(), "b")
		w.want("let go of", b.take(), "user lets go of a")
		w.want("acknowledged", w.src.last(), "")
		w.push("a#1.1 UP", "b UP")
		w.want("acknowledged to a node", w.src.last(), "1:1 let go a")
	})
}

func TestTheDiskGivesWayToANodeThatAnswers(t *testing.T) {
	dir := t.TempDir()
	saves(t, dir, "gone UP")
	var applied []string
	c := Config{Applied: func(v *eider.View) { applied = append(applied, ids(v)) }}
	onDisk(t, c, dir, func(t *testing.T, w *world, log *logged) {
		w.wait(diskPatience - time.Millisecond)
		w.push("a UP")
		w.wait(time.Hour)
		w.want("views", strings.Join(applied, "; "), "a")
		w.want("ids", ids(w.View().View), "a")
	})
	applied = nil
	saves(t, dir, "gone UP")
	onDisk(t, c, dir, func(t *testing.T, w *world, log *logged) {
		w.wait(diskPatience) // a registry that hangs says nothing at all
		if u := w.View(); !u.FromDisk {
			t.Fatalf("the roster says %+v", u)
		}
		w.want("picked", w.picked(), "gone")
	})
}

func TestNobodyOnDiskIsNoList(t *testing.T) {
	dir := t.TempDir()
	saves(t, dir, "a UP")
	saves(t, dir, "a gone LEFT")
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		w.away()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.Take(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without anybody on disk: %v, want to wait for the registry", err)
		}
	})
}

// TestU5AnOutageLeavesTheFile: neither an outage, nor an empty list of a node that has lost its memory, empties it.
func TestU5AnOutageLeavesTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "orders.roster")
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		w.push("a UP", "b UP")
		w.wait(2 * time.Second)
		w.run = 2
		w.push()
		w.wait(2 * time.Second)
		was := mustRead(t, file)
		if s, err := decode(was, "orders", time.Now()); err != nil || ids(s.View) != "a b" || s.View.Instances[0].Suspicion != 0 {
			t.Fatalf("after an empty list the file says %+v (%v)", s, err)
		}
		w.update(registry.Update{Heard: time.Now(), Err: errAway})
		w.wait(time.Hour)
		if !bytes.Equal(mustRead(t, file), was) {
			t.Error("an outage has changed the file")
		}
	})
}

func TestChangesAreSavedTogether(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "orders.roster")
	number := func(t *testing.T) uint64 {
		t.Helper()
		s, err := decode(mustRead(t, file), "orders", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return s.View.Cursor.Number
	}
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		w.push("a UP")
		if n := number(t); n != 1 {
			t.Errorf("the first list is saved at once, but the file has number %d", n)
		}
		saved := map[uint64]bool{}
		for range 1000 {
			w.push("a UP", "b UP")
			w.wait(10 * time.Millisecond)
			saved[number(t)] = true
		}
		if len(saved) > 15 {
			t.Errorf("ten seconds of changes were saved %d times, want about one a second", len(saved))
		}
		w.wait(2 * time.Second)
		if n := number(t); n != 1001 {
			t.Errorf("the file stays at number %d of 1001", n)
		}
		w.wait(48 * time.Hour) // nothing changes, and it is still true
		s, err := decode(mustRead(t, file), "orders", time.Now())
		if err != nil || time.Since(s.Heard) > saveAgain+time.Minute {
			t.Errorf("two days later the file says %+v (%v)", s, err)
		}
	})
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A disk that is full, read-only or gone disturbs nobody, and is complained about once.
func TestADiskThatFailsDisturbsNobody(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(blocked, "rosters")
	onDisk(t, Config{}, dir, func(t *testing.T, w *world, log *logged) {
		for i := range 20 {
			w.push("a UP", "b UP")
			w.wait(2 * time.Second)
			w.want(fmt.Sprint("picked ", i), w.picked(), "a b")
		}
		if n := log.count("can't be saved"); n != 1 {
			t.Errorf("complained %d times, want once: %s", n, &log.text)
		}
		os.Remove(blocked)
		w.wait(saveRetry)
		if n := log.count("saved to disk again"); n != 1 {
			t.Errorf("it works again, and that was said %d times: %s", n, &log.text)
		}
	})
}

// stuck is a log that hangs, as a disk may.
type stuck struct{ until chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.until; return len(p), nil }

// A disk that hangs holds up Close for a moment, and nothing else. What hangs here is the goroutine that has the disk.
func TestADiskThatHangsHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "orders.roster"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		src, log := newFake(), stuck{make(chan struct{})}
		w := &world{t: t, src: src, run: 1}
		w.Roster = Config{}.follow("orders", "", func() (source, error) { return src, nil })
		w.disk = newDisk(dir, "orders", slog.New(slog.NewTextHandler(log, nil)))
		w.View()
		w.away()
		w.push("a UP", "b UP")
		w.want("picked", w.picked(), "a b")
		w.push("a UP", "b DRAINING")
		w.want("acknowledged", w.src.last(), "1:2 let go b")
		begun := time.Now()
		w.Close()
		if took := time.Since(begun); took != saveFarewell {
			t.Errorf("Close took %s, want %s", took, saveFarewell)
		}
		close(log.until)
	})
}
