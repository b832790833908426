package roster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
)

// trials picks while the instance is aside and returns how many of the picks met it.
func trials(w *world, id string) int {
	w.t.Helper()
	n := 0
	for range 50 {
		c := w.take()
		if c.Instance().ID == id {
			n++
		}
		defer c.Done(Neutral)
	}
	return n
}

func TestU2OneRefusalOrTwoFailuresSetAside(t *testing.T) {
	for _, row := range []struct {
		name     string
		outcomes []Outcome
		picked   string
	}{
		{"a refusal", []Outcome{Refusal}, "b"},
		{"one failure", []Outcome{Failure}, "a b"},
		{"two failures", []Outcome{Failure, Failure}, "b"},
		{"two failures, one success between", []Outcome{Failure, Success, Failure}, "a b"},
		{"K10: hanging up says nothing", []Outcome{Neutral, Neutral, Neutral}, "a b"},
		{"K10: nor does it forgive", []Outcome{Failure, Neutral, Failure}, "b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, Config{}, "", func(t *testing.T, w *world) {
				w.push("a UP", "b UP")
				for _, o := range row.outcomes {
					w.outcomeOf("a", o)
				}
				w.want("picked", w.picked(), row.picked)
			})
		})
	}
}

func TestU2AsideForASecondThenOneTrial(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.outcomeOf("a", Refusal)
		w.wait(750*time.Millisecond - 1)
		if n := trials(w, "a"); n != 0 {
			t.Fatalf("%d picks before three quarters of a second, want 0", n)
		}
		w.wait(time.Second / 4)
		trial := w.take()
		w.want("the first pick after a second", trial.Instance().ID, "a")
		if n := trials(w, "a"); n != 0 {
			t.Fatalf("%d picks beside the trial, want 0", n)
		}
		trial.Done(Success)
		w.want("picked when it has answered", w.picked(), "a b")
	})
}

func TestU2TheTimeDoublesUpToHalfAMinute(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.outcomeOf("a", Refusal)
		for _, most := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			most *= time.Second
			w.wait(most*3/4 - 1)
			if n := trials(w, "a"); n != 0 {
				t.Fatalf("%d picks within three quarters of %s, want 0", n, most)
			}
			w.wait(most/4 + 1)
			c := w.take()
			w.want(fmt.Sprintf("the trial after %s", most), c.Instance().ID, "a")
			c.Done(Failure) // one is enough in a trial
		}
		w.wait(30 * time.Second)
		c := w.take()
		w.want("the last trial", c.Instance().ID, "a")
		c.Done(Success)
		w.wait(time.Second)
		w.outcomeOf("a", Refusal)
		w.wait(20 * time.Second)
		if n := trials(w, "a"); n != 0 {
			t.Fatalf("%d picks 20s after it failed again at once, want 0", n)
		}
		w.wait(10 * time.Second)
		w.outcomeOf("a", Success)
		w.wait(30 * time.Second)
		w.outcomeOf("a", Refusal)
		w.wait(time.Second)
		c = w.take()
		w.want("after half a minute without failing, a second again", c.Instance().ID, "a")
		c.Done(Success)
	})
}

// TestK1ATrialThatNeverEndsReturns: when its time is over it has failed, so that there is another one, twice as long
// later; and K2: one that says nothing is offered again at once.
func TestK1ATrialThatNeverEndsReturns(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.outcomeOf("a", Refusal)
		w.wait(time.Second)
		lost := w.take()
		w.want("the trial", lost.Instance().ID, "a")
		w.wait(10*time.Second - 1)
		if n := trials(w, "a"); n != 0 {
			t.Fatalf("%d picks beside the trial, want 0", n)
		}
		w.wait(1)
		if n := trials(w, "a"); n != 0 {
			t.Fatalf("%d picks when the trial's time is over, want 0: it hangs", n)
		}
		w.wait(2 * time.Second)
		again := w.take()
		w.want("a second trial", again.Instance().ID, "a")
		lost.Done(Neutral)
		if n := trials(w, "a"); n != 0 {
			t.Fatalf("%d picks beside the second trial when the first has ended without a word, want 0", n)
		}
		again.Done(Neutral)
		third := w.take()
		w.want("after a trial that said nothing", third.Instance().ID, "a")
		third.Done(Success)
	})
}

// TestK6LateOutcomesSayNothing: twenty calls were in flight when the instance broke.
func TestK6LateOutcomesSayNothing(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		var late []*Choice
		for range 20 {
			late = append(late, w.takeOf("a"))
		}
		for _, c := range late[:18] {
			c.Done(Failure)
		}
		late[18].Done(Success) // an answer from before doesn't bring it back
		w.want("picked", w.picked(), "b")
		w.wait(time.Second) // and 18 failures are one reason, not nine
		c := w.takeOf("a")
		c.Done(Success)
		late[19].Done(Refusal)
		w.want("picked when back", w.picked(), "a b")
	})
}

// TestK15NeverAllAreSetAside: of one to seven instances that refuse, one stays; of those that fail, half do.
func TestK15NeverAllAreSetAside(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for o, stay := range map[Outcome]int{Refusal: 1, Failure: (n + 1) / 2} {
			inWorld(t, Config{}, "", func(t *testing.T, w *world) {
				var lines []string
				for i := range n {
					lines = append(lines, string(rune('a'+i))+" UP")
				}
				w.push(lines...)
				for range 40 {
					c := w.take()
					c.Done(o)
				}
				var left []string
				for range 50 {
					c := w.take()
					if id := c.Instance().ID; !slices.Contains(left, id) {
						left = append(left, id)
					}
					c.Done(Neutral)
				}
				if len(left) != stay {
					t.Fatalf("%d instances, outcome %d: %d are still picked, want %d", n, o, len(left), stay)
				}
			})
		}
	}
}

// TestK18ALeavingInstanceIsNeverCountedAsFailing: neither set aside nor doubted.
func TestK18ALeavingInstanceIsNeverCountedAsFailing(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		c, d := w.takeOf("a"), w.takeOf("a")
		w.push("a DRAINING", "b DRAINING")
		c.Done(Refusal)
		d.Done(Refusal)
		synctest.Wait()
		w.want("picked", w.picked(), "a b")
		if len(w.src.doubts) != 0 {
			t.Fatalf("told upstream: %v", w.src.doubts)
		}
		w.push("a DRAINING", "b UP")
		if s := w.members[0].guard.Load().Snapshot(); s.State != breaker.Closed || s.Failures != 0 {
			t.Fatalf("a is counted as failing: %+v", s)
		}
	})
}

// TestK17ARetryGoesElsewhere: to any of the others, also one that is doubted or set aside, never back.
func TestK17ARetryGoesElsewhere(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP", "c UP", "d UP beats missed", "e DOWN", "f DRAINING")
		w.outcomeOf("c", Refusal)
		var not Excluded
		var tried []string
		for {
			c, err := w.Take(t.Context(), &not)
			if err != nil {
				w.want("in the end", err.Error(), "pick orders: 6 instances: 4 tried already by this request, 1 DOWN, 1 DRAINING and let go of")
				break
			}
			if not.Has(c.Instance().Incarnation) {
				t.Fatalf("%s was tried twice", c.Instance().ID)
			}
			not.Add(c.Instance().Incarnation)
			tried = append(tried, c.Instance().ID)
			c.Done(Neutral)
		}
		slices.Sort(tried[:2])
		w.want("tried", fmt.Sprint(tried), "[a b d c]")
	})
}

func TestExcluded(t *testing.T) {
	var x *Excluded
	if x.Len() != 0 || x.Has(eider.Incarnation{Nonce: 1}) {
		t.Fatal("nil leaves somebody out")
	}
	x = new(Excluded)
	for n := range uint64(20) {
		for range 2 {
			x.Add(eider.Incarnation{Number: n, Nonce: n + 1})
		}
		if x.Len() != int(n)+1 || !x.Has(eider.Incarnation{Nonce: n + 1}) || x.Has(eider.Incarnation{Nonce: n + 2}) {
			t.Fatalf("after adding %d: %d are left out", n+1, x.Len())
		}
	}
}

func TestARefusalIsToldUpstreamUnlessThereWasASuccess(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		doubts := func(want int) {
			t.Helper()
			synctest.Wait()
			if n := len(w.src.doubts); n != want {
				t.Fatalf("%d refusals were told upstream, want %d", n, want)
			}
		}
		var calls []*Choice
		for range 4 {
			calls = append(calls, w.takeOf("a"))
		}
		w.outcomeOf("a", Success)
		w.wait(10*time.Second - tick)
		calls[0].Done(Refusal)
		doubts(0)
		w.wait(tick)
		calls[1].Done(Refusal)
		calls[2].Done(Refusal)
		doubts(1) // at most one a second
		w.want("about", w.src.doubts[0].ID, "a")
		w.wait(time.Second)
		calls[3].Done(Refusal)
		doubts(2)
	})
}

func TestPickLearnsFromTheError(t *testing.T) {
	gaveUp := errors.New("the user closed the page")
	for _, row := range []struct {
		name string
		err  error
		end  func(cancel context.CancelCauseFunc)
		want Outcome
	}{
		{"refused", fmt.Errorf("dial: %w", syscall.ECONNREFUSED), nil, Refusal},
		{"failed", errors.New("EOF"), nil, Failure},
		{"gave up", gaveUp, func(cancel context.CancelCauseFunc) { cancel(gaveUp) }, Neutral},
		{"a deadline of its own", context.DeadlineExceeded, nil, Failure},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			began := time.Now()
			if row.end != nil {
				row.end(cancel)
			}
			if got := outcome(ctx, row.err, time.Since(began), time.Second); got != row.want {
				t.Errorf("%s: outcome %d, want %d", row.name, got, row.want)
			}
		})
	}
	for after, want := range map[time.Duration]Outcome{0: Neutral, time.Second - 1: Neutral, time.Second: Failure} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			began := time.Now()
			<-ctx.Done()
			if got := outcome(ctx, ctx.Err(), time.Since(began), time.Second); got != want {
				t.Errorf("K11: a deadline after %s: outcome %d, want %d", after, got, want)
			}
		})
	}
}

func TestPick(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		call := func() (id string, err error) {
			in, done, err := w.Pick(t.Context())
			if err != nil {
				return "", err
			}
			defer done(&err)
			return in.ID, syscall.ECONNREFUSED
		}
		first, _ := call()
		second, _ := call()
		if first == second || first == "" {
			t.Fatalf("after a refusal by %q, %q was picked", first, second)
		}
		w.push("a DOWN", "b gone DEAD")
		_, done, err := w.Pick(t.Context())
		if eider.KindOf(err) != eider.NoInstance {
			t.Fatalf("error %v, want no instance", err)
		}
		done(&err) // harmless
	})
}
