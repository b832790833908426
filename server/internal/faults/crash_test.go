//go:build linux

package faults

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/node"
)

// kill -9 of an instance in mid-drain: evidence ends it as it would any other, its drain with it, and its callers
// go elsewhere.
func TestU1KillInMidDrain(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	a := start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	ld := startLoad(t, s.grpc, "orders", 3)
	hung, _ := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
	hung.freeze()
	a.hears(syscall.SIGTERM)
	a.await("drain that waits for one", func(l *line) bool { return l.Drain != nil && l.Drain.Open == 1 && l.Drain.Total == 4 })
	killed := a.hears(syscall.SIGKILL)
	gone := refuses(t, a.addr)
	if took := s.happened(eider.EventDead, "orders", "a").Time.Sub(killed); took > 2*time.Second {
		t.Errorf("DEAD %v after the kill", took)
	}
	if d := s.drains("orders"); len(d) != 1 || d[0].Status != eider.Dead {
		t.Errorf("its drain: %+v", d)
	}
	hung.thaw()
	eventually(t, "calls of who hung", func() bool { return hung.tally().By["b"] > 50 })
	ld.each(20)
	ld.rest()
	for whose, sum := range map[string]tally{"callers": ld.sum(), "who hung": hung.tally()} {
		for _, f := range sum.Failures {
			if f.Began.After(gone) {
				t.Errorf("%s: a call begun %v after the first refusal failed: %s", whose, f.Began.Sub(gone), f.Text)
			}
		}
	}
}

// kill -9 of five of six at once. More refuse than the node believes by itself: it takes two for dead, and the others
// are suspect. A caller who had a good answer there a moment ago is no witness yet; ten seconds later it is, and what is
// left for silence lapses. Meanwhile the last one is called: refused dials use up no tries.
func TestU1KillOfMostOfAFleet(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true, Beat: time.Second, Lease: 10 * time.Second})
	var fleet []*instance
	for i := range 6 {
		fleet = append(fleet, start(t, s, "orders", fmt.Sprint(i)))
	}
	ld := startLoad(t, s.grpc, "orders", 4)
	ld.each(30)
	killed := time.Now()
	for _, in := range fleet[:5] {
		in.hears(syscall.SIGKILL)
	}
	var gone time.Time
	for _, in := range fleet[:5] {
		gone = refuses(t, in.addr)
	}
	eventually(t, "mass refusal", func() bool { return len(s.events(eider.EventMassRefusal)) == 1 })
	ld.each(30)
	before := ld.sum()
	dead := func() (alone, witnessed int) {
		for _, e := range s.events(eider.EventDead) {
			if strings.Contains(e.Detail, "callers see the same") {
				witnessed++
			} else {
				alone++
			}
		}
		return alone, witnessed
	}
	if n, _ := dead(); n != 2 {
		t.Errorf("the node takes %d for dead by itself, want 2", n)
	}
	ends := func() (n int) { return len(s.events(eider.EventDead, eider.EventLapsed)) }
	eventually(t, "end of all five", func() bool { return ends() == 5 })
	took := time.Since(killed)
	ld.each(20)
	ld.rest()
	after := ld.sum()
	for _, f := range after.Failures {
		if f.Began.After(gone) {
			t.Errorf("a call begun %v after the last refusal failed: %s", f.Began.Sub(gone), f.Text)
		}
	}
	if len(after.Failures) > len(before.Failures) {
		t.Errorf("%d calls failed long after the crash", len(after.Failures)-len(before.Failures))
	}
	for _, in := range fleet[:5] {
		if n := after.Tries[in.id] - before.Tries[in.id]; n > 8*len(ld.loops) { // trials, ever less often
			t.Errorf("%s was called %d times more", in.id, n)
		}
	}
	_, witnessed := dead()
	if v := s.view("orders"); len(v.Instances) != 1 || v.Instances[0].ID != "5" || witnessed == 0 || ends() != 5 {
		t.Errorf("%d ended, %d of them seen by callers: %+v", ends(), witnessed, v)
	}
	t.Logf("all five ended %v after the kill, %d of them seen by callers; %d of %d calls failed", took.Round(time.Millisecond), witnessed, len(after.Failures), after.Requests)
}
