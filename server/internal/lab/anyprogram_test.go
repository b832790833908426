package lab

import (
	"slices"
	"testing"
)

// restarted is a scene that kept its promise, but for what a test changes. Strangers lost as much as may be.
func restarted(but func(*AnyProgram)) *AnyProgram {
	way := Way{Requests: 10, Restarts: 2, Pause: &Pause{}}
	r := &AnyProgram{Run: Supervised{way, way}, Front: Supervised{way, way}, Sleep: way}
	r.Run.Strange.Failed = 3
	r.Sleep.Failed = 1
	but(r)
	return r
}

func TestAnyProgramsPromisesBreak(t *testing.T) {
	for name, but := range map[string]func(*AnyProgram){
		"a loss of Eider's callers":             func(r *AnyProgram) { r.Run.Failed = 1 },
		"the same behind the proxy":             func(r *AnyProgram) { r.Front.Failed = 1 },
		"a loss of others behind the proxy":     func(r *AnyProgram) { r.Front.Strange.Failed = 1 },
		"three more than beside the sleep":      func(r *AnyProgram) { r.Run.Strange.Failed = 4 },
		"the proxy was never restarted":         func(r *AnyProgram) { r.Front.Restarts = 0 },
		"callers that know nothing never asked": func(r *AnyProgram) { r.Run.Strange.Requests = 0 },
	} {
		if broken := restarted(but).broken(); len(broken) != 1 {
			t.Errorf("%s: broken = %q", name, broken)
		}
	}
}

// A way's row is the sum of its fleets', and what failed is told by kind.
func TestFleetsOfAWayAddUp(t *testing.T) {
	var sum Way
	sum = sum.plus(Way{Requests: 3, Failed: 2, Restarts: 5, Pause: &Pause{P50: 8, Max: 9}, Kinds: map[string]int{whyCut: 2}, Details: []string{"a", "b"}})
	sum = sum.plus(Way{Requests: 4, Failed: 2, Restarts: 5, Pause: &Pause{P50: 7, Max: 11}, Kinds: map[string]int{whyCut: 1, whyRefused: 1}, Details: []string{"c", "d", "e", "f"}})
	if sum.Requests != 7 || sum.Failed != 4 || sum.Restarts != 10 || *sum.Pause != (Pause{P50: 8, Max: 11}) || sum.Kinds[whyCut] != 3 || sum.Kinds[whyRefused] != 1 {
		t.Errorf("sum = %+v", sum)
	}
	if !slices.Equal(sum.Details, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("details = %q", sum.Details)
	}
}
