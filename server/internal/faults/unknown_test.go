//go:build linux

package faults

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/node"
)

// unknownPause is what the instances of these tests ask for their unknown callers: more than a drain waits for anybody else.
const unknownPause = 5 * time.Second

// visited starts two instances at a registry with a memory. Somebody who doesn't say who he is has called the first one,
// and that is on disk.
func visited(t *testing.T) (*server, *instance) {
	t.Helper()
	s := startNode(t, node.Settings{Cap: time.Second, Fresh: true, Data: filepath.Join(t.TempDir(), "data")})
	a := startAs(t, order{GRPC: s.grpc, Service: "orders", ID: "a", Unknown: unknownPause})
	a.isCalled()
	eventually(t, "unknown callers", func() bool { return s.calls(string(eider.UnknownCallers)) })
	start(t, s, "orders", "b")
	later := s.happened(eider.EventRegistered, "orders", "b").Time // what was known before is on disk when this is
	eventually(t, "memory on disk", func() bool {
		return s.metric("eider_disk_written_timestamp_seconds") > float64(later.UnixNano())/1e9
	})
	return s, a
}

// isCalled has the instance called by nobody in particular.
func (i *instance) isCalled() {
	i.t.Helper()
	hc := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := hc.Post("http://"+i.addr+"/pay", "application/json", strings.NewReader("{}"))
	if err != nil {
		i.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		i.t.Fatal(resp.Status)
	}
}

// hold holds an instance, and returns the drain that tells who has let go of it.
func (s *server) hold(id string) eider.Drain {
	s.t.Helper()
	hc := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := hc.Post("http://"+s.http+"/v1/holds", "application/json", strings.NewReader(`{"service": "orders", "id": "`+id+`"}`))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var h eider.Held
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("holding %s: %s, %v", id, resp.Status, err)
	}
	for _, d := range s.drains("orders") {
		if d.ID == id && d.Hold == h.Count {
			return d
		}
	}
	s.t.Fatalf("no drain of hold %d", h.Count)
	return eider.Drain{}
}

// A registry is killed, or ends in order, after its instance was called by somebody who doesn't say who he is. Neither
// the instance, which hangs, nor anybody else can tell the next run of it. That one knows by its disk: a hold right
// after the start isn't said to be over before the pause of unknown callers is, and neither is a leave.
func TestUnknownCallersOutliveARestart(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(*server)
	}{
		{"killed", func(s *server) { s.kill() }},
		{"in order", func(s *server) { s.hears(syscall.SIGTERM); s.exit() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, a := visited(t)
			a.freeze()
			row.end(s)
			s = s.again(func(n *node.Settings) { n.Fresh = false })
			if !s.calls(string(eider.UnknownCallers)) {
				t.Error("right after the restart nobody unknown calls")
			}
			d := s.hold("a")
			if m, ok := member(d.Members, string(eider.UnknownCallers)); !ok || m.Kind != eider.UnknownCallers || m.Cap < time.Second {
				t.Errorf("the hold waits for %+v", d.Members)
			}
			a.hears(syscall.SIGTERM)
			a.thaw()
			r := a.awaitKind("report").Report
			if m, ok := member(r.Members, string(eider.UnknownCallers)); !ok || m.Kind != eider.UnknownCallers || m.Cap != unknownPause {
				t.Errorf("the leave waited for %v", r)
			}
			if r.Pause < unknownPause-100*time.Millisecond {
				t.Errorf("it paused for %v, and asks for %v: %v", r.Pause, unknownPause, r)
			}
		})
	}
}

// A leave that waits for unknown callers is under way when the registry is killed. The next run waits for them too, for
// as long, although nobody tells it: the leaving process hangs.
func TestUnknownCallersOfALeaveOutliveARestart(t *testing.T) {
	t.Parallel()
	s, a := visited(t)
	a.hears(syscall.SIGTERM)
	waits := func(d []eider.Drain) bool {
		if len(d) != 1 {
			return false
		}
		m, ok := member(d[0].Members, string(eider.UnknownCallers))
		return ok && m.Kind == eider.UnknownCallers && m.Cap == unknownPause
	}
	eventually(t, "drain that waits for unknown callers", func() bool { return waits(s.drains("orders")) })
	a.freeze()
	begun := s.happened(eider.EventLeaving, "orders", "a").Time
	eventually(t, "leave on disk", func() bool {
		return s.metric("eider_disk_written_timestamp_seconds") > float64(begun.UnixNano())/1e9
	})
	s.kill()
	s = s.again(func(n *node.Settings) { n.Fresh = false })
	if d := s.drains("orders"); !waits(d) {
		t.Errorf("after the restart: %+v", d)
	}
	a.thaw()
	if r := a.awaitKind("report").Report; r.Pause < unknownPause-100*time.Millisecond || r.Exit != 0 {
		t.Errorf("%v", r)
	}
}
