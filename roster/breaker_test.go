package roster

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/registry"
)

// standing writes who is what here: "a open aside, b closed", and, with an open one that is picked, "c open kept".
func (w *world) standing() string {
	var all []string
	for _, s := range w.Standings() {
		word := s.ID + " " + s.Breaker.State.String()
		if s.Aside {
			word += " aside"
		}
		if s.Kept {
			word += " kept"
		}
		all = append(all, word)
	}
	return strings.Join(all, ", ")
}

func (w *world) standingOf(id string) string {
	for _, s := range strings.Split(w.standing(), ", ") {
		if rest, ok := strings.CutPrefix(s, id+" "); ok {
			return rest
		}
	}
	return ""
}

// TestK7CallsThatHangSetAside, while not one of them has come back, and although nobody has given up.
func TestK7CallsThatHangSetAside(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP", "c UP")
		hung := w.hang("a", 5)
		w.wait(10 * time.Second)
		w.want("after ten seconds", w.picked(), "a b c") // this is what finds out, a fifteenth later at most
		w.wait(time.Second)
		w.picked()
		w.want("and a moment later", w.picked(), "b c")
		w.want("standing", w.standing(), "a open aside, b closed, c closed")
		for _, c := range hung {
			c.Done(Success)
		}
		w.want("what comes back late says nothing", w.standing(), "a open aside, b closed, c closed")
	})
}

// hang has n calls of an instance begin, and none of the others.
func (w *world) hang(id string, n int) (all []*Choice) {
	w.t.Helper()
	for range n {
		all = append(all, w.takeOf(id))
	}
	return all
}

// TestAnswersMayTakeLong: streams, downloads, long polls, and connections that a Pick is for.
func TestAnswersMayTakeLong(t *testing.T) {
	for name, take := range map[string]func(w *world) func(Outcome){
		"streams": func(w *world) func(Outcome) {
			c := w.takeOf("a")
			c.Answered()
			return c.Done
		},
		"long polls": func(w *world) func(Outcome) {
			c, err := w.Take(w.t.Context(), &Excluded{Waits: true})
			if err != nil {
				w.t.Fatal(err)
			}
			return c.Done
		},
		"connections": func(w *world) func(Outcome) {
			_, done, err := w.Pick(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			return func(o Outcome) {
				err := map[Outcome]error{Failure: errors.New("EOF"), Refusal: syscall.ECONNREFUSED}[o]
				done(&err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Config{}, "", func(t *testing.T, w *world) {
				w.push("a UP")
				var dones []func(Outcome)
				for range 40 {
					dones = append(dones, take(w))
				}
				w.wait(time.Hour)
				w.want("an hour later", w.picked()+": "+w.standing(), "a: a closed")
				for range 20 {
					dones[0](Success)
					dones = dones[1:]
				}
				w.want("when half of them have ended", w.standing(), "a closed")
				dones[0](Failure)
				w.want("after one that broke", w.standing(), "a closed")
				dones[1](Failure)
				w.want("after two in a row", w.standing(), "a open kept")
			})
		})
	}
}

// TestALongPollIsNoTrialOfOneThatHung: it would show nothing. One that refused it tries by being written, or a service
// that is called by nothing else would never have it back.
func TestALongPollIsNoTrialOfOneThatHung(t *testing.T) {
	poll := &Excluded{Waits: true}
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.hang("a", 10)
		w.wait(11 * time.Second)
		w.picked()
		w.want("it hangs", w.standingOf("a"), "open aside")
		w.wait(time.Second)
		for range 20 {
			c, err := w.Take(t.Context(), poll)
			if err != nil || c.Instance().ID != "b" {
				t.Fatalf("picked %v, %v", c.Instance(), err)
			}
			c.Wrote()
			c.Done(Success)
		}
		trial := w.take()
		w.want("any other is", trial.Instance().ID, "a")
		trial.Done(Success)
		w.want("and closes it", w.standingOf("a"), "closed")
	})
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.outcomeOf("a", Refusal)
		w.wait(time.Second)
		c, err := w.Take(t.Context(), poll)
		if err != nil || c.Instance().ID != "a" {
			t.Fatalf("picked %v, %v", c.Instance(), err)
		}
		w.want("before it is written", w.standingOf("a"), "half-open aside")
		c.Wrote()
		w.want("and then", w.standingOf("a"), "closed")
		c.Done(Failure)
		w.outcomeOf("a", Failure)
		w.want("what fails later counts", w.standingOf("a"), "open aside")
	})
}

// TestAnAnswerThatSaysSo: a 502 is the pick's outcome, however well its body ends.
func TestAnAnswerThatSaysSo(t *testing.T) {
	for _, waits := range []bool{false, true} {
		inWorld(t, Config{}, "", func(t *testing.T, w *world) {
			w.push("a UP", "b UP", "c UP")
			n := 0
			for n < 2 {
				c, err := w.Take(t.Context(), &Excluded{Waits: waits})
				if err != nil {
					t.Fatal(err)
				}
				if c.Instance().ID == "a" {
					c.Failed()
					n++
				}
				c.Done(Success)
			}
			w.want("after two", w.standingOf("a"), "open aside")
		})
	}
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.outcomeOf("a", Refusal)
		w.wait(time.Second)
		trial := w.takeOf("a")
		trial.Failed()
		trial.Done(Success)
		w.want("after a trial", w.standingOf("a"), "open aside")
		w.wait(2 * time.Second)
		trial = w.takeOf("a")
		trial.Answered()
		w.want("a trial that is answered", w.standingOf("a"), "closed")
		trial.Done(Failure)
		w.outcomeOf("a", Failure)
		w.want("whose body broke off counts", w.standingOf("a"), "open aside")
	})
}

// TestU2RatesOpenToo: an instance that fails every other call is set aside, though it never fails twice in a row.
func TestU2RatesOpenToo(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		for i := range 10 {
			w.want(fmt.Sprintf("after %d", i), w.picked(), "a b")
			w.outcomeOf("a", []Outcome{Success, Failure}[i%2])
		}
		w.want("after ten", w.picked(), "b")
	})
}

// TestBackIsWarmedUp: whoever is in again is given his share slowly, like a newcomer.
func TestBackIsWarmedUp(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		share := func() (n int) {
			for range 1000 {
				c := w.take()
				if c.Instance().ID == "a" {
					n++
				}
				c.Done(Neutral)
			}
			return n
		}
		w.outcomeOf("a", Refusal)
		w.wait(time.Second)
		w.outcomeOf("a", Success)
		if n := share(); n < 20 || n > 250 {
			t.Errorf("%d of 1000 picks at once, want about 90", n)
		}
		w.wait(11 * time.Second)
		if n := share(); n < 350 || n > 650 {
			t.Errorf("%d of 1000 picks after ten seconds, want about 500", n)
		}
	})
}

// TestK14NotClosedByAnAbsence: an instance that is forgotten and comes back as the same incarnation has the breaker that
// it had; another incarnation has a new one, and so has one that left.
func TestK14NotClosedByAnAbsence(t *testing.T) {
	for _, row := range []struct {
		name string
		away func(w *world)
		back string
		want string
	}{
		{"dead and revived", func(w *world) { w.push("b UP", "a gone DEAD") }, "a UP", "b"},
		{"lapsed and revived", func(w *world) { w.push("b UP", "a gone LAPSED") }, "a UP", "b"},
		{"absent for a lease", func(w *world) {
			w.push("b UP")
			w.wait(20 * time.Second)
		}, "a UP", "b"},
		{"held and released", func(w *world) { w.push("a!1 UP", "b UP") }, "a UP", "b"},
		{"another incarnation", func(w *world) { w.push("b UP", "a gone DEAD") }, "a#2 UP", "a b"},
		{"the next incarnation at once", func(w *world) {}, "a#2 UP", "a b"},
		{"left", func(w *world) { w.push("b UP", "a gone LEFT") }, "a UP", "a b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, Config{Breaker: breaker.Config{OpenFor: time.Minute}}, "", func(t *testing.T, w *world) {
				w.push("a UP", "b UP")
				w.outcomeOf("a", Refusal)
				row.away(w)
				w.want("meanwhile", w.picked(), "b")
				v := w.view(row.back, "b UP")
				v.Instances[0].Attachment = 2
				w.pushView(v)
				w.want("back", w.picked(), row.want)
				if row.want == "b" {
					w.wait(76 * time.Second)
					c := w.take()
					w.want("its trial", c.Instance().ID, "a")
					c.Done(Success)
					w.want("after it", w.picked(), "a b")
				}
			})
		})
	}
}

func TestK14ThoseThatArentClosedAreForgottenLast(t *testing.T) {
	inWorld(t, Config{Breaker: breaker.Config{OpenFor: time.Hour}}, "", func(t *testing.T, w *world) {
		w.push("a UP", "z UP")
		w.outcomeOf("a", Refusal)
		w.push("z UP", "a gone DEAD")
		for i := range uint64(2 * remembered) {
			for _, lines := range [][]string{{"c DRAINING", "z UP"}, {"z UP", "c gone LEFT"}} {
				v := w.view(lines...)
				for k := range v.Gone {
					v.Gone[k].Incarnation.Nonce = i + 1
				}
				if len(v.Gone) == 0 {
					v.Instances[0].Incarnation.Nonce = i + 1
				}
				w.update(updateOf(v))
			}
		}
		v := w.view("a UP", "z UP")
		v.Instances[0].Attachment = 2
		w.pushView(v)
		w.want("picked", w.picked(), "z")
	})
}

// TestK18WhatHangsAtOneThatIsHeldSaysNothing, also when it is released: it may have been stopped on purpose.
func TestK18WhatHangsAtOneThatIsHeldSaysNothing(t *testing.T) {
	var events []string
	c := Config{Breaker: breaker.Config{OnEvent: func(ev breaker.Event) { events = append(events, ev.Name+" "+ev.To.String()) }}}
	inWorld(t, c, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		calls := w.hang("a", 10)
		w.push("a!1 UP", "b UP")
		w.wait(30 * time.Second)
		w.want("its picks hang; standing", w.standing(), "a open, b closed")
		for _, c := range calls {
			c.Done(Failure)
		}
		w.push("a UP", "b UP")
		w.want("released", w.picked(), "a b")
		w.want("events", strings.Join(events, ", "), "")
		w.outcomeOf("a", Refusal)
		w.want("and then", strings.Join(events, ", "), "orders/a open")
	})
}

// TestConsecutiveCanBeOff: every zero is the house's, and below it a rule is off.
func TestConsecutiveCanBeOff(t *testing.T) {
	inWorld(t, Config{Breaker: breaker.Config{Consecutive: -1, FailureMin: 5}}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		for range 4 {
			w.outcomeOf("a", Failure)
		}
		w.want("after four", w.picked(), "a b")
		w.outcomeOf("a", Failure)
		w.want("after five", w.picked(), "b")
	})
}

// TestPermitsEndOnce: Answered, Failed and Done in any order and number, from two goroutines.
func TestPermitsEndOnce(t *testing.T) {
	for range 300 {
		r := still(1)
		m := r.members[0]
		c, _ := r.Take(t.Context(), nil)
		done := make(chan struct{})
		go func() {
			c.Answered()
			c.Answered()
			close(done)
		}()
		c.Done(Failure)
		c.Done(Success)
		<-done
		if s := m.guard.Load().Snapshot(); s.InFlight != 0 || s.Total != 1 && s.Total != 2 || s.Failures != 1 {
			t.Fatalf("%+v", s)
		}
		r.Close()
	}
}

// TestK5OneTrialAmongManyPickers, with goroutines that really meet.
func TestK5OneTrialAmongManyPickers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFake()
		r := Config{}.follow("orders", "", func() (source, error) { return src, nil })
		defer r.Close()
		r.View()
		src.updates <- registry.Update{View: viewOf(4, 1), Connected: true}
		synctest.Wait()
		bad := r.members[0]
		for bad.opened == 0 {
			c, _ := r.Take(t.Context(), nil)
			if c.m == bad {
				c.Done(Refusal)
				continue
			}
			c.Done(Success)
		}
		time.Sleep(time.Second)
		var met atomic.Int64
		var all sync.WaitGroup
		for range 400 {
			all.Go(func() {
				c, _ := r.Take(t.Context(), nil)
				if c.m == bad {
					met.Add(1)
				}
				time.Sleep(time.Millisecond)
				c.Done(Success)
			})
		}
		all.Wait()
		if n := met.Load(); n != 1 {
			t.Errorf("%d of 400 picks at the same moment were the trial, want 1", n)
		}
	})
}
