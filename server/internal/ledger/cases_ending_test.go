package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// Every drain ends: with LEFT, with evidence, with silence, with a successor.
func TestEveryDrainEnds(t *testing.T) {
	for how, want := range map[string]eider.Status{"left": eider.Left, "killed": eider.Dead, "silent": eider.Lapsed, "superseded": eider.Dead} {
		t.Run(how, func(t *testing.T) {
			w := two(t, "c1")
			dep := w.departure("orders/1")
			w.leave("p1", "orders/1")
			switch how {
			case "left":
				w.left("p1", "orders/1")
			case "killed":
				w.kill("p1")
				w.advance(10 * time.Millisecond)
				if !w.drain("orders/1").Status.Gone() {
					t.Error("not noticed at once")
				}
			case "silent": // and preservation has no part in it: it said that it goes
				w.actor("p1").beats, w.actor("p2").beats = false, false
				w.advance(20 * time.Second)
			case "superseded":
				w.ports["10.0.0.1:81"] = NoAnswer
				w.detach("p1", Lost)
				w.advance(2 * time.Second)
				w.mustRegister("p1b", "orders/1", "10.0.0.1:81")
			}
			d, ok := w.tb.Drain(dep)
			if !ok || d.Status != want {
				t.Errorf("the drain is %s (%t), want %s", d.Status, ok, want)
			}
			if w.tb.Counts().Draining != 0 || len(w.tb.services["orders"].running) != 0 {
				t.Error("it still runs")
			}
		})
	}
}

// Its first word after a long stop is its leave: it isn't lapsed for the beats that it missed.
func TestLeaveAfterALongStop(t *testing.T) {
	w := two(t, "c1")
	w.actor("p1").beats, w.actor("p2").beats = false, false // two of two: preservation keeps them
	w.advance(40 * time.Second)
	w.leave("p1", "orders/1")
	w.want("orders/1", eider.Draining, 0)
	w.advance(5 * time.Second)
	w.want("orders/1", eider.Draining, eider.BeatsMissed)
	w.want("orders/2", eider.Lapsed, 0) // alone among the silent now
}

// A leaving instance that was taken for dead and is back goes on with the same leave.
func TestDrainGoesOnAfterARevival(t *testing.T) {
	w := two(t, "c1", "c2")
	w.leave("p1", "orders/1")
	w.advance(3 * time.Second)
	w.letGo("c1", "orders/1")
	w.kill("p1")
	w.advance(10 * time.Millisecond)
	w.want("orders/1", eider.Dead, 0)
	w.attach("p1")
	w.mustRegister("p1", "orders/1", "10.0.0.1:81", func(r *eider.Record) { r.Status = eider.Draining })
	w.want("orders/1", eider.Draining, 0)
	w.wantMember("orders/1", "c1", eider.LetGo) // it was named, and still is
	w.advance(5 * time.Second)
	if d := w.drain("orders/1"); !d.Reached || d.Barrier.Round(time.Second) != 8*time.Second {
		t.Errorf("%+v: the cap counts from the first leave", d)
	}
}

func TestFinishedDrainsAreKeptForReading(t *testing.T) {
	w := fresh(t)
	w.follow("c1", "orders")
	for i := range 300 {
		k := fmt.Sprint("orders/", i)
		w.mustRegister("p", k, "10.0.0.1:81")
		w.leave("p", k)
		w.left("p", k)
	}
	drains := w.tb.Drains("orders")
	if len(drains) != 256 || drains[0].ID != "299" || drains[255].ID != "44" {
		t.Errorf("%d drains, %s to %s", len(drains), drains[0].ID, drains[len(drains)-1].ID)
	}
	if _, gone := w.tb.View("orders"); len(gone) != 256 {
		t.Errorf("%d gone in the view, want 256", len(gone))
	}
}

// A service that leaves as a whole, with nobody to go to, caps every caller of every instance at the same moment:
// that is a million words for a thousand of each, and the node hears others in between.
func TestCapsAreABoundedPieceOfWork(t *testing.T) {
	w := fresh(t)
	for i := range 1000 {
		w.follow(fmt.Sprint("c", i), "orders")
	}
	for i := range 10 {
		k := fmt.Sprint("orders/", i)
		w.mustRegister("p", k, fmt.Sprint("10.0.0.1:", 81+i))
		w.leave("p", k)
	}
	looks, capped := 0, 0
	w.now = w.now.Add(900 * time.Millisecond)
	for ; capped < 10_000 && looks < 1000; looks++ {
		fx := w.tb.Look(w.now)
		if now := len(fx.Events); now > lookWork+10 {
			t.Fatalf("one look said %d words", now)
		}
		for _, e := range fx.Events {
			if e.Kind == eider.EventCapped {
				capped++
			}
		}
		if at := w.tb.Next(); at.After(w.now) {
			w.now = at
		}
	}
	if capped != 10_000 {
		t.Errorf("%d are capped after %d looks, want all 10,000", capped, looks)
	}
	for i := range 10 {
		w.wantReached(fmt.Sprint("orders/", i), true)
	}
}
