package drain

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

func member(caller string, kind eider.CallerKind, state eider.MemberState) eider.Member {
	return eider.Member{Caller: caller, Kind: kind, State: state, Stream: true, Cap: 8 * time.Second}
}

// unknownCase is one pause that may be ended early, or not.
type unknownCase struct {
	name    string
	cfg     Config
	members []eider.Member
	before  bool     // an unknown caller came before the leave
	since   []string // who comes after it, "" for a nobody
	after   time.Duration
	by      EndedBy
	open    int // at the end
}

// come lets those come who come since.
func (c *unknownCase) come(d *drainer) {
	for _, caller := range c.since {
		d.since.met(&exchange{caller: caller}, caller != "")
	}
}

// settle has the node say how its members stand.
func (c *unknownCase) settle(s *script) {
	s.says(func() {
		s.heard, s.drain = true, eider.Drain{Total: len(c.members), Members: c.members, Reached: true}
		for _, m := range c.members {
			if !m.State.Settled() {
				s.drain.Open, s.drain.Reached = s.drain.Open+1, false
			}
		}
	})
}

// By whom a pause may be ended early, and by whom not.
func TestUnknownCallersHaveAPauseOfTheirOwn(t *testing.T) {
	known := []eider.Member{member("checkout@b2", eider.Native, eider.LetGo)}
	s := time.Second
	for _, c := range []unknownCase{
		{name: "everybody is known", members: known, since: []string{"checkout@b2"}, after: s, by: ByBarrier},
		{name: "somebody unknown before the leave", members: known, before: true, after: 8 * s, by: ByBarrier},
		{name: "somebody unknown since", members: known, since: []string{"checkout@b2", ""}, after: 8 * s, by: ByBarrier},
		{name: "nobody counted, somebody unknown since", since: []string{""}, after: 8 * s, by: ByBarrier},
		{name: "a name that isn't counted", members: known, since: []string{"web@c3"}, after: 8 * s, by: ByBarrier},
		{name: "a pause of its own length", cfg: Config{Unknown: 3 * s}, members: known, before: true, after: 3 * s, by: ByBarrier},
		{name: "none", cfg: Config{Unknown: -1}, members: known, before: true, since: []string{""}, after: s, by: ByBarrier},
		{name: "more than the grace allows", cfg: Config{Unknown: time.Minute}, members: known, before: true, after: 8 * s, by: ByGrace, open: 1},
		{name: "the node counts them as well", members: append([]eider.Member{member("unknown", eider.UnknownCallers, eider.Waiting)}, known...), before: true, after: 8 * s, by: ByBarrier},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				s.bound = 5 * time.Second // as pushed before anybody unknown came
				d := paused(t, c.cfg, s)
				d.work = registry.NewWork()
				if c.before {
					d.work.Unknown()
				}
				go func() {
					time.Sleep(time.Second / 2)
					c.come(d)
					time.Sleep(time.Second / 2)
					c.settle(s)
				}()
				begun := time.Now()
				by, _ := d.pause(scriptLeaving{s}, nil, nil)
				if took := time.Since(begun); by != c.by || took.Round(time.Millisecond) != c.after {
					t.Errorf("ended by %s after %s, want %s after %s", by, took, c.by, c.after)
				}
				dr, _ := scriptLeaving{s}.Drain()
				d.unknown(&dr)
				if dr.Open != c.open || dr.Total != len(dr.Members) {
					t.Errorf("at the end: %+v", dr)
				}
				if text := fmt.Sprint(dr.Members); (c.after > time.Second) != strings.Contains(text, "unknown") {
					t.Errorf("the members are %s", text)
				}
			})
		})
	}
}

// With more callers than a drain lists, a name is as good as a member: else no early end with a large fleet.
func TestUnlistedMembersAreCounted(t *testing.T) {
	var s strangers
	d := eider.Drain{Total: 40}
	for i := range eider.MaxMembers {
		d.Members = append(d.Members, member(fmt.Sprint("checkout@", i), eider.Native, eider.LetGo))
	}
	for i := range 1000 {
		s.met(&exchange{caller: fmt.Sprint("web@", i)}, true)
	}
	if s.uncounted(d) {
		t.Error("a caller beyond those that are listed isn't counted")
	}
	if d.Total = len(d.Members); !s.uncounted(d) {
		t.Error("callers that aren't members are counted")
	}
	if len(s.callers) > eider.MaxMembers+1 {
		t.Errorf("%d names are kept", len(s.callers))
	}
	d.Total++
	if s.met(&exchange{}, false); !s.uncounted(d) {
		t.Error("somebody without a name is counted")
	}
}

// What makes an unknown caller over the wire, and what doesn't.
func TestWhoIsUnknown(t *testing.T) {
	for _, c := range []struct {
		name, path string
		headers    []string
		unknown    [2]bool // before the leave, and since
	}{
		{"one of ours", "/pay", mine(), [2]bool{}},
		{"nobody", "/pay", nil, [2]bool{true, true}},
		{"a name that a proxy passed on", "/pay", mine()[1:], [2]bool{false, true}},
		{"for this instance, by nobody", "/pay", mine()[:1], [2]bool{true, true}},
		{"a probe of kubelet", "/", []string{"User-Agent: kube-probe/1.31"}, [2]bool{}},
		{"somebody like a probe", "/", []string{"User-Agent: my kube-probe/1.31"}, [2]bool{true, true}},
		{"a health path", "/readyz", nil, [2]bool{}},
		{"a path that only begins like one", "/readyzone", nil, [2]bool{true, true}},
		{"for somebody else", "/pay", []string{"Eider-To: 2@7-000000000000beef"}, [2]bool{}},
	} {
		for at, since := range []bool{false, true} {
			unknown, most := c.unknown[at], patience/2 // longer than a busy machine takes for the leave
			if unknown {
				most = 300 * time.Millisecond
			}
			t.Run(fmt.Sprintf("%s since the leave %t", c.name, since), func(t *testing.T) {
				r := begin(t, hello, func(_ *http.Server, cfg *Config) { cfg.Unknown = most })
				r.reg.drain = eider.Drain{Total: 1, Members: []eider.Member{member("checkout@b2", eider.Native, eider.LetGo)}}
				r.reg.heard = true
				p := r.dial()
				if since {
					r.leave()
				}
				p.send(c.path, c.headers...)
				p.answer()
				if !since {
					r.leave()
				}
				r.barrier()
				rep := r.end()
				if got := len(rep.Members) == 2; got != unknown || rep.Open != 0 || got != (rep.Pause >= most) {
					t.Errorf("it paused for %s, and the members are %v", rep.Pause, rep.Members)
				}
				if unknown && !strings.Contains(rep.String(), "1 of 2 let go; unknown: covered by their cap after 300ms") {
					t.Errorf("the report doesn't tell of the unknown:\n%s", rep)
				}
			})
		}
	}
}

// The paths that only look are a setting, and are told apart in the report.
func TestProbesAreASetting(t *testing.T) {
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Probes, c.Unknown = []string{"/up"}, 300*time.Millisecond })
	r.leave()
	for _, path := range []string{"/up", "/healthz"} {
		p := r.dial()
		p.send(path)
		p.answer()
	}
	r.barrier()
	if rep := r.end(); rep.Pause < 300*time.Millisecond || rep.ServedBy[ProbesBy] != 1 || rep.ServedBy[""] != 1 || rep.Waited != 1 {
		t.Errorf("%+v", rep)
	}
}
