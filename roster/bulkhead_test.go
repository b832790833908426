package roster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
)

// TestWhoIsFullIsntPicked: another one is, and when all are full a pick fails at once and says why.
func TestWhoIsFullIsntPicked(t *testing.T) {
	inWorld(t, Config{Bulkhead: &bulkhead.Config{Limit: 3, Wait: time.Hour}}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		var calls []*Choice
		ids := map[string]int{}
		for range 6 {
			c := w.take()
			ids[c.Instance().ID]++
			calls = append(calls, &c)
		}
		w.want("of six", fmt.Sprint(ids), "map[a:3 b:3]")
		begun := time.Now()
		_, err := w.Take(t.Context(), nil)
		var e *eider.Error
		if !errors.Is(err, bulkhead.ErrFull) || !errors.As(err, &e) || e.Kind != eider.Unavailable || e.RetryAfter <= 0 || !time.Now().Equal(begun) {
			t.Fatalf("%v, %+v", err, e)
		}
		w.want("the error", err.Error()[:strings.Index(err.Error(), ";")], "pick orders: of 2 instances 2 can't be called now")
		for _, part := range []string{`bulkhead "orders/a" is full: 3 of 3 calls`, `bulkhead "orders/b" is full`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v doesn't say %q", err, part)
			}
		}
		poll, err := w.Take(t.Context(), &Excluded{Waits: true})
		if err != nil {
			t.Fatalf("a long poll: %v", err)
		}
		poll.Done(Success)
		if _, err := w.Take(t.Context(), nil); err == nil {
			t.Error("a long poll has given back what it hadn't")
		}
		for i, end := range []func(c *Choice){
			func(c *Choice) { c.Answered(); c.Answered() }, (*Choice).Failed, func(c *Choice) { c.Done(Failure) },
			func(c *Choice) { c.Done(Neutral); c.Answered() }, func(c *Choice) { c.Answered(); c.Done(Success) }, func(c *Choice) { c.Done(Refusal) },
		} {
			end(calls[i])
			c, err := w.Take(t.Context(), nil)
			if err != nil {
				t.Fatalf("after the end of %d: %v", i, err)
			}
			defer c.Done(Neutral)
			if _, err := w.Take(t.Context(), nil); err == nil {
				t.Errorf("%d has given back more than it had", i)
			}
		}
		for _, m := range w.members {
			if n := m.bulk.Load().Snapshot().Twice; n != 0 {
				t.Errorf("%s: %d slots were released twice", m.id, n)
			}
		}
	})
}

// TestWhoIsFullIsntPickedByAnybody: who is kept, or has failed everywhere else, passes breakers and no bulkhead.
func TestWhoIsFullIsntPickedByAnybody(t *testing.T) {
	inWorld(t, Config{Bulkhead: &bulkhead.Config{Limit: 2}}, "", func(t *testing.T, w *world) {
		w.push("a UP")
		w.outcomeOf("a", Refusal)
		w.want("standing", w.standing(), "a open kept")
		w.hang("a", 2)
		if _, err := w.Take(t.Context(), nil); !errors.Is(err, bulkhead.ErrFull) && !errors.Is(err, breaker.ErrRejected) {
			t.Errorf("a third: %v", err)
		}
	})
}

// TestATrialThatFindsNoRoomIsOfferedAgain: it isn't lost.
func TestATrialThatFindsNoRoomIsOfferedAgain(t *testing.T) {
	inWorld(t, Config{Bulkhead: &bulkhead.Config{Limit: 2}}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		calls := w.hang("a", 2)
		w.members[0].breaker(w.Roster).Report(breaker.Refused)
		w.wait(time.Second)
		c := w.take()
		w.want("while it is full", c.Instance().ID, "b")
		c.Done(Success)
		calls[0].Done(Neutral)
		c = w.take()
		w.want("once there is room", c.Instance().ID, "a")
		c.Done(Success)
		w.want("and then", w.standingOf("a"), "closed")
		calls[1].Done(Neutral)
	})
}

// TestK21ASlotThatIsLostComesBack: its lease ends.
func TestK21ASlotThatIsLostComesBack(t *testing.T) {
	inWorld(t, Config{Bulkhead: &bulkhead.Config{Limit: 1}}, "", func(t *testing.T, w *world) {
		w.push("a UP")
		w.take()
		if _, err := w.Take(t.Context(), nil); err == nil {
			t.Fatal("there is room for two")
		}
		w.wait(3 * time.Minute)
		w.take()
	})
}

func TestTakeWithABulkheadAllocatesNothing(t *testing.T) {
	r := still(10)
	r.config.Bulkhead = &bulkhead.Config{}
	if n := testing.AllocsPerRun(1000, func() {
		c, _ := r.Take(t.Context(), nil)
		c.Wrote()
		c.Answered()
		c.Done(Success)
	}); n != 0 {
		t.Errorf("%v allocations a pick, want 0", n)
	}
}
