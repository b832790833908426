package solo

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/disk"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/registrytest"
	"github.com/eiderhq/eider/server/internal/replica"
)

// A node that keeps what it knows is a node as any.
func TestSuiteWithMemory(t *testing.T) {
	registrytest.Run(t, func(t *testing.T, s registrytest.Setup) replica.Registry {
		return New(Config{Fresh: s.Fresh, Dial: s.Dial, Data: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	})
}

// node is one run of a node with memory.
type node struct {
	*Registry
	log  *bytes.Buffer // to be read once it has ended
	stop func() error
}

func begin(t testing.TB, dir string, fresh bool) node {
	t.Helper()
	n := node{log: new(bytes.Buffer)}
	n.Registry = New(Config{Data: dir, Fresh: fresh, Dial: silent, Logger: slog.New(slog.NewTextHandler(n.log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	n.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { n.stop() })
	for !n.Node().Ready {
		runtime.Gosched()
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
	return n
}

// kept waits until the disk has as many pieces and none waits: a node that begins looks at everything, so that what
// changes just then is on the disk already when its turn comes.
func (n node) kept(t *testing.T, pieces int) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		n.mu.Lock()
		done := n.memory.stats.Keys == pieces && len(n.memory.pending) == 0
		n.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(late) {
			stats, _ := n.Disk()
			t.Fatalf("%+v, want %d pieces", stats, pieces)
		}
	}
}

// copyOf is a folder as a crash would leave it now.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{"snapshot", "log"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func full(i int) eider.Record {
	rec := record("orders", fmt.Sprint(i), fmt.Sprintf("127.0.0.1:%d", 7000+i), uint64(i)+1)
	rec.Zone, rec.Ports, rec.Metadata = "a", map[string]uint16{"admin": 9}, map[string]string{"version": "v1", "x": "y"}
	return rec
}

// What a node knew is there after a crash, as suspects, and after an orderly end: also what happened last.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	n := begin(t, dir, false)
	a := attach(t, n.Registry, "p")
	grant, err := a.Register(full(0), 0, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	register(t, a, full(1))
	register(t, a, full(2))
	if err := a.Leave(full(1).Key, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Left(full(2).Key); err != nil {
		t.Fatal(err)
	}
	follow(t, n.Registry, "c", "orders")
	n.kept(t, 5) // with the wait for callers from before
	crashed := copyOf(t, dir)
	register(t, a, full(4))
	follow(t, n.Registry, "d", "users")
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		dir     string
		late    bool
		callers string
	}{{crashed, false, "1 callings"}, {dir, true, "2 callings"}} {
		n := begin(t, row.dir, true) // which isn't believed: there is something
		restored(t, n, row.late)
		if node := n.Node(); node.Complete || len(node.Void) != 1 || node.Bound != 8*time.Second {
			t.Errorf("%+v", node)
		}
		events, _ := n.Events(0)
		if e := events[len(events)-1]; e.Kind != eider.EventRestored || !strings.Contains(e.Detail, row.callers) {
			t.Errorf("%s", e)
		}
		a := attach(t, n.Registry, "p")
		again := full(0)
		again.Incarnation.Number, again.Attachment = 1, 2
		if _, err := a.Register(again, 0, [16]byte{}); eider.KindOf(err) != eider.Stale {
			t.Errorf("a stranger who has read the nonce attaches: %v", err)
		}
		if _, err := a.Register(again, 0, grant.Secret); err != nil {
			t.Error(err)
		}
		if v, _ := n.View("orders"); v.Instances[0].Suspicion != 0 {
			t.Errorf("after its attach: %+v", v.Instances[0])
		}
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(n.log.String(), "restored") || strings.Contains(n.log.String(), "level=WARN") {
			t.Errorf("the log says\n%s", n.log)
		}
	}
}

// What happened just before a node ends is in its log too: also of one that is told to end as it starts.
func TestTheLastOfItIsLogged(t *testing.T) {
	dir := t.TempDir()
	begin(t, dir, false).stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 40 { // a run may have its first turn before it sees that it is to end
		var log bytes.Buffer
		if err := New(Config{Data: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "restored") {
			t.Fatalf("the log says %q", log.String())
		}
	}
}

// restored demands what TestRestart has left, with or without what came last.
func restored(t *testing.T, n node, late bool) {
	t.Helper()
	v, _ := n.View("orders")
	if v.Complete {
		t.Error("the view is complete")
	}
	for i, status := range map[int]eider.Status{0: eider.Up, 1: eider.Draining, 4: eider.Up} {
		in, ok := v.Find(fmt.Sprint(i))
		if ok != (i != 4 || late) {
			t.Errorf("%d is there: %t", i, ok)
			continue
		}
		want := full(i)
		want.Incarnation.Number, want.Version, want.Status = 1, 1, status
		if i == 1 {
			want.Version = 2
		}
		if ok && (!in.Record.Equal(&want) || in.Suspicion != eider.Restored) {
			t.Errorf("%+v, want %+v", in, want)
		}
	}
	if len(v.Gone) != 1 || v.Gone[0].Status != eider.Left {
		t.Errorf("gone: %+v", v.Gone)
	}
}

// A node that ended in order, and whose data says that nobody called, has nobody to wait for; one that crashed has,
// and so has one that ended before it had waited long enough itself.
func TestNobodyCalledBefore(t *testing.T) {
	dir := t.TempDir()
	n := begin(t, dir, false)
	if void := n.Node().Void; len(void) == 0 {
		t.Error("an empty folder says that nobody came before")
	}
	n.stop()
	n = begin(t, dir, false)
	if void := n.Node().Void; len(void) == 0 {
		t.Error("who wasn't waited for long enough is forgotten")
	}
	n.stop()
	dir = t.TempDir()
	n = begin(t, dir, true)
	n.stop()
	n = begin(t, dir, false)
	if void := n.Node().Void; len(void) > 0 {
		t.Errorf("after an orderly end: %q", void)
	}
	crashed := copyOf(t, dir)
	n.stop()
	n = begin(t, crashed, true)
	if void := n.Node().Void; len(void) == 0 {
		t.Error("after a crash somebody may have called in its last moments")
	}
	n.stop()
}

// A node that ends in order in the middle of a leave, or just before a hold, has its next run give unknown callers their
// pause: as a crash does, for other reasons.
func TestUnknownCallersAfterARestart(t *testing.T) {
	dir := t.TempDir()
	n := begin(t, dir, true)
	a := attach(t, n.Registry, "p")
	register(t, a, full(0))
	register(t, a, full(1))
	a.Beat(replica.Work{Key: full(1).Key, Done: eider.Work{Arrived: 1, Unknown: true}})
	const pause = time.Minute // longer than this test takes
	if err := a.Leave(full(0).Key, pause); err != nil {
		t.Fatal(err)
	}
	n.kept(t, 2)
	crashed := copyOf(t, dir)
	n.stop()
	for _, dir := range []string{crashed, dir} {
		n := begin(t, dir, false)
		if cs := n.Callers("orders"); len(cs) == 0 || cs[len(cs)-1].Kind != eider.UnknownCallers {
			t.Errorf("the callers are %+v", cs)
		}
		ds := n.Drains("orders")
		if len(ds) != 1 || ds[0].Reached || !slices.ContainsFunc(ds[0].Members, func(m eider.Member) bool {
			return m.Kind == eider.UnknownCallers && m.State == eider.Waiting && m.Cap == pause
		}) {
			t.Errorf("the drains are %+v", ds)
		}
		n.stop()
	}
}

// A damaged file is set aside with a warning, and the node is one without memory: also with --fresh.
func TestDamagedMemory(t *testing.T) {
	dir := t.TempDir()
	n := begin(t, dir, false)
	register(t, attach(t, n.Registry, "p"), full(0))
	n.stop()
	name := filepath.Join(dir, "snapshot")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	n = begin(t, dir, true)
	if node := n.Node(); node.Instances != 0 || node.Complete || len(node.Void) != 1 || node.Bound != 8*time.Second {
		t.Errorf("%+v", node)
	}
	n.stop()
	if text := n.log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, name+".damaged-1") {
		t.Errorf("the log says\n%s", text)
	}
}

func TestTwoNodesOnOneFolder(t *testing.T) {
	dir := t.TempDir()
	begin(t, dir, false)
	err := New(Config{Data: dir, Logger: slog.New(slog.DiscardHandler)}).Run(t.Context())
	if eider.KindOf(err) != eider.Conflict || !strings.Contains(err.Error(), "another eider server") {
		t.Errorf("%v", err)
	}
}

// What can't be written is told once, in words, and once when it can again; the node serves all along.
func TestWhatCantBeKeptIsTold(t *testing.T) {
	dir := t.TempDir()
	hindrance := filepath.Join(dir, "snapshot.tmp", "in the way")
	if err := os.MkdirAll(hindrance, 0o700); err != nil {
		t.Fatal(err)
	}
	n := begin(t, dir, true)
	a := attach(t, n.Registry, "p")
	count := func(kind eider.EventKind) (total int, last string) {
		events, _ := n.Events(0)
		for _, e := range events {
			if e.Kind == kind {
				total, last = total+1, e.Detail
			}
		}
		return total, last
	}
	await := func(kind eider.EventKind) {
		t.Helper()
		for late := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
			if n, _ := count(kind); n > 0 {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("no event %q", kind)
			}
		}
	}
	await(eider.EventNotKept)
	register(t, a, full(0))
	stats, _ := n.Disk()
	if void := n.Node().Void; !n.Node().Ready || len(void) != 1 || !strings.Contains(void[0], "make room") || !stats.Failing {
		t.Errorf("%q, %+v", void, stats)
	}
	if err := os.RemoveAll(filepath.Dir(hindrance)); err != nil {
		t.Fatal(err)
	}
	await(eider.EventKept)
	if total, said := count(eider.EventNotKept); total != 1 || !strings.Contains(said, "snapshot.tmp") {
		t.Errorf("told %d times, %q", total, said)
	}
	n.kept(t, 1)
	if stats, _ = n.Disk(); stats.Failing || stats.Errors == 0 || len(n.Node().Void) > 0 {
		t.Errorf("%+v, %q", stats, n.Node().Void)
	}
	n.stop()
	if n = begin(t, dir, false); n.Node().Instances != 1 {
		t.Errorf("%+v", n.Node())
	}
	n.stop()
}

// A beat is the one call that every process makes every other second: it is nothing to the memory.
func TestABeatIsNoted(t *testing.T) {
	n := begin(t, t.TempDir(), true)
	a := attach(t, n.Registry, "p")
	register(t, a, full(0))
	n.kept(t, 1)
	before, _ := n.Disk()
	if allocs := testing.AllocsPerRun(1000, func() { a.Beat() }); allocs != 0 {
		t.Errorf("%v allocations a beat", allocs)
	}
	n.mu.Lock()
	pending := len(n.memory.pending)
	n.mu.Unlock()
	if after, _ := n.Disk(); pending != 0 || after.Bytes != before.Bytes {
		t.Errorf("%d pieces wait, %d bytes were %d", pending, after.Bytes, before.Bytes)
	}
}

// While a disk hangs names pile up, and so they are bounded: then everything is looked at.
func TestPendingIsBounded(t *testing.T) {
	n := begin(t, t.TempDir(), true)
	a := attach(t, n.Registry, "p")
	register(t, a, full(0))
	n.kept(t, 1)
	m := memory{store: new(disk.Store), wake: make(chan struct{}, 1)}
	for i := range 2 * mostPending {
		m.note([]ledger.Trace{{Service: "s", ID: fmt.Sprint(i)}})
		if len(m.pending) > mostPending {
			t.Fatalf("%d names", len(m.pending))
		}
	}
	if !m.all {
		t.Fatal("and nothing looks at what was left out")
	}
	n.mu.Lock()
	n.memory.all = true
	n.memory.signal()
	n.mu.Unlock()
	register(t, a, full(1))
	n.kept(t, 2)
}
