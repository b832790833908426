package outlook_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/outlook"
)

const s = time.Second

func known() outlook.Known {
	return outlook.Known{Instances: 3, Node: eider.Node{Name: "n", Complete: true},
		Timing: eider.Timing{Service: "orders", Beat: 2 * s, Lease: 20 * s, SuspectAfter: 4 * s, Evidence: 300 * time.Millisecond, Reattach: s,
			Batch: 5 * time.Millisecond, Cap: 8 * s, Bound: 8 * s}}
}

func native(id string) eider.Caller {
	return eider.Caller{ID: id, Kind: eider.Native, Service: "orders", Cap: 8 * s}
}

func seconds(d time.Duration) outlook.Seconds { return outlook.Seconds(d) }

// Each kind of caller has a window of its own, and a planned departure waits for the longest, not for the sum.
func TestThePlannedWindowIsThatOfTheSlowestCallers(t *testing.T) {
	k := known()
	poller := func(id string, every, cache time.Duration) eider.Caller {
		return eider.Caller{ID: id, Kind: eider.Poller, Service: "orders", Every: every, Cache: cache}
	}
	for _, c := range []struct {
		name   string
		caller []eider.Caller
		change func(*outlook.Known)
		worst  time.Duration
		groups []string // kind and worst, in order
	}{
		{name: "nobody calls"},
		{name: "native", caller: []eider.Caller{native("a"), native("b")}, worst: 8 * s, groups: []string{"native 2 8"}},
		{name: "pollers are quicker", caller: []eider.Caller{native("a"), poller("b", 2*s, 0)}, worst: 8 * s, groups: []string{"native 1 8", "poller: every 2s, cache 0s 1 3"}},
		{name: "pollers are slower", caller: []eider.Caller{native("a"), poller("b", 30*s, 35*s), poller("c", 30*s, 35*s), poller("d", 30*s, 0)}, worst: 66 * s,
			groups: []string{"poller: every 30s, cache 35s 2 66", "poller: every 30s, cache 0s 1 31", "native 1 8"}},
		{name: "unknown", caller: []eider.Caller{native("a"), {ID: "unknown", Kind: eider.UnknownCallers}}, worst: 12 * s,
			change: func(k *outlook.Known) { k.Timing.Unknown = 12 * s }, groups: []string{"unknown 0 12", "native 1 8"}},
		{name: "from before", caller: []eider.Caller{native("a")}, worst: 9 * s,
			change: func(k *outlook.Known) { k.Timing.Before = 9 * s }, groups: []string{"callers from before 0 9", "native 1 8"}},
	} {
		k.Callers = c.caller
		k.Timing.Unknown, k.Timing.Before = 0, 0
		if c.change != nil {
			c.change(&k)
		}
		l := outlook.OfService(k)
		if l.Planned.Worst != seconds(c.worst) {
			t.Errorf("%s: the planned worst case is %s, want %s", c.name, time.Duration(l.Planned.Worst), c.worst)
		}
		var groups []string
		for _, g := range l.Callers {
			worst, _ := json.Marshal(g.Worst)
			count, _ := json.Marshal(g.Count)
			groups = append(groups, g.Kind+" "+string(count)+" "+string(worst))
		}
		if strings.Join(groups, "|") != strings.Join(c.groups, "|") {
			t.Errorf("%s: the callers are %q, want %q", c.name, groups, c.groups)
		}
	}
}

// A crash has three windows: its host is lost, its port refuses, callers prefer others.
func TestTheWindowsOfACrash(t *testing.T) {
	l := outlook.OfService(known())
	for name, c := range map[string]struct{ got, want outlook.Seconds }{
		"crash": {l.Crash.Worst, seconds(20005 * time.Millisecond)}, "killed": {l.Killed.Worst, seconds(305 * time.Millisecond)},
		"suspect": {l.Suspect.Worst, seconds(4005 * time.Millisecond)}, "crash, mean": {l.Crash.Mean, seconds(19002500 * time.Microsecond)},
		"pause": {l.Recommend.Pause, seconds(8 * s)}, "sleep": {l.Recommend.Sleep, 0}, "grace": {l.Recommend.Grace, seconds(30 * s)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, time.Duration(c.got), time.Duration(c.want))
		}
	}
	if l.Crash.Void != "" {
		t.Errorf("nothing voids it, and it says %q", l.Crash.Void)
	}
	k := known()
	k.Node.Void = []string{"preserving payments", "the disk is full"} // which doesn't keep anybody of this service
	if l = outlook.OfService(k); l.Crash.Void != "" || len(l.Void) != 2 {
		t.Errorf("what voids others' windows voids this one: %q, of the node %q", l.Crash.Void, l.Void)
	}
	k.Timing.Refused = []string{"3 instances refused dials"}
	if l = outlook.OfService(k); l.Killed.Worst != l.Crash.Worst || l.Killed.Void != "" || l.Killed.Terms[0].Min != 0 || !strings.Contains(l.Killed.Terms[0].Source, "3 instances refused dials") {
		t.Errorf("a refusal ends nobody now, so that the lease bounds it: %+v", l.Killed)
	}
	k.Timing.Void = []string{"preserving orders", "and more"}
	if l = outlook.OfService(k); l.Killed.Void != l.Crash.Void {
		t.Errorf("and where none runs out that is void too: %q", l.Killed.Void)
	}
	if k.Timing.Refused = nil; outlook.OfService(k).Killed.Void != "" {
		t.Error("a refusal ends whom the node preserves")
	}
	if l = outlook.OfService(k); l.Crash.Void != "preserving orders; and more" || l.Planned.Void != "" {
		t.Errorf("the node preserves: crash %q, planned %q", l.Crash.Void, l.Planned.Void)
	}
}

func drained(took, bound time.Duration, members ...eider.Member) eider.Drain {
	return eider.Drain{Departure: eider.Departure{Key: eider.Key{Service: "orders", ID: "1"}}, Kind: eider.LeaveDrain, Bound: bound, Barrier: took, Reached: true, Total: len(members), Members: members}
}

// What departures took stands beside what was derived, and shapes the spread, never the worst case.
func TestMeasuredStandsBesideDerived(t *testing.T) {
	k := known()
	k.Callers = []eider.Caller{native("a")}
	if l := outlook.OfService(k); l.Planned.Mean != seconds(4*s) || l.Measured.Drains != 0 || l.Measured.Pauses == nil {
		t.Errorf("nothing is measured: a mean of %s, %+v", time.Duration(l.Planned.Mean), l.Measured)
	}
	letGo := func(after time.Duration) eider.Member {
		return eider.Member{Kind: eider.Native, State: eider.LetGo, Settled: after}
	}
	k.Drains = []eider.Drain{
		{Kind: eider.LeaveDrain, Bound: 8 * s}, // still runs
		drained(20*time.Millisecond, 8*s, letGo(20*time.Millisecond), letGo(10*time.Millisecond)),
		drained(8100*time.Millisecond, 8*s, letGo(30*time.Millisecond), eider.Member{Kind: eider.Native, State: eider.Capped, Settled: 8100 * time.Millisecond}),
		drained(9500*time.Millisecond, 8*s, eider.Member{Kind: eider.Poller, State: eider.Polled}),
		{Kind: eider.HoldDrain, Bound: 8 * s, Barrier: 99 * s, Reached: true},
	}
	l := outlook.OfService(outlook.Known{Timing: k.Timing, Callers: k.Callers, Drains: k.Drains[1:2]})
	if l.Planned.Worst != seconds(8*s) || l.Planned.Mean != seconds(15*time.Millisecond) {
		t.Errorf("all have let go within 20ms: worst %s, mean %s; a bound isn't a likelihood", time.Duration(l.Planned.Worst), time.Duration(l.Planned.Mean))
	}
	l = outlook.OfService(k)
	m := l.Measured
	if m.Drains != 3 || m.Capped != 1 || m.Exceeded != 1 || m.Max != seconds(9500*time.Millisecond) || m.P50 != seconds(8100*time.Millisecond) || len(m.Pauses) != 3 ||
		m.Pauses[0].Took != seconds(20*time.Millisecond) || m.Pauses[0].Ended != "let go" || m.Pauses[1].Ended != "capped" {
		t.Errorf("measured: %+v", m)
	}
	if m := outlook.OfService(outlook.Known{Drains: []eider.Drain{drained(0, 8*s)}}).Measured; m.Drains != 1 || m.Pauses[0].Ended != "nobody called" {
		t.Errorf("a departure that nobody had to let go of: %+v", m)
	}
	if l.Planned.Worst != seconds(8*s) || l.Planned.Mean != seconds(2015*time.Millisecond) {
		t.Errorf("planned: worst %s, mean %s; want 8s and the mean of 10, 20, 30ms and 8s", time.Duration(l.Planned.Worst), time.Duration(l.Planned.Mean))
	}
}

// The answer is bounded, however many ways of polling strangers think of.
func TestTheAnswerIsBounded(t *testing.T) {
	k := known()
	for i := range 1000 {
		k.Callers = append(k.Callers, eider.Caller{Kind: eider.Poller, Every: time.Duration(i+1) * s})
		k.Drains = append(k.Drains, drained(s, 8*s))
	}
	l := outlook.OfService(k)
	if len(l.Callers) != 16 || l.Planned.Worst != seconds(1001*s) || l.Fleet.Callers != 1000 || len(l.Measured.Pauses) != 16 || l.Measured.Drains != 1000 {
		t.Errorf("%d groups, worst %s, %d pauses", len(l.Callers), time.Duration(l.Planned.Worst), len(l.Measured.Pauses))
	}
}
