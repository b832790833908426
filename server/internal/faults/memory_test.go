//go:build linux

package faults

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/node"
)

func memory(data string) func(*node.Settings) {
	return func(s *node.Settings) { s.Data, s.Fresh = data, false }
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
