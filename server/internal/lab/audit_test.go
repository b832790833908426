package lab

import (
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
)

func TestAuditHoldsCallersAgainstDepartures(t *testing.T) {
	const end = int64(time.Minute)
	barrier := departure{To: "1@a", PauseEnd: end, By: string(drain.ByBarrier), Waited: 2}
	capped, many, bound, nobody, unclean := barrier, barrier, barrier, barrier, barrier
	capped.Covered = []string{"slow"}
	many.Covered, many.Anyone = []string{"callers from before"}, true
	bound.By = string(drain.ByBound)
	nobody.Waited = 0
	unclean.Exit = drain.ExitLoss
	for _, c := range []struct {
		name                      string
		left                      departure
		who                       string
		at                        int64
		vacuous, covered, unclean int
	}{
		{"in time", barrier, "quick", end, 0, 0, 0},
		{"after the barrier", barrier, "quick", end + 1, 1, 0, 0},
		{"its cap passed", capped, "slow", end + 1, 0, 1, 0},
		{"another's cap passed", capped, "quick", end + 1, 1, 0, 0},
		{"anybody may be meant", many, "quick", end + 1, 0, 1, 0},
		{"after the bound", bound, "quick", end + 1, 0, 1, 0},
		{"nobody was waited for", nobody, "quick", end, 1, 0, 0},
		{"it lost something", unclean, "quick", end, 0, 0, 1},
	} {
		a := newAudit()
		a.born("1", "1@a")
		a.told("1", time.Unix(0, 1))
		a.hear(line{Kind: "tick", Who: c.who, Tries: map[string]int64{"1@a": c.at}})
		a.hear(line{Kind: "exit", Left: &c.left})
		f := a.find()
		if len(f.vacuous) != c.vacuous || f.covered != c.covered || len(f.unclean) != c.unclean || len(f.evicted) != 0 || f.by[c.left.By] != 1 {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

func TestAuditFindsWhoWasTakenForEnded(t *testing.T) {
	const told = int64(time.Minute)
	for _, c := range []struct {
		name string
		lost int64 // by a roster
		dead int64 // by the registry's word
		told bool
		want int
	}{
		{"lost after it was told to leave", told + 1, 0, true, 0},
		{"lost before", told - 1, 0, true, 1},
		{"lost, and never told", told, 0, false, 1},
		{"dead after it was told to leave", 0, told + 1, true, 0},
		{"dead before", 0, told - 1, true, 1},
	} {
		a := newAudit()
		a.born("1", "1@a")
		if c.told {
			a.told("1", time.Unix(0, told))
			a.born("1", "1@b") // the successor, of which nothing is said
		}
		if c.lost != 0 {
			a.hear(line{Who: "caller", Lost: map[string]loss{"1@a": {At: c.lost}}})
		}
		if c.dead != 0 {
			a.ended("1@a", time.Unix(0, c.dead))
		}
		if f := a.find(); len(f.evicted) != c.want {
			t.Errorf("%s: %q", c.name, f.evicted)
		}
	}
}

// An incarnation is the same under another number: equality is by nonce.
func TestNamesAreByNonce(t *testing.T) {
	in := eider.Incarnation{Number: 3, Nonce: 0xbeef}
	want := nameOf("a-1", in)
	for _, number := range []uint64{0, 3, 12} {
		in.Number = number
		if got := nameOfHeader("a-1@" + in.String()); got != want || nameOf("a-1", in) != want || !strings.HasPrefix(got, "a-1@") {
			t.Errorf("%d: %q, want %q", number, got, want)
		}
	}
}

func TestReportsAreSummedUpForTheAudit(t *testing.T) {
	now := time.Unix(100, 0)
	d := departed(drain.Report{ID: "1", Incarnation: eider.Incarnation{Number: 1, Nonce: 10}, Pause: 3 * time.Second, Took: 5 * time.Second, EndedBy: drain.ByBarrier,
		Members: []eider.Member{{Caller: "a", Kind: eider.Native, State: eider.LetGo}, {Caller: "b", Kind: eider.Native, State: eider.Capped}}}, now)
	if d.PauseEnd != now.Add(-2*time.Second).UnixNano() || d.Anyone || len(d.Covered) != 1 || !d.excuses("b") || d.excuses("a") {
		t.Errorf("%+v", d)
	}
	d = departed(drain.Report{EndedBy: drain.ByBarrier, Members: []eider.Member{{Caller: "before", Kind: eider.FromBefore, State: eider.Capped}}}, now)
	if !d.excuses("a") {
		t.Errorf("%+v", d)
	}
}

func TestBrokenSoaksAreNamed(t *testing.T) {
	kept := Soaking{Requests: 1, Kills: 1, Restarts: 1, Covered: 3}
	if broken := kept.broken(); len(broken) > 0 {
		t.Errorf("kept promises are called broken: %q", broken)
	}
	for name, change := range map[string]func(*Soaking){
		"failed":  func(r *Soaking) { r.Failed = 1 },
		"evicted": func(r *Soaking) { r.FalseEvictions = 1 },
		"vacuous": func(r *Soaking) { r.Vacuous = 1 },
		"unclean": func(r *Soaking) { r.Unclean = 1 },
		"nothing": func(r *Soaking) { r.Kills = 0 },
	} {
		r := kept
		if change(&r); len(r.broken()) != 1 {
			t.Errorf("%s: %q", name, r.broken())
		}
	}
	for _, s := range []Soak{{Callers: -1}, {For: -1}, {Instances: 4, Restarting: 3}} {
		if s.complete() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
	var usual Soak
	if err := usual.complete(); err != nil || usual != (Soak{For: 10 * time.Minute, KillEvery: 5 * time.Second, Callers: 200, Instances: 50, Restarting: 4, Think: time.Second}) {
		t.Errorf("%v, %+v", err, usual)
	}
}
