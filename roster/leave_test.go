package roster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// book is what companions and Config.LetGo were told, in order.
type book struct{ lines []string }

func (b *book) note(line string) { b.lines = append(b.lines, line) }
func (b *book) take() string {
	defer func() { b.lines = nil }()
	return strings.Join(b.lines, "; ")
}

type companion struct {
	b  *book
	id string
}

func (c companion) LetGo() { c.b.note("close idle " + c.id) }
func (c companion) Close() { c.b.note("bury " + c.id) }

// config returns a configuration whose strangers write into a book.
func (b *book) config() Config {
	return Config{
		LetGo: func(in eider.Instance) { b.note("user lets go of " + in.ID) },
		Companion: func(in eider.Instance) Companion {
			b.note("make " + in.ID)
			return companion{b, in.ID}
		},
	}
}

// TestD18LettingGoIsAcknowledgedNotGuessed: a caller that holds no call and no connection is silent, and
// still owes its word. The word comes with the applied view, after everything was closed.
func TestD18LettingGoIsAcknowledgedNotGuessed(t *testing.T) {
	b := &book{}
	inWorld(t, b.config(), "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.want("made", b.take(), "make a; make b")
		w.wait(time.Hour)
		w.want("acknowledged, silent for an hour", w.src.last(), "1:1")
		w.src.onAck = func(a word) { b.note("ack " + a.at.String()) }
		w.push("a DRAINING", "b UP")
		w.want("in order", b.take(), "close idle a; user lets go of a; ack 1:2")
		w.want("acknowledged", w.src.last(), "1:2 let go a")
		w.want("picked", w.picked(), "b")
	})
}

// TestAPickHoldsUpLettingGo until its request is written and answered, or written a second ago, or over.
func TestAPickHoldsUpLettingGo(t *testing.T) {
	second := func(w *world) { w.wait(time.Second + tick) }
	for _, row := range []struct {
		name string
		do   func(w *world, c *Choice)
		free bool
	}{
		{"picked", func(w *world, c *Choice) { w.wait(time.Hour) }, false},
		{"written", func(w *world, c *Choice) { c.Wrote(); w.wait(time.Second) }, false},
		{"written a second ago", func(w *world, c *Choice) { c.Wrote(); second(w) }, true},
		{"answered", func(w *world, c *Choice) { c.Answered(); w.wait(time.Hour) }, false},
		{"written, answered", func(w *world, c *Choice) { c.Wrote(); c.Answered() }, true},
		{"answered, written", func(w *world, c *Choice) { c.Answered(); c.Wrote() }, true},
		{"over", func(w *world, c *Choice) { c.Done(Failure) }, true},
		{"written, over", func(w *world, c *Choice) { c.Wrote(); c.Done(Neutral) }, true},
		{"answered, over", func(w *world, c *Choice) { c.Answered(); c.Done(Success) }, true},
		{"over, written late", func(w *world, c *Choice) { c.Done(Failure); c.Wrote(); c.Answered() }, true},
		{"all twice", func(w *world, c *Choice) {
			for range 2 {
				c.Wrote()
				c.Answered()
				c.Done(Success)
			}
		}, true},
	} {
		for _, early := range []bool{true, false} {
			inWorld(t, Config{}, "", func(t *testing.T, w *world) {
				w.push("a UP", "b UP")
				c := w.takeOf("a")
				if early { // before the mark
					row.do(w, c)
				}
				w.push("a DRAINING", "b UP")
				if !early {
					row.do(w, c)
				}
				synctest.Wait()
				want := "1:2"
				if row.free {
					want += " let go a"
				}
				w.want(row.name, w.src.last(), want)
				c.Done(Success)
				synctest.Wait()
				w.want(row.name+", then over", w.src.last(), "1:2 let go a")
				if n := c.m.word.Load(); n != leaving {
					t.Fatalf("%s: the count is %x in the end, want the mark alone", row.name, n)
				}
			})
		}
	}
}

// TestALongCallDoesNotHoldUpLettingGo: only the youngest unanswered requests do, each for its own second.
func TestALongCallDoesNotHoldUpLettingGo(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		slow := w.takeOf("a")
		slow.Wrote()
		w.wait(2*time.Second - tick) // the ring has come round nearly once
		fresh := w.takeOf("a")
		fresh.Wrote()
		w.push("a DRAINING", "b UP")
		w.wait(time.Second)
		w.want("a second after the fresh one", w.src.last(), "1:2")
		w.wait(tick)
		w.want("an eighth later", w.src.last(), "1:2 let go a")
		fresh.Done(Success)
		slow.Done(Success)
	})
}

func TestWithoutAnAlternativeNobodyIsLetGo(t *testing.T) {
	b := &book{}
	inWorld(t, b.config(), "", func(t *testing.T, w *world) {
		w.push("a UP", "b DOWN")
		b.take()
		w.push("a DRAINING", "b DOWN")
		w.want("acknowledged", w.src.last(), "1:2 no alternative a")
		w.want("picked", w.picked(), "a")
		w.push("a DRAINING", "b UP beats missed")
		w.want("acknowledged with a suspect alternative", w.src.last(), "1:3 let go a")
		w.want("picked", w.picked(), "b")
		w.want("told", b.take(), "close idle a; user lets go of a")
		w.push("a DRAINING", "b DOWN")
		w.want("renounced for good", w.picked(), "pick orders: 2 instances: 1 DRAINING and let go of, 1 DOWN")
		w.want("still named", w.src.last(), "1:4 let go a")
	})
}

// TestTheAlternativeGoesAway before the leaving one is let go of: it is the last one to call again.
func TestTheAlternativeGoesAway(t *testing.T) {
	b := &book{}
	inWorld(t, b.config(), "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		upload := w.takeOf("a")
		w.push("a DRAINING", "b UP")
		w.want("picked", w.picked(), "b")
		w.push("a DRAINING", "b gone DEAD")
		w.want("picked without the other", w.picked(), "a")
		w.want("acknowledged", w.src.last(), "1:3 no alternative a")
		w.push("a DRAINING", "c UP")
		w.want("picked with another", w.picked(), "c")
		w.want("acknowledged, while the upload goes on", w.src.last(), "1:4")
		upload.Done(Success)
		synctest.Wait()
		w.want("acknowledged in the end", w.src.last(), "1:4 let go a")
		w.want("companions", b.take(), "make a; make b; bury b; make c; close idle a; user lets go of a")
	})
}

func TestAllLeavingAtOnce(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.push("a DRAINING", "b DRAINING")
		w.want("acknowledged", w.src.last(), "1:2 no alternative a,b")
		w.want("picked", w.picked(), "a b")
	})
}

func TestRenouncedUntilANewerRecordSaysUp(t *testing.T) {
	b := &book{}
	inWorld(t, b.config(), "", func(t *testing.T, w *world) {
		w.push("a#1.1 UP", "b UP")
		w.push("a#1.5 DRAINING", "b UP")
		w.run = 2
		w.push("a#1.4 UP", "b UP") // another node that hasn't heard
		w.want("picked", w.picked(), "b")
		w.want("acknowledged to the other node", w.src.last(), "2:3 let go a")
		b.take()
		w.push("a#1.5 DRAINING", "b UP")
		w.want("acknowledged again", w.src.last(), "2:4 let go a")
		w.push("a#1.6 UP", "b UP")
		w.want("a newer record", w.picked(), "a b")
		w.want("no longer named", w.src.last(), "2:5")
		w.want("with a companion of its own", b.take(), "make a; bury a")
		w.push("a#1.7 DRAINING", "b UP")
		w.want("leaving anew", w.src.last(), "2:6 let go a")
		w.want("told anew", b.take(), "close idle a; user lets go of a")
		w.push("a#2 UP", "b UP")
		w.want("another incarnation", w.picked(), "a b")
		w.want("acknowledged", w.src.last(), "2:7")
	})
}

// TestRenouncedBeyondItsEnd: a node that hasn't heard of the end, nor of the leave, lists it as it was.
func TestRenouncedBeyondItsEnd(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a#1.1 UP", "b UP")
		w.push("a#1.2 DRAINING", "b UP")
		w.push("a#1.3 gone LEFT", "b UP")
		w.want("no longer named", w.src.last(), "1:3")
		w.run = 2
		w.push("a#1.1 UP", "b UP")
		w.want("picked", w.picked(), "b")
		w.want("named again", w.src.last(), "2:4 let go a")
		w.push("a#2.1 UP", "b UP")
		w.want("its successor", w.picked(), "a b")
	})
}

// TestAPickHoldsUpLettingGoBeyondTheEnd: the instance was thought dead and is revived, still leaving, with
// an old pick on its way.
func TestAPickHoldsUpLettingGoBeyondTheEnd(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a#1.1 UP", "b UP")
		c := w.takeOf("a")
		w.push("a#1.2 DRAINING", "b UP")
		w.push("a#1.3 gone DEAD", "b UP")
		w.push("a#1.4 DRAINING", "b UP")
		w.want("before it is over", w.src.last(), "1:4")
		c.Done(Failure)
		synctest.Wait()
		w.want("after it", w.src.last(), "1:4 let go a")
	})
}

func TestLeavingInBand(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a#1.1 UP", "b UP")
		c := w.takeOf("a")
		c.Leaving(c.Instance().Incarnation)
		w.want("picked from then on", w.picked(), "b")
		w.want("its own call is still on its way", w.src.last(), "1:1")
		c.Wrote()
		c.Answered()
		synctest.Wait()
		w.want("acknowledged before the registry knows", w.src.last(), "1:1 let go a")
		w.push("a#1.2 UP", "b UP") // written before it left
		w.want("final for the incarnation", w.picked(), "b")
		w.push("a#1.3 DRAINING", "b UP")
		w.want("named", w.src.last(), "1:3 let go a")
		c.Done(Success)
	})
}

func TestLeavingInBandWithoutAnAlternative(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP")
		for range 3 {
			c := w.take()
			c.Leaving(c.Instance().Incarnation)
			c.Done(Success)
		}
		w.want("picked", w.picked(), "a")
		w.push("a UP", "b UP")
		w.want("picked when there is one", w.picked(), "b")
		w.want("acknowledged", w.src.last(), "1:2 let go a")
	})
}

// TestR16AnotherIncarnationAtTheAddress: what answers there says nothing about who was picked, and
// inherits nothing from whoever had the address before.
func TestR16AnotherIncarnationAtTheAddress(t *testing.T) {
	b := &book{}
	inWorld(t, b.config(), "", func(t *testing.T, w *world) {
		w.push("a#1 UP", "b UP")
		c := w.takeOf("a")
		c.Leaving(eider.Incarnation{Number: 2, Nonce: nonceOf("a", 2)})
		w.want("picked", w.picked(), "a b")
		c.Done(Refusal)
		w.want("picked with a set aside", w.picked(), "b")
		b.take()
		w.push("a#2 UP", "b UP")
		w.want("picked with a's successor", w.picked(), "a b")
		w.want("companions", b.take(), "make a; bury a")
		moved := w.view("a#2 UP", "b UP")
		moved.Instances[0].Address = "elsewhere:80"
		w.update(updateOf(moved))
		w.want("companions of another address", b.take(), "make a; bury a")
	})
}

// TestMovingWhileLeaving: the pick that is on its way to the old address still holds up letting go.
func TestMovingWhileLeaving(t *testing.T) {
	b := &book{}
	inWorld(t, b.config(), "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		c := w.takeOf("a")
		w.push("a DRAINING", "b UP")
		b.take()
		moved := w.view("a DRAINING", "b UP")
		moved.Instances[0].Address = "elsewhere:80"
		w.update(updateOf(moved))
		w.want("before it is over", w.src.last()+"; "+b.take(), "1:3; make a; bury a")
		c.Done(Success)
		synctest.Wait()
		w.want("after it", w.src.last()+"; "+b.take(), "1:3 let go a; close idle a; user lets go of a")
	})
}

// TestK13EverythingDiesWithTheIncarnation: churn leaves nothing behind.
func TestK13EverythingDiesWithTheIncarnation(t *testing.T) {
	b := &book{}
	inWorld(t, b.config(), "", func(t *testing.T, w *world) {
		w.push("z UP")
		b.take()
		for i := range uint64(2 * remembered) {
			id := string(rune('a' + i%20))
			up := w.view(id+" UP", "z UP")
			up.Instances[0].Incarnation.Nonce = i + 1
			w.update(updateOf(up))
			w.outcomeOf(id, Refusal)
			gone := w.view("z UP", id+" gone LEFT")
			gone.Gone[0].Incarnation.Nonce = i + 1
			w.update(updateOf(gone))
			w.want("companions", b.take(), "make "+id+"; bury "+id)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.members) != 1 || len(w.out) != 0 || len(w.past) != 0 {
			t.Fatalf("%d members, %d on their way out, %d remembered; want 1, 0, 0", len(w.members), len(w.out), len(w.past))
		}
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		for i := range uint64(2 * remembered) {
			for _, lines := range [][]string{{"a DRAINING", "z UP"}, {"z UP", "a gone LEFT"}} {
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
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.past); n != remembered {
			t.Fatalf("%d are remembered, want %d", n, remembered)
		}
	})
}

// TestASlowLetGoDelaysNoView: the user's function blocks for a minute.
func TestASlowLetGoDelaysNoView(t *testing.T) {
	c := Config{LetGo: func(eider.Instance) { time.Sleep(time.Minute) }}
	inWorld(t, c, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP")
		w.push("a DRAINING", "b UP")
		w.push("a DRAINING", "b UP", "c UP")
		w.want("picked meanwhile", w.picked(), "b c")
		w.want("acknowledged meanwhile", w.src.last(), "1:1")
		w.wait(time.Minute)
		w.want("acknowledged then", w.src.last(), "1:3 let go a")
	})
}

// TestASlowCompanionLeavesNobodyUncallable: nearly all are replaced at once, their companions are still
// being made, and the one that stays refuses meanwhile: it is left out, those that are replaced are picked on.
func TestASlowCompanionLeavesNobodyUncallable(t *testing.T) {
	pace := time.Duration(0)
	c := Config{Companion: func(eider.Instance) Companion { time.Sleep(pace); return nil }}
	inWorld(t, c, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP", "c UP")
		pace = time.Minute
		w.push("a#2 UP", "b#2 UP", "c UP")
		w.outcomeOf("c", Refusal)
		w.want("picked meanwhile", w.picked(), "a b")
		w.want("acknowledged meanwhile", w.src.last(), "1:1")
		w.wait(2 * time.Minute)
		w.want("acknowledged then", w.src.last(), "1:2")
		if c := w.takeOf("a"); c.Instance().Incarnation.Number != 2 {
			t.Fatalf("picked %s, want a's successor", c.Instance().Incarnation)
		}
	})
}

func updateOf(v *eider.View) registry.Update {
	return registry.Update{View: v, Connected: true, Lease: 20 * time.Second}
}
