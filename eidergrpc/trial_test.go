package eidergrpc

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/meter"
)

// ask has the node ask for a trial of the last of all, and waits until the roster has heard: what comes after it on the same
// stream has been applied.
func (w *world) ask(all ...eider.Instance) {
	w.t.Helper()
	in := all[len(all)-1]
	w.Ask(in)
	w.Apply(in.Service, all...)
}

// The registry asks, and one unary call of a method that was declared goes there; elsewhere at once if there is no answer.
func TestU3ATrialGoesToWhoMayHang(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	stuck := &parrot{name: "b", do: hang}
	well, _ := serve(t, &parrot{name: "a"})
	there, _ := serve(t, stuck)
	w := newWorld(t)
	a, b := fake.Up("orders", "a", well), fake.Hanging(fake.Up("orders", "b", there))
	w.Set("orders", a, b)
	set := Config{Slow: 50 * time.Millisecond, RetryRatio: -1, Tries: 2, Idempotent: []string{sayMethod}}
	cc := w.client(set, "orders")
	wantSay(t, cc, "a")
	w.ask(a, b)
	s := open(t, cc)
	if got, err := s.say("x"); err != nil || got != "a x" {
		t.Fatalf("a stream: %q, %v", got, err)
	}
	w.ask(a, b) // again: one that waits too long is forgotten
	begun := time.Now()
	wantSay(t, cc, "a")
	if took := time.Since(begun); took < 3*set.Slow {
		t.Errorf("the trial took %s, want three times Slow", took)
	}
	wantSay(t, cc, "a")
	if n := stuck.times(); n != 1 {
		t.Errorf("%d calls went there, want the trial", n)
	}
	if again := told(&w.counts, meter.Retries, "timed out"); again != 1 {
		t.Errorf("%s", &w.counts)
	}
}

// A call that can be sent again is given up while it hangs only if that was planned as it began. One that began a moment
// before the registry asked is no trial, however many have passed; the next one is.
func TestU3ACallThatBeganBeforeItsTrialIsSpared(t *testing.T) {
	stuck := &parrot{name: "b", do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	well, _ := serve(t, &parrot{name: "a"})
	there, _ := serve(t, stuck)
	w := newWorld(t)
	a, b := fake.Up("orders", "a", well), fake.Hanging(fake.Up("orders", "b", there))
	w.Set("orders", a, b)
	tag := &tagger{}
	cc := w.client(Config{Slow: 50 * time.Millisecond, RetryRatio: -1, Idempotent: []string{sayMethod}}, "orders", grpc.WithStatsHandler(tag))
	wantSay(t, cc, "a")
	tag.next = func() {
		for range 7 { // after five in vain any call may be risked
			w.ask(a, b)
		}
	}
	wantSay(t, cc, "a")
	if n := stuck.times(); n != 0 {
		t.Fatalf("a call without a bound went to who hangs, %d times", n)
	}
	wantSay(t, cc, "a")
	if n := stuck.times(); n != 1 {
		t.Errorf("%d calls went there, want the trial", n)
	}
}

// tagger does something once a call has begun, and before it picks.
type tagger struct{ next func() }

func (g *tagger) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	if do := g.next; do != nil {
		g.next = nil
		do()
	}
	return ctx
}
func (*tagger) HandleRPC(context.Context, stats.RPCStats)                         {}
func (*tagger) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*tagger) HandleConn(context.Context, stats.ConnStats)                       {}

// One that doesn't hang any more answers its trial.
func TestU3ATrialIsAnsweredByWhoHangsNoMore(t *testing.T) {
	well, _ := serve(t, &parrot{name: "a"})
	there, _ := serve(t, &parrot{name: "b"})
	w := newWorld(t)
	a, b := fake.Up("orders", "a", well), fake.Hanging(fake.Up("orders", "b", there))
	w.Set("orders", a, b)
	cc := w.client(Config{Slow: patience, Idempotent: []string{sayMethod}}, "orders")
	wantSay(t, cc, "a")
	w.ask(a, b)
	wantSay(t, cc, "b")
	wantSay(t, cc, "a")
}

// Nobody else is there: the call ends as one whose instance didn't answer, not as one that its caller gave up.
func TestU3ATrialOfTheOnlyOneIsUnavailable(t *testing.T) {
	there, _ := serve(t, &parrot{name: "b", do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
	w := newWorld(t)
	b := fake.Up("orders", "b", there)
	w.Set("orders", fake.Hanging(b))
	cc := w.client(Config{Slow: 20 * time.Millisecond, Idempotent: []string{sayMethod}}, "orders")
	cc.Connect()
	w.Await("a view", func(h *fake.Heard) bool { return len(h.Acks) > 0 })
	w.ask(fake.Hanging(b))
	if _, err := say(t, cc); status.Code(err) != codes.Unavailable || !contains(err.Error(), "no answer to a trial") {
		t.Errorf("%v", err)
	}
}

// Who can't send a call again has none for a trial.
func TestU3ATrialNeedsACallThatCanBeSentAgain(t *testing.T) {
	stuck := &parrot{name: "b"}
	well, _ := serve(t, &parrot{name: "a"})
	there, _ := serve(t, stuck)
	for name, set := range map[string]Config{"not declared": {}, "one try": {Tries: 1, Idempotent: []string{sayMethod}}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := fake.Up("orders", "a", well), fake.Hanging(fake.Up("orders", "b", there))
			w.Set("orders", a, b)
			var cc grpc.ClientConnInterface = w.client(set, "orders")
			wantSay(t, cc, "a")
			w.ask(a, b)
			for range 5 {
				wantSay(t, cc, "a")
			}
		})
	}
}
