package offline

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiderhq/eider/server/internal/outlook"
	"github.com/eiderhq/eider/window"
)

// till is a service with two kinds of callers, of whose last three departures a cap ended one, and nobody called another.
func till() outlook.Live {
	of := func(terms ...window.Term) outlook.Path {
		return outlook.Of(window.Forecast{Planned: window.Window{Terms: terms}}, window.Fleet{}, 0).Planned
	}
	poll, cache := window.Uniform("poll", 0, 10*time.Second, "every = 10s, by its own word"), window.Uniform("its cache", 0, 5*time.Second, "cache = 5s, by its own word")
	let, lease := window.Uniform("callers let go", 0, 8*time.Second, "cap = 8s, of the node"), window.Uniform("lease", 18*time.Second, 20*time.Second, "lease = 20s, beat = 2s")
	s := func(d time.Duration) outlook.Seconds { return outlook.Seconds(d) }
	o := outlook.Of(window.Forecast{Planned: window.Window{Terms: window.Sum{poll, cache}}, Crash: window.Window{Terms: window.Sum{lease}, VoidWhen: []string{"the node is away"}},
		Load: window.Load{ReadsPerSecond: 0.3, BeatsPerSecond: 2, Assumed: "as the node knows it"}, Told: true}, window.Fleet{Callers: 4, Instances: 2, Lost: 1}, 0)
	o.Title = "service till"
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	return outlook.Live{Outlook: o, Service: "till", Node: "node-1", Complete: true, Bound: s(16 * time.Second),
		Killed: of(window.Uniform("its port refuses", 0, 300*time.Millisecond, "dialled once its stream has ended")), Suspect: of(window.Uniform("silence", 3*time.Second, 5*time.Second, "suspect after 5s")),
		Callers: []outlook.Callers{{Kind: "poller", Count: 3, Worst: s(15 * time.Second), Terms: o.Planned.Terms}, {Kind: "unknown callers", Worst: s(8 * time.Second), Terms: of(let).Terms}},
		Measured: outlook.Measured{Drains: 3, P50: s(12 * time.Millisecond), P99: s(16 * time.Second), Max: s(16 * time.Second), Capped: 1, Pauses: []outlook.Pause{
			{ID: "2", Since: began, Took: s(16 * time.Second), Bound: s(15 * time.Second), Ended: "capped"}, {ID: "\x1b[2J1", Since: began, Took: s(1600 * time.Microsecond), Bound: s(16 * time.Second), Ended: "let go"},
			{ID: "0", Since: began, Bound: s(16 * time.Second), Ended: "nobody called"}}}}
}

// with is a place where a registry answers so.
func with(l outlook.Live, err error) place {
	return place{live: func(context.Context, string) (outlook.Live, error) { return l, err }}
}

func TestServiceShowsDerivedBesideMeasured(t *testing.T) {
	fresh := outlook.OfService(outlook.Known{})
	fresh.Service, fresh.Node, fresh.Void = "new", "node-1", []string{"3 of 4 instances of new are silent"}
	all := with(till(), nil).story("--service till --rps 100 --latency 20ms", "--service till --preset eureka --term a=1s --callers 5 --rps 3")
	golden(t, filepath.Join("testdata", "window", "service.txt"), append(all, with(fresh, nil).story("--service new --rps 100 --latency 20ms")...))
	late := till()
	late.Measured.Exceeded = 2
	if out, err := with(late, nil).run("--service till"); err != nil || !strings.Contains(out, "; 2 took longer than their bound.") {
		t.Errorf("%v: it doesn't say which bounds didn't hold: %s", err, out)
	}
}

// TestServiceAnswersWithAllThatTheRegistrySays as JSON, and draws it.
func TestServiceAnswersWithAllThatTheRegistrySays(t *testing.T) {
	out, err := with(till(), nil).run("--service till --json")
	var back outlook.Live
	if err == nil {
		err = json.Unmarshal([]byte(out), &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(till(), back); diff != "" {
		t.Errorf("(-registry +answer)\n%s", diff)
	}
	if out, err = with(till(), nil).run("--service till --svg -"); err != nil || !strings.Contains(out, "service till") || !strings.HasPrefix(out, "<svg") {
		t.Errorf("%v: %s", err, out)
	}
	away := errors.New("no registry at http://127.0.0.1:8761")
	if out, err = with(outlook.Live{}, away).run("--service till"); !errors.Is(err, away) || out != "" {
		t.Errorf("%v: %q", err, out)
	}
}

// TestNoRegistryNoFlag: who can't ask one isn't offered to.
func TestNoRegistryNoFlag(t *testing.T) {
	if _, err := (place{}).run("--service till"); err == nil || !strings.Contains(err.Error(), "unknown flag") {
		t.Errorf("%v", err)
	}
}
