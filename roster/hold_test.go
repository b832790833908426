package roster

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
)

// TestR7AHeldInstanceIsLetGoOf as one that leaves is, and named for its hold: no pick, no connection is left. Released,
// it is another member, with connections of its own, that is warmed up.
func TestR7AHeldInstanceIsLetGoOf(t *testing.T) {
	b := &book{}
	inWorld(t, b.config(), "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		c := w.takeOf("a")
		b.take()
		w.src.onAck = func(a word) { b.note("ack " + a.at.String()) }
		w.push("a!5 UP", "b UP")
		w.want("while a pick of it counts", b.take()+w.src.last(), "ack 1:21:2")
		w.want("picked", w.picked(), "b")
		c.Done(Success)
		synctest.Wait()
		w.want("in order", b.take(), "close idle a; user lets go of a; ack 1:2")
		w.want("acknowledged", w.src.last(), "1:2 let go a!5")
		w.push("a!7 UP", "b UP") // released and held again, as far as the node knows
		w.want("named by the count that it has now", w.src.last(), "1:3 let go a!7")
		b.take()
		w.push("a UP", "b UP")
		w.want("released", w.src.last(), "1:4")
		w.want("its connections", b.take(), "make a; bury a; ack 1:4")
		if _, warming := w.warming(); !warming {
			t.Error("it isn't warmed up")
		}
		w.want("picked again", w.pickedBy(1000), "a b")
	})
}

// TestAHoldIsNoLeave: what was let go of for a hold is never named as let go of for a leave, until it leaves. Else a
// leave that follows a release would find nobody to wait for.
func TestAHoldIsNoLeave(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a!1 UP", "b UP")
		w.want("held", w.src.last(), "1:1 let go a!1")
		w.push("a DOWN", "b UP")
		w.want("released, and DOWN", w.src.last(), "1:2")
		w.want("why it isn't picked", w.nobodyBut("b"), "pick orders: 2 instances: 1 DOWN, 1 tried already by this request")
		w.push("a UP", "b UP")
		w.want("UP again", w.pickedBy(1000), "a b")
		w.push("a!2 DRAINING", "b UP")
		w.want("held and leaving", w.src.last(), "1:4 let go a,a!2")
		w.push("a DRAINING", "b UP")
		w.want("released, and leaving for good", w.src.last(), "1:5 let go a")
		w.want("picked", w.picked(), "b")
	})
}

// nobodyBut tells why nobody is picked by who may not pick this one.
func (w *world) nobodyBut(id string) string {
	var not Excluded
	for _, in := range w.View().View.Instances {
		if in.ID == id {
			not.Add(in.Incarnation)
		}
	}
	if c, err := w.Take(w.t.Context(), &not); err != nil {
		return err.Error()
	} else {
		c.Done(Neutral)
		return c.Instance().ID
	}
}

// TestTheLastOneThatIsHeld is picked until somebody else can be, and never again after it was let go of.
func TestTheLastOneThatIsHeld(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a!1 UP", "b!2 DOWN", "c!3 UP")
		w.want("all are held", w.src.last(), "1:1 no alternative a!1,b!2,c!3")
		w.want("picked", w.picked(), "a c")
		w.push("a!1 UP", "b!2 DOWN", "c UP")
		w.want("an alternative", w.src.last(), "1:2 let go a!1,b!2")
		w.want("picked", w.picked(), "c")
		w.push("a!1 UP", "b!2 DOWN", "c DRAINING")
		w.want("it leaves as the last one", w.src.last(), "1:3 let go a!1,b!2 no alternative c")
		w.want("picked", w.picked(), "c")
		w.push("a!1 UP", "b!2 DOWN", "c gone LEFT")
		w.want("nobody", w.picked(), "pick orders: 2 instances, both held and let go of")
		w.push("a UP", "b!2 DOWN")
		w.want("released", w.picked(), "a")
	})
}

// TestAHoldOutlivesTheIncarnation: the next one of its key comes held, and is never picked; one that was taken for
// dead comes back as it was.
func TestAHoldOutlivesTheIncarnation(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a!1 UP", "b UP")
		w.push("a#2!1 UP", "b UP")
		w.want("the next incarnation", w.src.last(), "1:2 let go a!1")
		w.want("picked", w.picked(), "b")
		w.push("a#2 gone DEAD", "b UP")
		w.push("a#2!1 UP", "b gone DEAD")
		w.want("back from the dead, and still let go of", w.src.last(), "1:4 let go a!1")
		w.want("picked", w.picked(), "pick orders: 1 instance, held and let go of")
		w.push("a#2 UP")
		w.want("released", w.picked(), "a")
	})
}

// TestAHeldInstanceIsNeverCountedAsFailing: what an operator does to it is his.
func TestAHeldInstanceIsNeverCountedAsFailing(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP", "c UP")
		x, y := w.takeOf("a"), w.takeOf("a")
		w.push("a!1 UP", "b UP", "c UP")
		x.Done(Failure)
		y.Done(Refusal)
		synctest.Wait()
		if n := len(w.src.doubts); n != 0 || x.m.opened != 0 || x.m.guard.Load().State() != breaker.Closed {
			t.Errorf("%d doubts were told, set aside: %v", n, x.m.opened != 0)
		}
		w.push("a UP", "b UP", "c UP")
		w.want("picked", w.pickedBy(1000), "a b c")
	})
}

// TestNoPickStartsBetweenHoldAndRelease has many pickers in full cry while one instance is held and released, again
// and again: no pick of it may be held when its hold is acknowledged, and none may start before the release.
func TestNoPickStartsBetweenHoldAndRelease(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	const rounds = 40
	var book ledger
	src := newFake()
	acked := make(chan uint64, 1)
	src.onAck = book.heldBy(t, acked)
	r := Config{}.follow("orders", "", func() (source, error) { return src, nil })
	defer r.Close()
	r.View()
	var pickers sync.WaitGroup
	var stop atomic.Bool
	for i := range 16 {
		pickers.Go(func() {
			for n := i; !stop.Load(); n++ {
				c, err := r.Take(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				book.check(t, &c, n)
			}
		})
	}
	end := time.Now().Add(5 * time.Second)
	w := &world{t: t, run: 1}
	for i := uint64(1); i <= rounds && time.Now().Before(end) && !t.Failed(); i++ {
		up, held := w.view("a UP wedged", "x#1.1 UP"), w.view("a UP wedged", "x#1.1 UP")
		held.Instances[1].Hold = &eider.Hold{Count: i}
		book.let.Store(false)
		book.picks.Store(0)
		src.updates <- updateOf(up)
		for n := book.picks.Load(); n < 10_000 && time.Now().Before(end) || n == 0 && time.Now().Before(end.Add(time.Minute)); n = book.picks.Load() {
			runtime.Gosched()
		}
		if book.picks.Load() == 0 {
			t.Error("it was never picked after its release")
		}
		src.updates <- updateOf(held)
		select {
		case got := <-acked:
			if got != i {
				t.Errorf("acknowledged hold %d, want %d", got, i)
			}
		case <-time.After(time.Minute):
			t.Errorf("hold %d is never acknowledged", i)
		}
	}
	stop.Store(true)
	pickers.Wait()
}

// heldBy takes acknowledgements of holds of x: no pick of it may be held then.
func (b *ledger) heldBy(t *testing.T, acked chan<- uint64) func(word) {
	var last uint64
	return func(w word) {
		for _, d := range w.letGo {
			if d.Hold == 0 {
				t.Errorf("let go of for a leave: %v", d)
			}
			if n := b.held.Load(); n != 0 {
				t.Errorf("hold %d is acknowledged while %d picks are held", d.Hold, n)
			}
			if d.Hold > last {
				last = d.Hold
				b.let.Store(true)
				acked <- d.Hold
			}
		}
	}
}
