package breakers

import (
	"slices"
	"strings"
	"testing"
)

var paths = []Path{Success, Mixed, Open}

// BenchmarkBreaker has one of each; beside each other in turns they are measured by the command table.
func BenchmarkBreaker(b *testing.B) {
	const each = 1000
	for _, s := range Subjects() {
		for _, p := range paths {
			if !s.Knows(p) {
				continue
			}
			b.Run(s.Name+"/"+p.String(), func(b *testing.B) {
				c, done, err := s.ready(p)
				if err != nil {
					b.Fatal(err)
				}
				defer done()
				b.ReportAllocs()
				for b.Loop() {
					if err := p.check(c(each, p.every()), each); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/each, "ns/call")
			})
		}
	}
}

func TestEverySubjectTakesItsPaths(t *testing.T) {
	for _, s := range Subjects() {
		for _, p := range paths {
			if !s.Knows(p) {
				continue
			}
			_, done, err := s.ready(p)
			if err != nil {
				t.Error(err)
				continue
			}
			done()
		}
	}
}

func TestAMeasurementThatTripsIsAnError(t *testing.T) {
	half := Subject{Name: "lets half through", open: func(Path) (calls, func()) {
		made := 0
		return func(n, _ int) int {
			if made += n; made <= 10*window {
				return n
			}
			return n / 2
		}, nil
	}}
	for _, stage := range Stages() {
		if stage.Procs > 1 {
			continue // this one isn't for two at a time
		}
		if _, err := Measure([]Subject{half}, Success, stage, 3); err == nil || !strings.Contains(err.Error(), half.Name) {
			t.Errorf("%s: error %v, want one that names the subject", stage.Name, err)
		}
	}
	if _, _, err := half.ready(Open); err == nil {
		t.Error("what should be open and lets calls through is measured as open")
	}
}

func TestSubjectsTakeTurns(t *testing.T) {
	var order []string
	slow := func(name string) Subject {
		return Subject{Name: name, open: func(Path) (calls, func()) {
			return func(n, _ int) int { order = append(order, name); return n }, nil
		}}
	}
	took, err := Measure([]Subject{slow("a"), slow("b")}, Success, Stages()[0], 5)
	if err != nil {
		t.Fatal(err)
	}
	order = slices.Compact(order)
	if len(order) < 12 { // each once to find how many calls make a chunk, then five turns
		t.Errorf("%d turns in all: %v; want each five times, and never twice in a row", len(order), order)
	}
	for _, f := range took {
		if f.Min <= 0 || f.Median < f.Min {
			t.Errorf("figures %+v; want a least above 0 and a median not below it", f)
		}
	}
}

// What speed depends on is measured by the gates; what a call allocates and a breaker holds is the same on every machine.
func TestEiderAllocatesNothing(t *testing.T) {
	held(t, "breaker: allocations a call")
	held(t, "fleet: allocations a call")
}

func TestABreakerIsSmall(t *testing.T) {
	held(t, "bytes of one")
	held(t, "goroutines of one")
}

func held(t *testing.T, part string) {
	t.Helper()
	for _, p := range Promises() {
		if !strings.Contains(p.Name, part) {
			continue
		}
		r, err := p.Measure(1)
		if err != nil {
			t.Fatal(err)
		}
		if r.Eider > p.Most*r.Peer {
			t.Errorf("%s: %g %s, at most %g: %s", p.Name, r.Eider, r.Unit, p.Most*r.Peer, r.Note)
		}
		return
	}
	t.Fatalf("no promise says %q", part)
}
