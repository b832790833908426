package registry

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/wire"
)

// state is the model: what a node knows of a service, by id.
type state struct {
	live map[string]eider.Instance
	gone map[string]eider.Gone
}

func (s state) snapshot(number uint64) wire.View {
	v := wire.View{Service: "orders", Cursor: eider.Cursor{Run: 1, Number: number}, Complete: true}
	for _, id := range slices.Sorted(maps.Keys(s.live)) {
		v.Instances = append(v.Instances, s.live[id])
	}
	for _, id := range slices.Sorted(maps.Keys(s.gone)) {
		v.Gone = append(v.Gone, s.gone[id])
	}
	return v
}

// step changes some of the state and returns the delta that says so.
func (s state) step(t *rapid.T, base uint64) wire.View {
	d := wire.View{Service: "orders", Cursor: eider.Cursor{Run: 1, Number: base + 1}, Complete: true, Base: base}
	for _, id := range slices.Sorted(maps.Keys(rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), rapid.Just(0)).Draw(t, "ids"))) {
		old, alive := s.live[id]
		end := func() {
			g := eider.Gone{ID: id, Incarnation: old.Incarnation, Attachment: 1, Version: old.Version + 1, Status: eider.Left}
			s.gone[id] = g
			d.Gone = append(d.Gone, g)
		}
		switch what := rapid.IntRange(0, 2).Draw(t, "what"); {
		case what == 0 && alive:
			delete(s.live, id)
			end()
			continue
		case what == 1 && alive: // its successor comes with the same change
			end()
			old.Incarnation.Number++
			old.Incarnation.Nonce += 100
			old.Version = 0
		case !alive:
			old = *instance(id, s.gone[id].Incarnation.Nonce+1)
			old.Incarnation.Number = s.gone[id].Incarnation.Number + 1
		}
		old.Version++
		s.live[id] = old
		d.Instances = append(d.Instances, old)
	}
	return d
}

// The law: a view that grew by deltas equals the snapshot of the same moment, wherever the deltas
// begin, and a view that was handed out never changes.
func TestDeltasAddUpToTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state{live: map[string]eider.Instance{}, gone: map[string]eider.Gone{}}
		for _, id := range []string{"b", "d"} {
			s.live[id] = *instance(id, 1)
		}
		first := s.snapshot(1)
		h, err := held{}.take(&first, false)
		if err != nil {
			t.Fatal(err)
		}
		for number := uint64(1); number < 10; number++ {
			before := *h.view
			before.Instances, before.Gone = slices.Clone(h.view.Instances), slices.Clone(h.view.Gone)
			handed := h.view
			d := s.step(t, number)
			if h, err = h.take(&d, false); err != nil {
				t.Fatal(err)
			}
			want := s.snapshot(number + 1)
			got := wire.View{Service: h.view.Service, Cursor: h.view.Cursor, Complete: h.view.Complete, Instances: h.view.Instances, Gone: h.view.Gone}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("after %d changes: (-snapshot, +grown)\n%s", number, diff)
			}
			if diff := cmp.Diff(&before, handed, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("a view that was handed out has changed:\n%s", diff)
			}
		}
	})
}

func TestGoneIsBoundedAndForgetsTheOldest(t *testing.T) {
	first := wire.View{Cursor: eider.Cursor{Run: 1, Number: 1}}
	h, _ := held{}.take(&first, false)
	for i := range 5 * maxGone {
		number := uint64(i + 1)
		d := wire.View{Cursor: eider.Cursor{Run: 1, Number: number + 1}, Base: number,
			Gone: []eider.Gone{{ID: fmt.Sprintf("%06d", (i*7919)%100_000), Incarnation: eider.Incarnation{Nonce: number}, Status: eider.Dead}}}
		var err error
		if h, err = h.take(&d, false); err != nil {
			t.Fatal(err)
		}
		if len(h.view.Gone) > maxGone || len(h.view.Gone) != len(h.since) {
			t.Fatalf("%d gone are kept, %d with their number; at most %d may be", len(h.view.Gone), len(h.since), maxGone)
		}
		if !slices.IsSortedFunc(h.view.Gone, func(a, b eider.Gone) int { return cmpID(a.ID, b.ID) }) {
			t.Fatal("gone aren't ordered by id")
		}
		if !slices.ContainsFunc(h.view.Gone, func(g eider.Gone) bool { return g.Incarnation.Nonce == number }) {
			t.Fatal("the youngest is forgotten")
		}
	}
}

func cmpID(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func TestUnreadLineMakesTheViewIncomplete(t *testing.T) {
	m := wire.View{Cursor: eider.Cursor{Run: 1, Number: 1}, Complete: true, Unread: 1, Instances: []eider.Instance{*instance("a", 1)}}
	h, err := held{}.take(&m, false)
	if err != nil || h.view.Complete {
		t.Errorf("complete %t, %v", h.view.Complete, err)
	}
}

// Who is gone is named by incarnation: the successor with the same id stays (D17).
func TestD17GoneOfAnEarlierIncarnationRemovesNobody(t *testing.T) {
	old := []eider.Instance{*instance("a", 2)}
	if got := splice(old, nil, []eider.Gone{{ID: "a", Incarnation: eider.Incarnation{Number: 1, Nonce: 1}, Status: eider.Left}}); len(got) != 1 {
		t.Errorf("the successor was removed with its predecessor: %v", got)
	}
	if got := splice(old, nil, []eider.Gone{{ID: "a", Incarnation: eider.Incarnation{Number: 1, Nonce: 2}, Status: eider.Left}}); len(got) != 0 {
		t.Errorf("who is gone is still there: %v", got)
	}
}
