package breakers

import (
	"fmt"
	"slices"
)

// Promise is what Eider's breaker is held to: a figure of its own beside another of the same run.
type Promise struct {
	Name    string
	Most    float64 // the ratio may be this much
	Measure func(rounds int) (Reading, error)
}

// Reading is what was measured.
type Reading struct {
	Eider, Peer float64
	Unit        string
	CPU         float64 // Eider's processor time over the peer's; 0: not measured
	Note        string
}

// Promises are all. Those of speed hold for the slowest of Eider's that are named, beside the fastest of the peers.
func Promises() []Promise {
	clocked := namesOf(func(s Subject) bool { return !s.Eider && s.Clock && s.Window })
	var all []Promise
	for _, stage := range Stages()[:2] {
		add := func(what string, most float64, p Path, eiders, peers []string) {
			all = append(all, Promise{"breaker, " + stage.Name + ": " + what, most, func(rounds int) (Reading, error) {
				return beside(eiders, peers, p, stage, rounds)
			}})
		}
		add("slow calls timed / load, add, two clock reads", 1.3, Success, []string{Eider, EiderRolling}, []string{Timed})
		add("the same / fastest with a clock and a window", 1, Success, []string{Eider, EiderRolling, EiderDone, EiderDo}, clocked)
		add("the same, one in ten fails", 1, Mixed, []string{Eider, EiderRolling, EiderDone, EiderDo}, clocked)
		add("not timed / Kitex's panel", 1, Success, []string{EiderUntimed, EiderPlainDo}, []string{Kitex})
		add("the same, one in ten fails", 1, Mixed, []string{EiderUntimed, EiderPlainDo}, []string{Kitex})
		add("not timed / load, add", 3, Success, []string{EiderUntimed}, []string{Bare})
		add("open / one clock read", 1.5, Open, []string{Eider, EiderUntimed}, []string{Read})
		all = append(all, fleetPromises(stage)...)
	}
	return append(all,
		Promise{"breaker: allocations a call, over none / 1", 0, func(int) (Reading, error) { return allocations(eiders()) }},
		Promise{"fleet: allocations a call, over none / 1", 0, func(int) (Reading, error) { return allocations(fleets()) }},
		Promise{"breaker: bytes of one with 100 outcomes / 512", 1, bytesOfOne},
		Promise{"breaker: goroutines of one, over none / 1", 0, goroutinesOfOne},
	)
}

// fleetPromises are a fleet's breaker beside a caller's own with the same settings.
func fleetPromises(stage Stage) (all []Promise) {
	for _, p := range []Path{Success, Mixed, Open} {
		for _, pair := range [][2]string{{Fleet, Eider}, {FleetDo, EiderDo}} {
			name := fmt.Sprintf("fleet, %s: %s, %s / one's own", stage.Name, p, map[bool]string{true: "by Do", false: "by Allow"}[pair[0] == FleetDo])
			all = append(all, Promise{name, 1.2, func(rounds int) (Reading, error) {
				return beside(pair[:1], pair[1:], p, stage, rounds)
			}})
		}
	}
	return all
}

func namesOf(want func(Subject) bool) (names []string) {
	for _, s := range Subjects() {
		if want(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

func beside(eiders, peers []string, p Path, stage Stage, rounds int) (Reading, error) {
	names := slices.Concat(eiders, peers)
	subjects, err := Named(names...)
	if err != nil {
		return Reading{}, err
	}
	took, err := Measure(subjects, p, stage, rounds)
	if err != nil {
		return Reading{}, err
	}
	ours, theirs := 0, len(eiders)
	for i, f := range took {
		switch {
		case i < len(eiders) && f.Median > took[ours].Median:
			ours = i
		case i > len(eiders) && f.Median < took[theirs].Median:
			theirs = i
		}
	}
	return Reading{took[ours].Median, took[theirs].Median, "ns", took[ours].CPU / took[theirs].CPU, names[ours] + " / " + names[theirs]}, nil
}

// allocations sums over all paths and ways: any is one too many.
func allocations(subjects []Subject) (Reading, error) {
	r := Reading{Peer: 1, Unit: "allocations"}
	for _, s := range subjects {
		for _, p := range []Path{Success, Mixed, Open} {
			n, bytes, err := Allocations(s, p)
			if err != nil {
				return r, err
			}
			if n >= 0.01 { // a hundred in ten thousand calls are not of the calls
				r.Eider += n
				r.Note += fmt.Sprintf("%s, %s: %.1f of %.0f bytes; ", s.Name, p, n, bytes)
			}
		}
	}
	return r, nil
}

// weighed is how many breakers are made for a round: with more, what else the process holds counts less.
const weighed = 1000

func bytesOfOne(rounds int) (Reading, error) {
	ours, err := Named(Eider, EiderUntimed, EiderRolling)
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Peer: 512, Unit: "bytes"}
	for _, s := range ours {
		bytes, _, _ := Weight(s, weighed*min(rounds, 10))
		r.Note += fmt.Sprintf("%s %.0f; ", s.Name, bytes)
		if s.Name != EiderRolling { // the promise is of a hundred outcomes, not of a length of time
			r.Eider = max(r.Eider, bytes)
		}
	}
	return r, nil
}

func goroutinesOfOne(int) (Reading, error) {
	r := Reading{Peer: 1, Unit: "goroutines"}
	for _, s := range eiders() {
		_, goroutines, _ := Weight(s, 10)
		r.Eider = max(r.Eider, goroutines)
	}
	return r, nil
}
