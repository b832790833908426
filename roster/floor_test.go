package roster

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
)

// TestK16OneFloorForBreakersAndSuspicion, and K15: whatever is said of them, half are picked, and it is the suspects that
// come back before those that have failed here. All being bad makes none good, and none of them unpickable.
func TestK16OneFloorForBreakersAndSuspicion(t *testing.T) {
	for _, row := range []struct {
		view     string
		fail     string // who fails, in this order; capitals refuse
		standing string
		picked   string
	}{
		{"a,b,c,d", "ab", "a open aside, b open aside", "c d"},
		{"a,b,c,d", "abc", "a open aside, b open aside, c open kept", "c d"},
		{"a,b,c,d", "abcd", "a open aside, b open aside, c open kept, d open kept", "c d"},
		{"a,b,c,d", "ABC", "a open aside, b open aside, c open aside", "d"},
		{"a,b,c,d", "aBC", "a open kept, b open aside, c open aside", "a d"},
		{"a,b,c,d?", "ab", "a open aside, b open aside", "c d"},
		{"a,b,c,d?", "a", "a open aside", "b c"},
		{"a,b,c,d?", "abc", "a open aside, b open aside, c open kept", "c d"},
		{"a,b?", "A", "a open aside", "b"},
		{"a?,b?", "A", "a open aside", "b"},
		{"a", "A", "a open kept", "a"},
	} {
		t.Run(row.view+" "+row.fail, func(t *testing.T) {
			inWorld(t, Config{}, "", func(t *testing.T, w *world) {
				up := strings.ReplaceAll(strings.ReplaceAll(row.view, ",", " UP,")+" UP", "? UP", " UP")
				w.push(strings.Split(up, ",")...)
				var all [][]*Choice
				for _, id := range strings.ToLower(row.fail) {
					all = append(all, w.hang(string(id), 2))
				}
				if row.view != "a" {
					up = strings.ReplaceAll(strings.ReplaceAll(row.view, ",", " UP,")+" UP", "? UP", " UP beats missed")
					w.push(strings.Split(up, ",")...)
				}
				for i, id := range row.fail {
					for _, c := range all[i] {
						c.Done(map[bool]Outcome{true: Refusal, false: Failure}[id < 'a'])
					}
				}
				var open []string
				for _, s := range strings.Split(w.standing(), ", ") {
					if !strings.HasSuffix(s, " closed") {
						open = append(open, s)
					}
				}
				w.want("standing", strings.Join(open, ", "), row.standing)
				w.want("picked", w.picked(), row.picked)
			})
		})
	}
}

// TestWhoIsKeptHasTrialsToo: it is picked without asking its breaker, whose trial one of the picks is when it is time.
func TestWhoIsKeptHasTrialsToo(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP")
		w.outcomeOf("a", Refusal)
		w.outcomeOf("a", Success)
		w.want("what a pick without a permit says", w.standing(), "a open kept")
		w.wait(time.Second)
		w.outcomeOf("a", Refusal)
		w.outcomeOf("a", Success)
		w.want("after a trial that failed", w.standing(), "a open kept")
		w.wait(2 * time.Second)
		w.outcomeOf("a", Success)
		w.want("after a trial that went well", w.standing(), "a closed")
	})
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP")
		w.outcomeOf("a", Refusal)
		w.push("a UP", "b UP")
		w.want("once another one has come", w.standing()+": "+w.picked(), "a open aside: b")
		w.push("a UP")
		w.want("and is absent", w.picked(), "b") // a doubt is better than a refusal
		w.wait(20 * time.Second)
		w.want("for good", w.picked(), "a")
	})
}

// TestWithoutAFloorEveryBreakerMayReject: at once, and saying who, why and until when.
func TestWithoutAFloorEveryBreakerMayReject(t *testing.T) {
	inWorld(t, Config{NoFloor: true, Breaker: breaker.Config{Jitter: -1}}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP", "c DOWN")
		w.outcomeOf("a", Failure)
		w.outcomeOf("a", Failure)
		w.wait(100 * time.Millisecond)
		w.outcomeOf("b", Refusal)
		begun := time.Now()
		_, err := w.Take(t.Context(), nil)
		var e *eider.Error
		if !errors.As(err, &e) || e.Kind != eider.Unavailable || e.RetryAfter != 700*time.Millisecond || time.Since(begun) != 0 {
			t.Fatalf("%v: kind %v, %+v, after %v", err, eider.KindOf(err), e, time.Since(begun))
		}
		w.want("the error", err.Error(), "pick orders: of 3 instances 2 can't be called now; "+
			"circuit breaker orders/a is open: 2 calls in a row failed; try again in 700ms; "+
			"circuit breaker orders/b is open: the connection was refused; try again in 800ms")
		var r *breaker.Rejected
		if !errors.Is(err, breaker.ErrRejected) || !errors.As(err, &r) || r.Name != "orders/a" {
			t.Errorf("it doesn't wrap the rejections: %v", r)
		}
		w.wait(700 * time.Millisecond)
		c := w.take()
		w.want("once it is time", c.Instance().ID, "a")
		c.Done(Success)
		w.want("and then", w.picked(), "a")
		w.wait(100 * time.Millisecond)
		var not Excluded
		not.Add(c.Instance().Incarnation)
		c, err = w.Take(t.Context(), &not)
		if err != nil || c.Instance().ID != "b" {
			t.Fatalf("a retry: %v, %v", c.Instance(), err)
		}
		if _, err := w.Take(t.Context(), &not); eider.KindOf(err) != eider.Unavailable {
			t.Errorf("a retry beside the trial: %v", err)
		}
		c.Done(Neutral)
	})
}

func TestWithoutBreakersNobodyIsSetAside(t *testing.T) {
	inWorld(t, Config{NoBreakers: true}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		for range 10 {
			w.outcomeOf("a", Refusal)
		}
		w.want("picked", w.picked()+w.standing(), "a b")
		if len(w.src.doubts) == 0 {
			t.Error("refusals aren't told upstream")
		}
	})
}

// TestWhatNobodyCalledHangingHasAFloor: a service that takes longer than the house's own limit to begin its answers goes
// on being called.
func TestWhatNobodyCalledHangingHasAFloor(t *testing.T) {
	inWorld(t, Config{Breaker: breaker.Config{Jitter: -1}}, "", func(t *testing.T, w *world) {
		w.push("a UP")
		calls := w.hang("a", 20)
		w.wait(11 * time.Second)
		calls = append(calls, w.hang("a", 1)...)
		w.want("standing", w.standing(), "a open kept")
		calls = append(calls, w.hang("a", 5)...)
		for _, c := range calls {
			c.Done(Success)
		}
	})
}

// TestWhereCallsHangThereIsNoFloor: when nobody answers, a pick fails at once and says why, but for the trials, and one
// that goes well brings its instance back.
func TestWhereCallsHangThereIsNoFloor(t *testing.T) {
	inWorld(t, Config{Breaker: breaker.Config{SlowLimit: 150 * time.Millisecond, Jitter: -1}}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		calls := append(w.hang("a", 5), w.hang("b", 5)...)
		w.wait(170 * time.Millisecond)
		for range 2 { // who comes by then finds out
			if c, err := w.Take(t.Context(), nil); err == nil {
				calls = append(calls, &c)
			}
		}
		w.want("standing", w.standing(), "a open aside, b open aside")
		_, err := w.Take(t.Context(), nil)
		if eider.KindOf(err) != eider.Unavailable || !strings.Contains(err.Error(), "hang") {
			t.Errorf("a pick of nobody who answers: %v", err)
		}
		w.wait(time.Second)
		c := w.take()
		c.Done(Success)
		synctest.Wait()
		w.want("after a trial that went well", w.standing(), map[string]string{"a": "a closed, b open aside", "b": "a open aside, b closed"}[c.Instance().ID])
		for _, c := range calls {
			c.Done(Neutral)
		}
	})
}
