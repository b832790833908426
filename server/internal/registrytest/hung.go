package registrytest

import (
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// hangs begins requests that don't end.
func (p *process) hangs(n uint64) { p.works(func(done *eider.Work) { done.Arrived += n }) }

// answers completes them, and as many more as it may.
func (p *process) answers(n uint64) {
	p.works(func(done *eider.Work) {
		done.Arrived += n
		done.Completed, done.Ended = done.Arrived, done.Arrived
	})
}

var hungCases = []testCase{
	{name: "U3ABeatThatCompletesNothingMakesASuspect", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		p.answers(100)
		w.pass(beat)
		p.hangs(3)
		w.pass(beat)
		w.pass(2*beat - time.Millisecond)
		w.stands("orders", "1", eider.Up, 0)
		w.pass(time.Millisecond)
		w.stands("orders", "1", eider.Up, eider.Wedged)
		events, _ := w.reg.Events(0)
		said := ""
		for _, e := range events {
			if e.Kind == eider.EventSuspect && e.ID == "1" {
				said = e.Detail
			}
		}
		if !strings.Contains(said, "3 requests under way") || !strings.Contains(said, "4s") {
			w.Errorf("the event says %q, want the numbers", said)
		}
		p.answers(0)
		w.pass(beat)
		w.stands("orders", "1", eider.Up, 0)
		w.pass(time.Minute)
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "SlowIsNotHung", run: func(w *world) {
		p := w.serve("orders", "1")
		p.answers(1)
		p.works(func(done *eider.Work) { done.Slowest = 3 * time.Second })
		w.pass(beat)
		p.hangs(1)
		w.pass(beat + 12*time.Second - time.Millisecond)
		w.stands("orders", "1", eider.Up, 0)
		w.pass(time.Millisecond)
		w.stands("orders", "1", eider.Up, eider.Wedged)
	}},
	{name: "AStreamOfCompletionsIsNeverHung", run: func(w *world) {
		p := w.serve("orders", "1")
		for range 30 {
			p.works(func(done *eider.Work) { done.Arrived += 10; done.Completed += 10; done.Ended += 10 })
			p.hangs(1) // one of eleven never ends
			w.pass(beat)
			w.stands("orders", "1", eider.Up, 0)
		}
	}},
	{name: "ACallerThatGaveUpIsNoHang", run: func(w *world) {
		p := w.serve("orders", "1")
		p.works(func(done *eider.Work) { done.Arrived++; done.Ended++ })
		w.pass(time.Minute)
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "CallersThatAllGiveUpAreAHang", run: func(w *world) {
		p := w.serve("orders", "1")
		for range 4 {
			p.works(func(done *eider.Work) { done.Arrived++; done.Ended++ })
			w.pass(beat)
		}
		w.stands("orders", "1", eider.Up, eider.Wedged)
	}},
	{name: "WhoGaveUpCuresNobody", run: func(w *world) {
		p := w.serve("orders", "1")
		p.hangs(3)
		w.pass(3 * beat)
		w.stands("orders", "1", eider.Up, eider.Wedged)
		p.works(func(done *eider.Work) { done.Ended = done.Arrived })
		w.pass(time.Minute)
		w.stands("orders", "1", eider.Up, eider.Wedged)
		p.hangs(2)
		w.pass(beat)
		p.works(func(done *eider.Work) { done.Completed++; done.Ended = done.Arrived }) // one was still awaited
		w.pass(beat)
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "ANewStreamIsNoCompletion", run: func(w *world) {
		p := w.serve("orders", "1")
		p.hangs(1)
		w.pass(3 * beat)
		w.stands("orders", "1", eider.Up, eider.Wedged)
		p.again()
		w.stands("orders", "1", eider.Up, eider.Wedged)
		p.answers(1)
		w.pass(beat)
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "ANewProcessBeginsAtNothing", run: func(w *world) {
		p := w.serve("orders", "1")
		p.answers(1000)
		w.pass(beat)
		p.hangs(1)
		w.pass(4 * beat)
		w.stands("orders", "1", eider.Up, eider.Wedged)
		p.silence()
		p.rec.Incarnation, p.rec.Attachment = eider.Incarnation{Nonce: 77}, 0
		p.again()
		w.stands("orders", "1", eider.Up, 0)
		p.done, p.told = eider.Work{}, eider.Work{}
		p.speak()
		p.answers(1)
		w.pass(beat)
		p.hangs(1)
		w.pass(2 * beat)
		w.stands("orders", "1", eider.Up, 0)
		w.pass(beat)
		w.stands("orders", "1", eider.Up, eider.Wedged)
	}},
	{name: "AStoppedProcessIsSilentNotHung", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		p.answers(1)
		w.pass(beat)
		p.hangs(1)
		w.pass(beat)
		p.silence()
		w.pass(10 * time.Second)
		w.stands("orders", "1", eider.Up, eider.BeatsMissed)
		p.answers(1)
		p.speak()
		w.pass(moment)
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "AHungInstanceThatIsIdleIsTriedByOneCallerAtATime", run: func(w *world) {
		p := w.serve("orders", "1")
		w.serve("orders", "2")
		a, b := w.caller("a").follow("orders"), w.caller("b").follow("orders")
		page := w.observer("page").follow("orders")
		other := w.caller("other").follow("payments")
		p.hangs(1)
		w.pass(3*beat + time.Millisecond)
		w.stands("orders", "1", eider.Up, eider.Wedged)
		a.read()
		b.read()
		if n := len(a.trials) + len(b.trials); n != 1 {
			w.Fatalf("%d trials, want one", n)
		}
		if tried := append(a.trials, b.trials...)[0]; tried.Key != p.rec.Key || !tried.Incarnation.Is(p.rec.Incarnation) {
			w.Errorf("the trial is of %+v, want %+v", tried, p.rec.Departure())
		}
		w.pass(3*beat - time.Millisecond)
		a.read()
		b.read()
		w.pass(4 * time.Millisecond)
		a.read()
		b.read()
		if len(a.trials) != 1 || len(b.trials) != 1 {
			w.Errorf("a was asked %d times, b %d times, want once each", len(a.trials), len(b.trials))
		}
		p.answers(1)
		w.pass(beat)
		w.stands("orders", "1", eider.Up, 0)
		w.pass(time.Minute)
		a.read()
		b.read()
		if n := len(a.trials) + len(b.trials); n > 3 {
			w.Errorf("%d trials, also after the instance was cured", n)
		}
		if len(page.read().trials)+len(other.read().trials) > 0 {
			w.Error("an observer, or a caller of another service, was asked")
		}
	}},
	{name: "WhenAllHangAllStayListed", run: func(w *world) {
		var ps []*process
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			ps = append(ps, w.serve("orders", id))
		}
		for _, p := range ps {
			p.hangs(2)
		}
		w.pass(10 * lease)
		for _, p := range ps {
			w.stands("orders", p.rec.ID, eider.Up, eider.Wedged) // callers pick from all of them: less than half is unsuspected
		}
		if n, _ := w.happened(eider.EventPreserving, ""); n > 0 {
			w.Error("who hangs is counted among the silent")
		}
		for _, p := range ps {
			p.answers(0)
		}
		w.pass(beat)
		for _, p := range ps {
			w.stands("orders", p.rec.ID, eider.Up, 0)
		}
	}},
	{name: "AHungInstanceThatIsStillCalledNeedsNoTrial", run: func(w *world) {
		p := w.serve("orders", "1")
		a := w.caller("a").follow("orders")
		for range 10 {
			p.hangs(1)
			w.pass(beat / 2)
		}
		w.stands("orders", "1", eider.Up, eider.Wedged)
		if n := len(a.read().trials); n > 0 {
			w.Errorf("%d trials of an instance that callers pick anyway", n)
		}
	}},
}
