//go:build linux

package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

// A caller that is killed goes on being waited for, since its node can't know whether it still calls: under its
// cap, and named as disconnected.
func TestACallerThatDiesWithoutAWordIsCappedAndNamed(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true, Cap: 1200 * time.Millisecond})
	a := start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	caller, name := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
	caller.kill()
	a.hears(syscall.SIGTERM)
	r := a.awaitKind("report").Report
	m, ok := member(r.Members, name)
	if !ok || m.Stream || m.State == eider.LetGo || m.State == eider.Ended || m.State == eider.SaidGoodbye {
		t.Errorf("it is named %v", r.Members)
	}
	if r.Pause < 1100*time.Millisecond || r.Pause > 2*time.Second || r.Waited != 1 {
		t.Errorf("%v", r)
	}
	if !strings.Contains(r.String(), name) {
		t.Errorf("the report doesn't name %s:\n%v", name, r)
	}
}

// A caller that is killed and was an instance itself is known to have ended by the evidence for that: no drain
// waits for it.
func TestACallerWhoseOwnInstanceDiedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	a := start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	caller, name := startCaller(t, order{GRPC: s.grpc, Service: "orders", Base: true, ID: "checkout"})
	a.freeze() // so that the leave comes while the caller is a member for certain
	a.hears(syscall.SIGTERM)
	caller.freeze()
	a.thaw()
	eventually(t, "drain that waits", func() bool { d := s.drains("orders"); return len(d) == 1 && d[0].Open == 1 })
	killed := caller.hears(syscall.SIGKILL)
	r := a.awaitKind("report").Report
	if m, ok := member(r.Members, name); !ok || m.State != eider.Ended {
		t.Errorf("it is named %v", r.Members)
	}
	if dead := s.happened(eider.EventDead, "checkout", "1"); dead.Time.Sub(killed) > 2*time.Second {
		t.Errorf("DEAD %v after the kill", dead.Time.Sub(killed))
	}
	if r.EndedBy != drain.ByBarrier || r.Open != 0 || r.Pause > 6*time.Second {
		t.Errorf("%v", r)
	}
	late := startLoad(t, s.grpc, "orders", 1)
	late.rest()
	late.sum().flawless(t, "a later caller")
}

// A caller that is stopped never acknowledges: it is waited for 8 s, the default, and named; then it is on its own.
func TestACallerThatNeverAcknowledgesIsCappedAfter8sAndNamed(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	a := start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	good := startLoad(t, s.grpc, "orders", 3)
	caller, name := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
	caller.freeze()
	a.hears(syscall.SIGTERM)
	waiting := a.await("progress that names who is waited for", func(l *line) bool {
		return l.Kind == "log" && strings.Contains(l.Text, "waiting for 1 of 4: "+name)
	})
	r := a.awaitKind("report").Report
	if m, ok := member(r.Members, name); !ok || m.State != eider.Capped && m.State != eider.Waiting {
		t.Errorf("it is named %v", r.Members)
	}
	if r.Pause < 7900*time.Millisecond || r.Pause > 9*time.Second || r.Waited != 4 || r.Exit != drain.ExitClean {
		t.Errorf("%v", r)
	}
	for _, l := range good.loops {
		if m, ok := member(r.Members, l.reg.Caller()); !ok || m.State != eider.LetGo || m.Settled > 3*time.Second {
			t.Errorf("a good caller: %v", m)
		}
	}
	// The cap and the instance's own bound are the same 8 s, and begin at the same word: chance says which is over first. After
	// the bound the instance leaves, and nobody may be capped any more. That each cap is told the suite of replicas holds.
	eventually(t, "cap, told as an event", func() bool {
		for _, e := range s.events(eider.EventCapped) {
			if e.Caller == name {
				return true
			}
		}
		return r.EndedBy == drain.ByBound
	})
	caller.thaw() // it finds the port closed, and goes elsewhere
	eventually(t, "call of the other", func() bool { return caller.tally().By["b"] > 100 })
	caller.tally().flawless(t, "the late one")
	good.rest()
	good.sum().flawless(t, "the good callers")
	t.Logf("pause %v; %s", r.Pause, waiting.Text)
}

// A caller that hung while an instance left and comes back within the cap is waited for and loses nothing.
func TestACallerThatHangsForAWhileLosesNothing(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	a := start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	caller, name := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
	caller.freeze()
	a.hears(syscall.SIGTERM)
	lapse(time.Second)
	woken := time.Now()
	caller.thaw()
	report := a.awaitKind("report")
	r := report.Report
	if m, ok := member(r.Members, name); !ok || m.State != eider.LetGo || r.EndedBy != drain.ByBarrier {
		t.Errorf("%v", r)
	}
	if after := report.At.Sub(woken); after < 0 || after > 4*time.Second {
		t.Errorf("it left %v after the last caller had come back", after)
	}
	a.exit()
	eventually(t, "more calls", func() bool { return caller.tally().By["b"] > 100 })
	caller.tally().flawless(t, name)
}

// The last instance leaves: its callers' lack of an alternative is said at once, it serves until its cap; one that
// comes up in time ends the pause at once.
func TestTheLastInstanceSaysSoAtOnceAndWaits(t *testing.T) {
	for _, row := range []struct {
		name string
		cap  time.Duration
		next bool // an alternative comes up
	}{{"alone", 1500 * time.Millisecond, false}, {"relieved", 8 * time.Second, true}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := startNode(t, node.Settings{Fresh: true, Cap: row.cap})
			a := start(t, s, "orders", "a")
			ld := startLoad(t, s.grpc, "orders", 3)
			left := a.hears(syscall.SIGTERM)
			said := a.await("word that there is no alternative", func(l *line) bool {
				return l.Drain != nil && l.Drain.Open == 3 && len(l.Drain.Members) == 3 && l.Drain.Members[2].State == eider.NoAlternative &&
					l.Drain.Members[1].State == eider.NoAlternative && l.Drain.Members[0].State == eider.NoAlternative
			})
			if after := said.At.Sub(left); after > time.Second {
				t.Errorf("said %v after the leave", after)
			}
			var up time.Time
			if row.next {
				ld.each(20)
				start(t, s, "orders", "b")
				up = time.Now()
			}
			ld.each(20)
			if !row.next {
				ld.rest() // before the cap: after it nobody is left to call
			}
			l := a.awaitKind("report")
			if r := l.Report; row.next && (r.EndedBy != drain.ByBarrier || r.Open != 0 || l.At.Sub(up) > 3*time.Second) ||
				!row.next && (r.Pause < row.cap-100*time.Millisecond || r.Pause > row.cap+time.Second) || r.Waited != 3 || r.Exit != drain.ExitClean {
				t.Errorf("%v", r)
			}
			if row.next {
				ld.each(20)
				t.Logf("it left %v after the alternative was listed", l.At.Sub(up).Round(time.Millisecond))
			}
			ld.rest()
			ld.sum().flawless(t, "orders")
		})
	}
}
