package roster

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// TestCountingInAndLookingAreOneStep races a picker against the mark, again and again: either a pick is
// counted when letting go looks, or it sees the mark. Looking first and counting after that fails here.
func TestCountingInAndLookingAreOneStep(t *testing.T) {
	const rounds = 1 << 13
	members := make([]member, rounds)
	let := make([]atomic.Bool, rounds)
	var round atomic.Int64
	var stop atomic.Bool
	var wrong int
	var picker sync.WaitGroup
	picker.Go(func() {
		for i := 0; i < rounds && !stop.Load(); i++ {
			round.Store(int64(i) + 1)
			for !stop.Load() {
				if ok, _ := members[i].enter(); !ok {
					break
				}
				if let[i].Load() {
					wrong++
				}
				members[i].leave(unwritten | 1)
			}
		}
	})
	end := time.Now().Add(3 * time.Second) // hundreds of rounds on the busiest machine
	for i := 0; i < rounds && time.Now().Before(end); i++ {
		until(&round, i+1, func() {})
		for range i % 64 { // meet it at every step
			round.Load()
		}
		members[i].mark()
		for ok := false; !ok; ok, _ = members[i].settled(0) {
			runtime.Gosched()
		}
		let[i].Store(true)
	}
	stop.Store(true)
	picker.Wait()
	if wrong > 0 {
		t.Fatalf("%d picks began after they had been let go of", wrong)
	}
}

// until spins, and does something, until the number is reached.
func until(n *atomic.Int64, value int, do func()) {
	for spins := 1; n.Load() < int64(value); spins++ {
		if do(); spins%1024 == 0 {
			runtime.Gosched()
		}
	}
}

// TestAWrittenPickIsNeverOverlooked races Wrote against the look of letting go: the pick moves from one
// count to another and must be in one of them at any time.
func TestAWrittenPickIsNeverOverlooked(t *testing.T) {
	const rounds = 1 << 13
	r := still(1)
	choices := make([]Choice, rounds)
	for i := range choices {
		choices[i] = Choice{r: r, m: &member{}}
		choices[i].m.enter()
		choices[i].m.mark()
	}
	var round, begun, done atomic.Int64
	var stop atomic.Bool
	var picker sync.WaitGroup
	picker.Go(func() {
		for i := range choices {
			if until(&round, i+1, func() {}); stop.Load() {
				return
			}
			begun.Store(int64(i) + 1)
			choices[i].Wrote()
			done.Store(int64(i) + 1)
		}
	})
	overlooked := 0
	end := time.Now().Add(3 * time.Second)
	for i := 0; i < rounds && time.Now().Before(end); i++ {
		now := r.now()
		round.Store(int64(i) + 1)
		until(&begun, i+1, func() {})
		until(&done, i+1, func() {
			if ok, _ := choices[i].m.settled(now); ok {
				overlooked++
			}
		})
	}
	stop.Store(true)
	round.Store(rounds)
	picker.Wait()
	if overlooked > 0 {
		t.Fatalf("%d looks found no pick where one was", overlooked)
	}
}

// ledger is what the checker keeps of one incarnation of x.
type ledger struct {
	held  atomic.Int64 // picks that haven't ended
	let   atomic.Bool  // acknowledged
	picks atomic.Int64
}

// TestNoPickStartsAfterTheAcknowledgement has many pickers in full cry while instance after instance
// leaves. When one is acknowledged, no pick of it may be held, and none may start.
//
// More threads than cores make the kernel stop pickers at any instruction, for milliseconds: also
// between any two steps of a pick.
func TestNoPickStartsAfterTheAcknowledgement(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	const rounds = 40
	books := make([]ledger, rounds+1) // by incarnation
	src := newFake()
	acked := make(chan uint64, 1)
	src.onAck = func(w word) {
		for _, d := range w.letGo {
			b := &books[d.Incarnation.Number]
			if n := b.held.Load(); n != 0 {
				t.Errorf("%s is acknowledged while %d picks of it are held", d.Incarnation, n)
			}
			if !b.let.Swap(true) {
				acked <- d.Incarnation.Number
			}
		}
	}
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
				check(t, books, &c, n)
			}
		})
	}
	end := time.Now().Add(5 * time.Second)
	w := &world{t: t, run: 1}
	for i := uint64(1); i <= rounds && time.Now().Before(end) && !t.Failed(); i++ {
		// One of two is sound, so that all pick it; the other is an alternative.
		x := eider.Incarnation{Number: i, Nonce: i}
		up, draining := w.view("a UP wedged", "x UP"), w.view("a UP wedged", "x DRAINING")
		up.Instances[1].Incarnation, draining.Instances[1].Incarnation = x, x
		src.updates <- updateOf(up)
		for books[i].picks.Load() < 10_000 && time.Now().Before(end) {
			runtime.Gosched()
		}
		src.updates <- updateOf(draining)
		<-acked
	}
	stop.Store(true)
	pickers.Wait()
}

// check holds and ends one pick, in one of the ways that picks end.
func check(t *testing.T, books []ledger, c *Choice, n int) {
	in := c.Instance()
	if in.ID != "x" {
		c.Done(Success)
		return
	}
	books[in.Incarnation.Number].check(t, c, n)
}

// check holds and ends one pick of x.
func (b *ledger) check(t *testing.T, c *Choice, n int) {
	in := c.Instance()
	if in.ID != "x" {
		c.Done(Success)
		return
	}
	b.picks.Add(1)
	b.held.Add(1)
	if b.let.Load() {
		t.Errorf("%s is picked after its acknowledgement", in.Incarnation)
	}
	switch n % 4 {
	case 0:
		c.Wrote()
		b.held.Add(-1) // before the last word that frees it
		c.Answered()
	case 1:
		c.Answered()
		b.held.Add(-1)
		c.Wrote()
	case 2:
		c.Wrote()
		b.held.Add(-1)
	default:
		b.held.Add(-1)
	}
	c.Done(Success)
}
