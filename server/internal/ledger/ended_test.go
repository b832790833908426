package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// A service whose last instance has left is listed, at nought, as long as it is remembered who that was; then it is
// forgotten. One that only callers named isn't.
func TestServicesThatEndedAreListedAtNought(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p1", "orders/1", "10.0.0.1:81")
	w.mustRegister("p2", "orders/2", "10.0.0.1:82")
	w.follow("c1", "pay")
	w.saw(w.tb.Goodbye(w.now, w.actor("c1").follower))
	for _, p := range []string{"p1", "p2"} {
		k := "orders/" + p[1:]
		w.leave(p, k)
		w.left(p, k)
	}
	want := eider.Summary{Service: "orders", Gone: 2}
	if got := w.services(); len(got) != 1 || got[0] != want {
		t.Errorf("after the last has left: %+v, want %+v alone", got, want)
	}
	w.advance(23 * time.Hour)
	if got := w.services(); len(got) != 1 {
		t.Errorf("a day later, nearly: %+v", got)
	}
	w.advance(2 * time.Hour)
	if got := w.services(); len(got) != 0 || w.tb.Knows("orders") {
		t.Errorf("after the retention: %+v", got)
	}
}

// Names come from strangers: of the services that have ended the latest are listed, and those that live all are.
func TestServicesThatEndedAreBounded(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "aaa/1", "10.0.0.1:81")
	for i := range 3 * keptEnded {
		k := fmt.Sprintf("s%03d/1", i)
		w.mustRegister("p", k, "10.0.0.1:80")
		w.advance(time.Millisecond)
		w.left("p", k)
	}
	got := w.services()
	if len(got) != keptEnded+1 || got[0].Service != "aaa" || got[1].Service != fmt.Sprintf("s%03d", 2*keptEnded) {
		t.Errorf("%d services, the first %+v", len(got), got[:min(len(got), 2)])
	}
}
