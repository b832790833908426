package roster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// TestWhoIsPicked holds picks to DESIGN §2.
func TestWhoIsPicked(t *testing.T) {
	for _, row := range []struct {
		name string
		view []string
		want string
	}{
		{"only UP", []string{"a UP", "b STARTING", "c DOWN", "d UP"}, "a d"},
		{"suspects wait while half is sound", []string{"a UP", "b UP beats missed"}, "a"},
		{"both when less than half is sound", []string{"a UP", "b UP beats missed", "c UP wedged"}, "a b c"},
		{"all are suspect", []string{"a UP stream ended", "b UP restored"}, "a b"},
		{"a suspect before one that is leaving", []string{"a UP stream ended", "b DRAINING"}, "a"},
		{"leaving ones when nothing else is left", []string{"a DRAINING", "b DRAINING", "c DOWN"}, "a b"},
		{"the last one", []string{"a DRAINING"}, "a"},
		{"nobody", nil, "pick orders: nobody is registered under this name; check the name, and that an instance has started"},
		{"one DOWN", []string{"a DOWN"}, "pick orders: 1 instance, DOWN"},
		{"two DOWN", []string{"a DOWN", "b DOWN"}, "pick orders: 2 instances, both DOWN"},
		{"three STARTING", []string{"a STARTING", "b STARTING", "c STARTING"}, "pick orders: 3 instances, all STARTING"},
		{"several reasons", []string{"a DOWN", "b STARTING", "c DOWN"}, "pick orders: 3 instances: 2 DOWN, 1 STARTING"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, Config{}, "", func(t *testing.T, w *world) {
				w.push(row.view...)
				w.want("picked", w.picked(), row.want)
			})
		})
	}
}

func TestTakeWaitsForTheFirstView(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.Take(ctx, nil)
		if eider.KindOf(err) != eider.NoInstance || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without a view: %v, want no instance, since the deadline has passed", err)
		}
		got := make(chan string)
		go func() {
			c, err := w.Take(t.Context(), nil)
			if err != nil {
				got <- err.Error()
				return
			}
			defer c.Done(Success)
			got <- c.Instance().ID
		}()
		synctest.Wait()
		w.push("a UP")
		if id := <-got; id != "a" {
			t.Fatalf("after the first view: %s, want a", id)
		}
	})
}

func TestNobodyIsSaidAtOnceAndInWords(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b DRAINING")
		before := time.Now()
		var not Excluded
		c := w.take()
		not.Add(c.Instance().Incarnation)
		c.Done(Refusal)
		_, err := w.Take(t.Context(), &not)
		w.want("error", err.Error(), "pick orders: 2 instances: 1 tried already by this request, 1 DRAINING and let go of")
		if eider.KindOf(err) != eider.NoInstance || time.Since(before) != 0 {
			t.Fatalf("kind %s after %s, want no instance at once", eider.KindOf(err), time.Since(before))
		}
	})
}

// A service whose last instance has gone isn't one that never was.
func TestNobodyServesAnyMoreIsSaid(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		for status, how := range map[string]string{"LEFT": "left", "DEAD": "died", "LAPSED": "fell silent"} {
			w.push("a UP")
			w.push("a gone " + status)
			w.want("at once", w.picked(), "pick orders: nobody serves orders now (the last "+how+" just now)")
			w.wait(3500 * time.Millisecond)
			w.want("later", w.picked(), "pick orders: nobody serves orders now (the last "+how+" 3s ago)")
		}
	})
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a gone LEFT", "b gone DEAD")
		w.want("to who came later", w.picked(), "pick orders: nobody serves orders now (2 ended lately)")
		w.push("a gone LEFT")
		w.want("of one", w.picked(), "pick orders: nobody serves orders now (the last ended lately)")
	})
}

// TestR8AnEmptyPushEmptiesNothing: a node that restarted, or lost its memory, sends an empty list.
func TestR8AnEmptyPushEmptiesNothing(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP", "c UP")
		w.run = 2
		w.push()
		w.want("picked", w.picked(), "a b c")
		for _, in := range w.View().View.Instances {
			if in.Suspicion != eider.Absent {
				t.Fatalf("%s is suspect as %q, want absent", in.ID, in.Suspicion)
			}
		}
		w.wait(19 * time.Second)
		w.want("picked within the lease", w.picked(), "a b c")
		w.push("b UP")
		w.want("picked when one is back", w.picked(), "a b c") // less than half is sound
		w.wait(2 * time.Second)
		w.want("picked after the lease", w.picked(), "b")
		if in := w.View().View.Instances; len(in) != 1 || in[0].Suspicion != 0 {
			t.Fatalf("the view is %v, want b alone and cured", in)
		}
	})
}

// TestR8AnIncompleteViewKeepsEverybody: a cold node knows a part of the instances, for as long as it likes.
func TestR8AnIncompleteViewKeepsEverybody(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.run = 2
		cold := w.view("b UP")
		cold.Complete = false
		w.update(registry.Update{View: cold, Connected: true, Lease: 20 * time.Second})
		w.want("picked", w.picked(), "a b")
		w.wait(time.Hour)
		w.want("picked an hour later", w.picked(), "a b")
		if in, _ := w.View().View.Find("a"); in == nil || in.Suspicion != 0 {
			t.Fatalf("a is %v, want it unsuspected", in)
		}
	})
}

// TestR8OnlyGoneDropsAtOnce: and only the word about the same incarnation, that isn't older than what is known.
func TestR8OnlyGoneDropsAtOnce(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a#2.7 UP", "b UP", "c UP")
		w.push("a#1.9 gone DEAD", "b gone LEFT", "c UP")
		w.want("ids", ids(w.View().View), "a c")
		w.push("a#2.6 gone LAPSED", "c UP")
		w.want("ids", ids(w.View().View), "a c")
		w.push("a#2.8 gone LAPSED", "c UP")
		w.want("ids", ids(w.View().View), "c")
	})
}

// TestU5AnOutageEmptiesNothing: the registry goes away right after it has sent an empty list.
func TestU5AnOutageEmptiesNothing(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.push()
		heard := time.Now()
		w.update(registry.Update{View: w.View().View, Connected: false, Heard: heard})
		w.update(registry.Update{Connected: false, Heard: heard})
		w.wait(time.Hour)
		w.want("picked", w.picked(), "a b")
		if u := w.View(); u.Connected || time.Since(u.Heard) < time.Hour || len(u.View.Instances) != 2 {
			t.Fatalf("the roster says %+v, want two instances of an hour ago", u)
		}
		close(w.src.ended) // even the handle is closed
		w.wait(time.Hour)
		w.want("picked without a handle", w.picked(), "a b")
	})
}

func TestOlderRecordsNeverReplaceNewer(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a#2.5 UP", "b UP")
		w.push("a#2.4 DOWN", "b UP")
		w.want("picked after an older version", w.picked(), "a b")
		w.push("a#1.9 DOWN", "b UP")
		w.want("picked after an older incarnation", w.picked(), "a b")
		w.run = 2
		w.push("a#2.4 DOWN", "b UP")
		w.want("picked after another node run, whose record stands as it is", w.picked(), "b")
	})
}

func TestAViewOutOfOrderLosesNobody(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("c UP", "a#1.3 UP", "b UP", "a#1.4 DOWN")
		w.want("picked", w.picked(), "b c")
		w.want("ids", ids(w.View().View), "a b c")
	})
}

func TestTheOwnZoneIsPreferred(t *testing.T) {
	inWorld(t, Config{}, "east", func(t *testing.T, w *world) {
		w.push("a@east UP", "b@east UP", "c@west UP", "d UP")
		for range 20 {
			w.want("picked", w.pickedBy(8), "a b")
		}
		w.want("picked when the zone is full", w.picked(), "a b c d")
		w.push("a@east DOWN", "b@east UP beats missed", "c@west UP", "d UP")
		w.want("picked when the zone can't", w.picked(), "c d")
	})
}

func TestClose(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP")
		c := w.take()
		if err := errors.Join(w.Close(), w.Close()); err != nil {
			t.Fatal(err)
		}
		_, err := w.Take(t.Context(), nil)
		w.want("error", err.Error(), "pick orders: the roster is closed")
		if eider.KindOf(err) != eider.Closed {
			t.Fatalf("kind %s, want closed", eider.KindOf(err))
		}
		c.Wrote()
		c.Answered()
		c.Done(Success)
	})
}

func TestCloseBeforeTheFirstPickNeverFollows(t *testing.T) {
	r := Config{}.follow("orders", "", func() (source, error) { t.Fatal("it followed"); return nil, nil })
	r.Close()
	if _, err := r.Take(t.Context(), nil); eider.KindOf(err) != eider.Closed {
		t.Fatalf("error %v, want closed", err)
	}
}

func TestCloseEndsWaitingPicks(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		got := make(chan error)
		go func() { _, err := w.Take(t.Context(), nil); got <- err }()
		synctest.Wait()
		w.Close()
		if err := <-got; eider.KindOf(err) != eider.Closed {
			t.Fatalf("error %v, want closed", err)
		}
	})
}

func TestAHandleThatIsClosedSaysSo(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		close(w.src.ended)
		if _, err := w.Take(t.Context(), nil); eider.KindOf(err) != eider.Closed || !strings.Contains(err.Error(), "handle") {
			t.Fatalf("error %v, want closed, because of the handle", err)
		}
	})
}

func ids(v *eider.View) string {
	var out []string
	for i := range v.Instances {
		out = append(out, v.Instances[i].ID)
	}
	return strings.Join(out, " ")
}
