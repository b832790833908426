package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// Who called before is waited for until the largest of their caps has passed: of a run that ended in order exactly
// those, of another one at least the usual cap, since who came last may not be written.
func TestCallersFromBefore(t *testing.T) {
	for _, row := range []struct {
		name    string
		callers []time.Duration
		closed  bool
		want    time.Duration
	}{
		{"nobody, in order", nil, true, 0},
		{"nobody, a crash", nil, false, 8 * time.Second},
		{"a poller, in order", []time.Duration{65 * time.Second, 8 * time.Second}, true, 65 * time.Second},
		{"a short one, in order", []time.Duration{3 * time.Second}, true, 3 * time.Second},
		{"a short one, a crash", []time.Duration{3 * time.Second}, false, 8 * time.Second},
	} {
		w := remembering(t)
		m := Memory{Written: w.now, Closed: row.closed}
		for i, c := range row.callers {
			m.Callers = append(m.Callers, eider.Caller{ID: fmt.Sprint("c", i), Service: "orders", Cap: c})
		}
		w.restart(time.Second, m)
		w.mustRegister("p", "orders/1", "10.0.0.1:1")
		w.leave("p", "orders/1")
		w.advance(2 * time.Minute)
		if d := w.drain("orders/1"); !d.Reached || d.Barrier != row.want {
			t.Errorf("%s: the barrier after %s, want %s: %+v", row.name, d.Barrier, row.want, d)
		}
	}
}

// A run that ends before it has waited for who came before leaves them to the next one: also in order.
func TestCallersFromBeforeOutliveAShortRun(t *testing.T) {
	w := remembering(t)
	w.restart(time.Second, Memory{Written: w.now, Closed: true, Callers: []eider.Caller{{ID: "slow", Service: "orders", Cap: 65 * time.Second}}})
	w.advance(time.Minute)
	w.restart(time.Second, w.memory(true))
	w.mustRegister("p", "orders/1", "10.0.0.1:1")
	w.leave("p", "orders/1")
	w.advance(64 * time.Second)
	if w.drain("orders/1").Reached {
		t.Error("the barrier is vacuous")
	}
	w.advance(2 * time.Second)
	w.left("p", "orders/1")
	w.restart(time.Second, w.memory(true))
	if void := w.tb.Void(); len(void) > 0 {
		t.Errorf("and they are waited for ever: %q", void)
	}
}

// A retry-after that is handed out after the restart never shortens the wait for who came before.
func TestALongCapIsntShortenedByARetryAfter(t *testing.T) {
	w := remembering(t)
	w.restart(0, Memory{Written: w.now, Closed: true, Callers: []eider.Caller{{ID: "slow", Service: "orders", Cap: 5 * time.Minute}}})
	w.saw(w.tb.ExtendCaller(w.now, Peer{Caller: "somebody"}, time.Second))
	if got := w.tb.Bound("orders"); got != 5*time.Minute {
		t.Errorf("the bound is %s", got)
	}
}

// Unknown callers have let go of nobody because the node restarted: also in order, when nobody else has to be waited
// for, a leave under way goes on giving them the pause that its instance asked for, and a hold that which is expected.
func TestUnknownCallersOutliveARestart(t *testing.T) {
	w := remembering(t)
	for _, id := range []string{"1", "2", "3"} {
		w.mustRegister("p"+id, "orders/"+id, "10.0.0.1:"+id)
	}
	w.advance(time.Second)
	for _, id := range []string{"1", "2"} {
		w.saw(w.tb.Work(w.now, w.actor("p"+id).session, key("orders/"+id), eider.Work{Arrived: 1, Unknown: true}))
		if want := []Trace{{Service: "orders", ID: id}}; !slices.Equal(w.last.Memory, want) {
			t.Errorf("that they have come notes %v", w.last.Memory)
		}
	}
	for _, pause := range []time.Duration{2 * time.Second, 3 * time.Second} { // the second one is of who came since
		fx, err := w.tb.Leave(w.now, w.actor("p1").session, key("orders/1"), pause)
		if err != nil {
			t.Fatal(err)
		}
		w.saw(fx)
		if want := []Trace{{Service: "orders", ID: "1"}}; !slices.Equal(w.last.Memory, want) {
			t.Errorf("a pause of %s notes %v", pause, w.last.Memory)
		}
	}
	for range 2 { // the second run is over before anybody has attached again
		w.restart(time.Second, w.memory(true))
		if d := w.drain("orders/1"); d.Reached || w.member("orders/1", string(eider.UnknownCallers)) != eider.Waiting {
			t.Fatalf("a leave under way: %+v", d)
		}
		if cs := w.tb.Callers("orders"); len(cs) != 1 || cs[0].Kind != eider.UnknownCallers {
			t.Errorf("the callers are %v", cs)
		}
	}
	w.mustRegister("p1", "orders/1", "10.0.0.1:1")
	two, three := w.hold("orders/2", eider.Hold{}), w.hold("orders/3", eider.Hold{})
	w.advance(9 * time.Second)
	for id, got := range map[string]eider.Drain{"1": w.drain("orders/1"), "2": w.holdDrain("orders/2", two.Count), "3": w.holdDrain("orders/3", three.Count)} {
		want := map[string]time.Duration{"1": 3 * time.Second, "2": 8 * time.Second}[id]
		if !got.Reached || got.Barrier != want {
			t.Errorf("orders/%s: the barrier after %s, want %s: %+v", id, got.Barrier, want, got)
		}
	}
}
