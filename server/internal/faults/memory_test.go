//go:build linux

package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

func memory(data string) func(*node.Settings) {
	return func(s *node.Settings) { s.Data, s.Fresh = data, false }
}

// onDisk waits until a node's folder has its log and holds some texts: the disk is late, and a busy one later.
func onDisk(t *testing.T, data string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		eventually(t, fmt.Sprintf("%q on disk", text), func() bool {
			snapshot, _ := os.ReadFile(filepath.Join(data, "snapshot"))
			log, err := os.ReadFile(filepath.Join(data, "log"))
			return err == nil && (bytes.Contains(snapshot, []byte(text)) || bytes.Contains(log, []byte(text)))
		})
	}
}

// kept is what a folder says of an instance that has a status: in a record's form, with the address behind it.
func (in *instance) kept(status eider.Status) string {
	return string([]byte{6 << 3, byte(status), 7<<3 | 2, byte(len(in.addr))}) + in.addr
}

// The registry is killed, and another run takes its place with what is on disk: whoever was there is there from its
// first moment, whoever left stays gone, callers lose nobody, all attach again and nobody lapses. R17: who is only
// remembered has a whole lease; who died meanwhile is found by its port. R6: what was deleted stays so.
func TestR17R6ARegistryComesBackFromDisk(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startNode(t, node.Settings{Fresh: true, Data: data, Lease: 6 * time.Second})
	start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	late := start(t, s, "billing", "late")
	d := start(t, s, "billing", "d")
	gone := start(t, s, "billing", "gone")
	gone.hears(syscall.SIGTERM)
	gone.exit()
	load := startLoad(t, s.grpc, "orders", 4)
	load.each(20)
	lapse(300 * time.Millisecond) // the disk is 50 ms late
	if n := s.metric("eider_disk_pieces"); n < 4+1+1 {
		t.Errorf("%v pieces on disk", n)
	}
	late.freeze()
	s.kill()
	d.kill()
	load.each(20) // from their last good view
	s = s.again(memory(data))
	up := time.Now()
	if e := s.events(eider.EventRestored); len(e) != 1 || !strings.Contains(e[0].Detail, "4 instances, the ends of 1") {
		t.Errorf("%v", e)
	}
	if in, ok := s.view("billing").Find("late"); !ok || !in.Suspicion.Has(eider.Restored) || in.Status != eider.Up {
		t.Errorf("the first view: %+v", s.view("billing"))
	}
	s.happened(eider.EventDead, "billing", "d")
	s.happened(eider.EventReattached, "orders", "a")
	s.happened(eider.EventReattached, "orders", "b")
	t.Logf("both attached again %v after the restart", time.Since(up).Round(time.Millisecond))
	lapse(time.Until(up.Add(3 * time.Second)))
	late.thaw()
	s.happened(eider.EventReattached, "billing", "late")
	if in, ok := s.view("billing").Find("late"); !ok || in.Suspicion != 0 {
		t.Errorf("%+v", s.view("billing"))
	}
	if g := s.view("billing").Gone; len(g) != 2 || g[1].ID != "gone" || g[1].Status != eider.Left {
		t.Errorf("%+v", g)
	}
	holds(t, "nobody ends", 4*time.Second, func() bool { return len(s.view("orders").Instances) == 2 && len(s.view("billing").Instances) == 1 })
	load.each(20)
	load.rest()
	load.sum().flawless(t, "the load")
	if e := s.events(eider.EventLapsed); len(e) > 0 {
		t.Errorf("%v", e)
	}
}

// An instance leaves within a second of a restart from disk, after a crash as after an orderly end. A caller that still
// has it in its list and comes back late isn't cut: what is on disk says that somebody called.
func TestALeaveAfterARestartFromDiskIsNoVacuousBarrier(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(*server)
	}{
		{"killed", func(s *server) { s.kill() }},
		{"in order", func(s *server) { s.hears(syscall.SIGTERM); s.exit() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			const longest = 3 * time.Second
			data := filepath.Join(t.TempDir(), "data")
			s := startNode(t, node.Settings{Cap: longest, Fresh: true, Data: data})
			a := start(t, s, "orders", "a")
			b := start(t, s, "orders", "b")
			caller, name := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
			onDisk(t, data, a.kept(eider.Up), b.kept(eider.Up), "corders\x00"+name)
			caller.freeze()
			row.end(s)
			s = s.again(func(n *node.Settings) {}) // --fresh as before: what is on disk says otherwise
			up := time.Now()
			s.happened(eider.EventReattached, "orders", "a")
			s.happened(eider.EventReattached, "orders", "b")
			a.hears(syscall.SIGTERM)
			eventually(t, "drain", func() bool { return len(s.drains("orders")) == 1 })
			lapse(time.Until(up.Add(longest / 2)))
			caller.thaw() // knows nothing, and calls whom it knows
			l := a.awaitKind("report")
			if m, ok := member(l.Report.Members, string(eider.FromBefore)); !ok || m.Kind != eider.FromBefore {
				t.Errorf("nobody from before is named: %v", l.Report)
			}
			if lasted := l.At.Sub(up); lasted < longest-500*time.Millisecond {
				t.Errorf("it left %v after the restart; the largest cap is %v: %v", lasted, longest, l.Report)
			}
			a.exit()
			eventually(t, "more calls", func() bool { return caller.tally().By["b"] > 100 })
			caller.tally().flawless(t, name)
		})
	}
}

// A leave is under way when the registry is killed: it goes on from disk as a leave, and nobody picks the instance.
func TestALeaveUnderWayOutlivesARestart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startNode(t, node.Settings{Cap: 4 * time.Second, Fresh: true, Data: data})
	a := start(t, s, "orders", "a")
	b := start(t, s, "orders", "b")
	caller, name := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
	caller.freeze()
	a.hears(syscall.SIGTERM)
	a.await("drain under way", func(l *line) bool { return l.Drain != nil && l.Drain.Open == 1 })
	onDisk(t, data, a.kept(eider.Draining), b.kept(eider.Up), "corders\x00"+name)
	s.kill()
	s = s.again(memory(data))
	if in, ok := s.view("orders").Find("a"); !ok || in.Status != eider.Draining {
		t.Errorf("after the restart: %+v", s.view("orders"))
	}
	caller.thaw()
	if l := a.awaitKind("report"); l.Report.Exit != 0 {
		t.Errorf("%v", l.Report)
	}
	eventually(t, "its end", func() bool { _, still := s.view("orders").Find("a"); return !still })
}

// A second registry on the folder of one that runs says so, and what to do, and harms nothing.
func TestTwoRegistriesOnOneFolder(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startNode(t, node.Settings{Fresh: true, Data: data})
	second := spawn(t, order{Role: "registry", Settings: node.Settings{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Data: data}})
	if l := second.awaitKind("failed"); !strings.Contains(l.Text, "another eider server") || !strings.Contains(l.Text, "--data") {
		t.Errorf("%s", l.Text)
	}
	if code := second.exit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	onDisk(t, data, start(t, s, "orders", "a").kept(eider.Up))
	s.kill()
	s = s.again(memory(data))
	if len(s.view("orders").Instances) != 1 {
		t.Errorf("%+v", s.view("orders"))
	}
}

// small mounts a file system of so many kilobytes.
func small(t *testing.T, kilobytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk,mode=0700", kilobytes)); err != nil {
		t.Skipf("this machine lets nobody mount a small disk: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// A full disk leaves the registry serving, ready and loud; what it learned meanwhile is on disk once there is room.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	dir := small(t, 64)
	data := filepath.Join(dir, "data")
	s := startNode(t, node.Settings{Fresh: true, Data: data})
	onDisk(t, data, start(t, s, "orders", "a").kept(eider.Up))
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for _, err = f.Write(make([]byte, 4096)); err == nil; {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	reg := registry.Open(registry.Config{Addr: s.grpc, Caller: "many", Logger: quiet})
	defer reg.Close()
	for i := range 300 { // more than the last page of the log has room for
		if _, err := reg.Register(registry.Registration{Service: "billing", ID: fmt.Sprint(i), Address: fmt.Sprint("127.0.0.1:", 20000+i)}); err != nil {
			t.Fatal(err)
		}
	}
	told := s.happened(eider.EventNotKept, "", "")
	if !strings.Contains(told.Detail, "no space left") || !strings.Contains(told.Detail, "make room") {
		t.Errorf("%s", told.Detail)
	}
	b := start(t, s, "orders", "b")
	if s.metric("eider_disk_failing") != 1 || s.metric("eider_node_ready") != 1 || s.metric("eider_node_void_reasons") == 0 {
		t.Error("a full disk isn't seen in the metrics")
	}
	var ready struct{ Void []string }
	if err := s.ask("/readyz", &ready); err != nil || !strings.Contains(strings.Join(ready.Void, "\n"), "is on disk") {
		t.Errorf("%v, %q", err, ready.Void)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.happened(eider.EventKept, "", "")
	if n := len(s.events(eider.EventNotKept)); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	s.kill()
	s = s.again(memory(data))
	if _, ok := s.view("orders").Find("b"); !ok {
		t.Errorf("what was learned while the disk was full is gone: %+v", s.view("orders"))
	}
	_ = b
}

// A folder that can't be written to when the registry starts: what is there is restored, and it goes on writing once it
// can.
func TestAReadOnlyFolder(t *testing.T) {
	t.Parallel()
	dir := small(t, 1024)
	data := filepath.Join(dir, "data")
	s := startNode(t, node.Settings{Fresh: true, Data: data})
	onDisk(t, data, start(t, s, "orders", "a").kept(eider.Up))
	s.kill()
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=1024k,mode=0700"); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	s = s.again(memory(data))
	if _, ok := s.view("orders").Find("a"); !ok {
		t.Errorf("%+v", s.view("orders"))
	}
	if told := s.happened(eider.EventNotKept, "", ""); !strings.Contains(told.Detail, "read-only") {
		t.Errorf("%s", told.Detail)
	}
	start(t, s, "orders", "b")
	remount(0)
	s.happened(eider.EventKept, "", "")
	s.kill()
	if s = s.again(memory(data)); len(s.view("orders").Instances) != 2 {
		t.Errorf("%+v", s.view("orders"))
	}
}
