//go:build linux

package faults

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// An instance leaves within a second of a restart of the registry, which keeps nothing on disk. A caller that
// still has it in its list and comes back late isn't cut: the node waits out the largest cap for whoever may have
// called before it started.
func TestALeaveAfterARegistryRestartIsNoVacuousBarrier(t *testing.T) {
	t.Parallel()
	const longest = 3 * time.Second
	s := startNode(t, node.Settings{Cap: longest, Fresh: true})
	a := start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	caller, name := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
	caller.freeze()
	s.kill()
	s = s.again(func(n *node.Settings) { n.Fresh = false })
	up := time.Now()
	eventually(t, "return of both", func() bool { return len(s.view("orders").Instances) == 2 })
	if took := time.Since(up); took > time.Second {
		t.Logf("the instances needed %v to attach again", took)
	}
	a.hears(syscall.SIGTERM)
	eventually(t, "drain", func() bool { return len(s.drains("orders")) == 1 })
	lapse(time.Until(up.Add(longest / 2)))
	caller.thaw() // knows nothing, and calls whom it knows
	l := a.awaitKind("report")
	if m, ok := member(l.Report.Members, string(eider.FromBefore)); !ok || m.Kind != eider.FromBefore {
		t.Errorf("nobody from before is named: %v", l.Report)
	}
	if lasted := l.At.Sub(up); lasted < longest-300*time.Millisecond || lasted > longest+2*time.Second {
		t.Errorf("it left %v after the restart; the largest cap is %v: %v", lasted, longest, l.Report)
	}
	a.exit()
	eventually(t, "more calls", func() bool { return caller.tally().By["b"] > 100 })
	caller.tally().flawless(t, name)
}

// The registry is away, killed or hung, while a drain waits: the pause is the bound that was pushed, callers that
// come back meanwhile learn of the leave from the instance itself, nothing is lost and nobody else is suspected.
func TestARegistryThatGoesAwayInMidDrain(t *testing.T) {
	const bound = 2 * time.Second
	for _, row := range []struct {
		name string
		away func(*server)
		back func(*server) *server
	}{
		{"killed", func(s *server) { s.kill() }, func(s *server) *server { return s.again(func(*node.Settings) {}) }},
		{"hung", func(s *server) { s.freeze() }, func(s *server) *server { s.thaw(); return s }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := startNode(t, node.Settings{Fresh: true, Cap: bound})
			a := start(t, s, "orders", "a")
			b := start(t, s, "orders", "b")
			caller, name := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
			good := startLoad(t, s.grpc, "orders", 2)
			caller.freeze()
			a.hears(syscall.SIGTERM)
			a.await("drain under way", func(l *line) bool { return l.Drain != nil && l.Drain.Total == 3 && l.Drain.Open == 1 })
			row.away(s)
			before := time.Now()
			caller.thaw()
			eventually(t, "calls", func() bool { return caller.tally().By["b"] > 60 })
			t1 := caller.tally()
			l := a.awaitKind("report")
			if r := l.Report; r.EndedBy != drain.ByBound || !r.Heard || r.Pause < bound-50*time.Millisecond || r.Pause > bound+500*time.Millisecond ||
				r.Took > bound+3*time.Second || r.Left || r.Exit != drain.ExitClean {
				t.Errorf("%v", r)
			}
			eventually(t, "calls after its end", func() bool { return caller.tally().By["b"] > t1.By["b"]+60 })
			good.each(10)
			t2 := caller.tally()
			t2.flawless(t, name)
			if last := t2.Last["a"].Sub(before); last > bound/2 {
				t.Errorf("it was still picked after %v, although every answer says that it leaves", last)
			}
			s = row.back(s)
			eventually(t, "present state", func() bool {
				in, ok := s.view("orders").Find("b")
				_, still := s.view("orders").Find("a")
				return ok && in.Status == eider.Up && in.Suspicion == 0 && !still
			})
			good.each(10)
			good.rest()
			good.sum().flawless(t, "the others")
			if e := s.events(eider.EventLapsed); len(e) > 0 {
				t.Errorf("%v", e)
			}
			_ = b
		})
	}
}

// A registry that was paused for longer than a lease and goes on: nobody has lapsed, and nobody stays suspect,
// though each service has one instance only. EIDER_LONG=1 pauses 30 s with the default figures.
func TestAPausedRegistryLapsesNobody(t *testing.T) {
	t.Parallel()
	settings, pause := node.Settings{Fresh: true, Beat: 500 * time.Millisecond, Lease: 5 * time.Second}, 7*time.Second
	if os.Getenv("EIDER_LONG") != "" {
		settings, pause = node.Settings{Fresh: true}, 30*time.Second
	}
	lease := node.Defaults().Lease
	if settings.Lease != 0 {
		lease = settings.Lease
	}
	s := startNode(t, settings)
	const services = 6
	var loads []*load
	reg := registry.Open(registry.Config{Addr: s.grpc, Caller: "singletons", Logger: quiet})
	defer reg.Close()
	for i := range services {
		start(t, s, fmt.Sprintf("single%d", i), "1")
		loads = append(loads, startLoad(t, s.grpc, fmt.Sprintf("single%d", i), 1))
	}
	s.freeze()
	lapse(pause)
	for _, ld := range loads {
		ld.each(5)
	}
	s.thaw()
	back := time.Now()
	whole := func() (suspects int) {
		for i := range services {
			in, ok := s.view(fmt.Sprintf("single%d", i)).Find("1")
			if !ok || in.Status != eider.Up {
				t.Fatalf("single%d has ended: %v", i, s.events())
			}
			if in.Suspicion != 0 {
				suspects++
			}
		}
		return suspects
	}
	eventually(t, "cure of all", func() bool { return whole() == 0 })
	t.Logf("nobody was suspect %v after it went on", time.Since(back).Round(time.Millisecond))
	since := time.Now()
	holds(t, "nobody is suspect", lease+lease/4, func() bool { return whole() == 0 || time.Since(since) < lease/4 })
	if e := s.events(eider.EventLapsed, eider.EventDead); len(e) > 0 {
		t.Errorf("%v", e)
	}
	if e := s.events(eider.EventPaused); len(e) == 0 {
		t.Error("the node doesn't tell that it was paused")
	}
	for _, ld := range loads {
		ld.each(5)
		ld.rest()
		ld.sum().flawless(t, ld.loops[0].service)
	}
}
