package roster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// trial is a node's wish; #2 in the id is the incarnation.
func trial(id string, incarnation uint64) *registry.Trial {
	return &registry.Trial{Departure: eider.Departure{Key: eider.Key{Service: "orders", ID: id},
		Incarnation: eider.Incarnation{Nonce: nonceOf(id, incarnation)}}}
}

// trials counts the trials among a hundred picks, and fails the test if one isn't of the instance.
func (w *world) trials(of string, not *Excluded) (n int) {
	w.t.Helper()
	for range 100 {
		c, err := w.Take(w.t.Context(), not)
		if err != nil {
			w.t.Fatal(err)
		}
		if c.Trial() {
			n++
		}
		if c.Trial() != (c.Instance().ID == of) {
			w.t.Fatalf("picked %s, trial: %v", c.Instance().ID, c.Trial())
		}
		c.Done(Neutral)
	}
	return n
}

var wedged = []string{"a UP", "b UP", "c UP", "h UP wedged"}

func TestU3ATrialIsOnePick(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push(wedged...)
		w.want("without a trial", fmt.Sprint(w.trials("h", nil)), "0")
		w.ask(trial("h", 1))
		w.want("with one", fmt.Sprint(w.trials("h", nil)), "1")
		w.want("and then", fmt.Sprint(w.trials("h", nil)), "0")
		w.ask(trial("h", 1))
		w.wait(trialFor)
		w.want("too late", fmt.Sprint(w.trials("h", nil)), "0")
		if w.TrialWaits() {
			t.Error("it still waits")
		}
		in, done, err := w.Pick(t.Context())
		w.ask(trial("h", 1))
		again, doneAgain, errAgain := w.Pick(t.Context())
		if err != nil || errAgain != nil || in.ID == "h" || again.ID != "h" {
			t.Errorf("Pick gives %s, and %s when there is a trial", in.ID, again.ID)
		}
		done(nil)
		doneAgain(nil)
		taken := trial("h", 1)
		taken.Claim() // by another roster of the process
		w.ask(taken)
		w.want("claimed elsewhere", fmt.Sprint(w.trials("h", nil)), "0")
	})
}

// TestU3WhoIsNotTried: whoever leaves, has ended, has been cured, or has failed here.
func TestU3WhoIsNotTried(t *testing.T) {
	for name, row := range map[string]struct {
		view []string
		want string
	}{
		"suspect among many suspects": {[]string{"a UP", "b UP wedged", "h UP wedged"}, "1"},
		"cured":                       {[]string{"a UP", "b UP", "h UP"}, "0"},
		"DOWN":                        {[]string{"a UP", "b UP", "h DOWN wedged"}, "0"},
		"leaving":                     {[]string{"a UP", "b UP", "h DRAINING wedged"}, "0"},
		"gone":                        {[]string{"a UP", "h gone DEAD"}, "0"},
		"another incarnation":         {[]string{"a UP", "b UP", "h#2 UP wedged"}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Config{}, "", func(t *testing.T, w *world) {
				w.push(row.view...)
				w.ask(trial("h", 1))
				n := 0
				for range 100 {
					c := w.take()
					if c.Trial() {
						n++
					}
					c.Done(Neutral)
				}
				w.want("trials", fmt.Sprint(n), row.want)
			})
		})
	}
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push(wedged...)
		for range 2 {
			w.ask(trial("h", 1))
			c := w.take()
			c.Done(Failure)
		}
		w.ask(trial("h", 1))
		w.want("trials of one that is set aside here", fmt.Sprint(w.trials("h", nil)), "0")
		w.wait(asideMost + time.Second)
		w.ask(trial("h", 1))
		w.want("once its time aside is over", fmt.Sprint(w.trials("h", nil)), "1")
	})
}

func TestATrialIsNoRetryAndSparesWhatCantBeRepeated(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push(wedged...)
		var not Excluded
		not.Add(eider.Incarnation{Nonce: 4711})
		spared := &Excluded{Unrepeatable: true}
		passed := func() {
			w.ask(trial("h", 1))
			w.want("retries", fmt.Sprint(w.trials("h", &not)), "0")
		}
		for range trialRisks {
			passed()
			w.want("what can't be repeated", fmt.Sprint(w.trials("h", spared)), "0")
			w.wait(2 * trialFor)
		}
		passed()
		w.want("when nobody else has tried it for long", fmt.Sprint(w.trials("h", spared)), "1")
		for range 2 * trialRisks {
			passed()
			w.want("in vain, so", fmt.Sprint(w.trials("h", spared)), "0")
		}
		passed()
		w.want("twice as long later", fmt.Sprint(w.trials("h", spared)), "1")
		w.ask(trial("h", 1))
		w.want("what can be repeated", fmt.Sprint(w.trials("h", nil)), "1")
	})
}

// TestU3NobodyIsRiskedWhileOthersCanBeSentAgain: neither for those that came too late to be given up, nor because the
// instance is set aside here just when the registry asks.
func TestU3NobodyIsRiskedWhileOthersCanBeSentAgain(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push(wedged...)
		for range trialRisks + 1 {
			w.ask(trial("h", 1))
			w.want("what is never a trial", fmt.Sprint(w.trials("h", &Excluded{Unrepeatable: true, NoTrial: true})), "0")
		}
		w.want("which leaves the trial to others", fmt.Sprint(w.trials("h", nil)), "1")
		for range 2 {
			w.ask(trial("h", 1))
			c := w.take()
			c.Done(Failure)
		}
		for range trialRisks {
			w.ask(trial("h", 1))
			w.want("what can be repeated, while it is set aside here", fmt.Sprint(w.trials("h", nil)), "0")
		}
		w.wait(asideMost + time.Second)
		w.ask(trial("h", 1))
		w.want("what can't be repeated", fmt.Sprint(w.trials("h", &Excluded{Unrepeatable: true})), "0")
	})
}

// The pick of a trial is a pick: letting go waits for it.
func TestATrialHoldsUpLettingGo(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push(wedged...)
		w.ask(trial("h", 1))
		c := w.take()
		w.push("a UP", "b UP", "c UP", "h DRAINING wedged")
		w.want("while it is under way", w.src.last(), "1:2")
		c.Done(Success)
		w.wait(0)
		w.want("once it has ended", w.src.last(), "1:2 let go h")
	})
}

// TestTrialsUnderManyPickers: as many picks as were asked for go there at most, whatever the others do.
func TestTrialsUnderManyPickers(t *testing.T) {
	r := still(8)
	v := viewOf(8, 2)
	v.Instances[3].Suspicion = eider.Wedged
	r.apply(registry.Update{View: v, Connected: true}, r.now())
	var wrong, tried atomic.Int64
	var stop atomic.Bool
	var pickers sync.WaitGroup
	for range 4 {
		pickers.Go(func() {
			for !stop.Load() {
				c, err := r.Take(t.Context(), nil)
				if err != nil {
					wrong.Add(1)
					return
				}
				if there := c.Instance().ID == v.Instances[3].ID; there != c.Trial() {
					wrong.Add(1)
				} else if there {
					tried.Add(1)
				}
				c.Done(Success)
			}
		})
	}
	const asks = 2000
	taken := 0
	for range asks {
		a := &registry.Trial{Departure: v.Instances[3].Record.Departure()}
		r.ask(a)
		for i := 0; r.TrialWaits() && i < 1000; i++ {
			c, _ := r.Take(t.Context(), nil)
			if c.Trial() {
				tried.Add(1)
			}
			c.Done(Success)
		}
		if !a.Claim() {
			taken++
		}
	}
	stop.Store(true)
	pickers.Wait()
	if wrong.Load() != 0 || int(tried.Load()) != taken || taken < asks/2 {
		t.Errorf("%d asked, %d claimed, %d picks went there, %d wrong ones", asks, taken, tried.Load(), wrong.Load())
	}
}

func TestATrialDoesNotAllocate(t *testing.T) {
	r := still(8)
	v := viewOf(8, 2)
	v.Instances[3].Suspicion = eider.Wedged
	r.apply(registry.Update{View: v, Connected: true}, r.now())
	a := &asked{Trial: &registry.Trial{Departure: v.Instances[3].Record.Departure()}, until: 1 << 62}
	spared := &Excluded{Unrepeatable: true}
	if n := testing.AllocsPerRun(1000, func() {
		r.asked.Store(a)
		c, _ := r.Take(t.Context(), spared)
		c.Done(Neutral)
		c, _ = r.Take(t.Context(), nil)
		c.Done(Neutral)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
