package roster

import (
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/bulkhead"
)

// TestASparePickIsOfOneThatNothingSpeaksAgainst, and there is none where every other pick finds somebody.
func TestASparePickIsOfOneThatNothingSpeaksAgainst(t *testing.T) {
	for name, row := range map[string]struct {
		view []string
		set  func(w *world)
		want string
	}{
		"UP":        {[]string{"a UP", "b UP"}, nil, "b"},
		"suspect":   {[]string{"a UP", "b UP wedged"}, nil, ""},
		"last one":  {[]string{"b DRAINING"}, nil, ""},
		"tried":     {[]string{"a UP"}, nil, ""},
		"kept":      {[]string{"b UP"}, func(w *world) { w.outcomeOf("b", Refusal) }, ""},
		"set aside": {[]string{"a UP", "b UP"}, func(w *world) { w.outcomeOf("b", Refusal) }, ""},
		"to be tried": {[]string{"a UP", "b UP"}, func(w *world) {
			w.outcomeOf("b", Refusal)
			w.wait(time.Second)
		}, ""},
		"kept, to be tried": {[]string{"b UP"}, func(w *world) {
			w.outcomeOf("b", Refusal)
			w.wait(time.Second)
		}, ""},
		"full": {[]string{"a UP", "b UP"}, func(w *world) { w.hang("b", 2) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Config{Bulkhead: &bulkhead.Config{Limit: 2}}, "", func(t *testing.T, w *world) {
				w.push(row.view...)
				if row.set != nil {
					row.set(w)
				}
				not := &Excluded{Spare: true}
				not.Add(eider.Incarnation{Nonce: nonceOf("a", 1)})
				c, err := w.Take(t.Context(), not)
				switch {
				case row.want == "" && err == nil:
					t.Errorf("picked %s", c.Instance().ID)
				case row.want == "" && eider.KindOf(err) != eider.NoInstance:
					t.Error(err)
				case row.want != "" && (err != nil || c.Instance().ID != row.want):
					t.Errorf("%v, want %s", err, row.want)
				}
				c.Done(Neutral)
			})
		})
	}
}

// TestASparePickIsNoTrial of the registry's either, even if nobody was tried before.
func TestASparePickIsNoTrial(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push(wedged...)
		w.ask(trial("h", 1))
		if n := w.trials("h", &Excluded{Spare: true}); n != 0 || !w.TrialWaits() {
			t.Errorf("%d of them were trials", n)
		}
	})
}
