package ledger

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// says polls as one process of a name would that shows nothing, and returns the cap of the name.
func (w *world) says(name string, every, cache time.Duration) time.Duration {
	w.t.Helper()
	_, fx, err := w.tb.Poll(w.now, Polling{Caller: name, Service: "orders", Every: every, Cache: cache}, 1)
	w.saw(fx)
	if err != nil {
		w.t.Fatal(err)
	}
	c, _ := w.tb.KeptCaller("orders", name)
	return c.Cap
}

// TestOneNamesWordsOfDifferentLength: a process that polls every ten minutes shares its name with one that polls every
// ten seconds and keeps what it has for a minute, so that neither word says all. Whatever the one says, what the other
// has may be in use for as long as he has said.
func TestOneNamesWordsOfDifferentLength(t *testing.T) {
	w := fresh(t)
	w.mustRegister("p", "orders/1", "10.0.0.1:80")
	slow, quick := maxPoll+pollMargin, 70*time.Second+pollMargin
	w.says("till", 10*time.Second, 0)
	if got := w.says("till", time.Second, 30*time.Second); got < 31*time.Second+pollMargin {
		t.Errorf("a word that is longer in one way and shorter in another counts for %s at once", got)
	}
	for i := range 200 { // for more than half an hour
		if i%60 == 0 {
			if got := w.says("shop", maxPoll, 0); got < slow {
				t.Fatalf("after %s: the slow one has just said %s, and is waited for by %s", w.now.Sub(time.Unix(1000, 0)), maxPoll, got)
			}
		}
		if got := w.says("shop", 10*time.Second, time.Minute); got < slow {
			t.Fatalf("after %s: the quick one has made it %s, and what the slow one has may be in use for %s", w.now.Sub(time.Unix(1000, 0)), got, slow)
		}
		w.advance(10 * time.Second)
	}
	until := w.now.Add(2 * (maxPoll + quick)) // the slow one is gone
	for w.now.Before(until) {
		w.advance(10 * time.Second)
		w.says("shop", 10*time.Second, time.Minute)
	}
	if c, _ := w.tb.KeptCaller("orders", "shop"); c.Cap != quick {
		t.Errorf("long after the slow one was last seen the name is waited for by %s, want %s", c.Cap, quick)
	}
}

// TestNoWordCountsForLessThanItsTime, whatever is said under its name after it; nor for much more.
func TestNoWordCountsForLessThanItsTime(t *testing.T) {
	type word struct {
		at  time.Time
		cap time.Duration
	}
	rapid.Check(t, func(rt *rapid.T) {
		f := &following{svc: &service{}, proc: &process{}, poll: &polling{at: -maxPoll}}
		tb := New(Config{Node: "a", Fresh: true}, time.Unix(1000, 0))
		now := time.Unix(1000, 0)
		draw := rapid.IntRange(0, 20)
		var said []word
		for range rapid.IntRange(1, 60).Draw(rt, "polls") {
			now = now.Add(time.Duration(draw.Draw(rt, "later")) * time.Second / 2)
			for tb.last.Before(now) {
				tb.begin(sooner(now, tb.last.Add(time.Second)))
			}
			p := Polling{Every: time.Duration(1+draw.Draw(rt, "every")) * time.Second, Cache: time.Duration(draw.Draw(rt, "cache")) * time.Second}
			tb.heardPoll(f, &p)
			said = append(said, word{now, timers{p.Every, p.Cache}.cap()})
			for _, w := range said {
				if now.Before(w.at.Add(w.cap)) && f.poll.cap() < w.cap {
					rt.Fatalf("a word of %s said %s ago counts for %s", w.cap, now.Sub(w.at), f.poll.cap())
				}
			}
		}
		short := Polling{Every: time.Second}
		for range 200 { // longer than any two words, one after the other
			tb.begin(tb.last.Add(time.Second))
			tb.heardPoll(f, &short)
		}
		if got, want := f.poll.cap(), (timers{every: time.Second}).cap(); got != want {
			rt.Fatalf("nothing but a shorter word has come for 200s, and %s counts", got)
		}
	})
}
