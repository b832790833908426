//go:build linux

package faults

import (
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

// Streams are open when their instance leaves. They don't hold up the pause; the one whose handler heeds the drain
// ends by itself with its last word, the deaf one is cut after its budget, and named.
func TestD9OpenStreamsDuringADrain(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	a := startAs(t, order{GRPC: s.grpc, Service: "orders", ID: "a", Streams: time.Second})
	ld := startLoad(t, s.grpc, "orders", 2)
	type end struct {
		text string
		err  error
		at   time.Time
	}
	ends := map[string]chan end{"/events": make(chan end, 1), "/deaf": make(chan end, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for path, ended := range ends {
		resp, err := ld.loops[0].open(ctx, "GET", path) // the last instance: it's a's for certain
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		go func() {
			text, err := io.ReadAll(resp.Body)
			ended <- end{string(text), err, time.Now()}
		}()
	}
	start(t, s, "orders", "b")
	ld.each(10)
	left := a.hears(syscall.SIGTERM)
	r := a.awaitKind("report").Report
	heeding, deaf := <-ends["/events"], <-ends["/deaf"]
	if heeding.err != nil || !strings.HasSuffix(heeding.text, "data: bye\n\n") || heeding.at.Sub(left) > 900*time.Millisecond {
		t.Errorf("the heeding stream ended %v after the leave with %v and …%.40q", heeding.at.Sub(left), heeding.err, heeding.text[max(0, len(heeding.text)-40):])
	}
	if deaf.err == nil || deaf.at.Sub(left) < 900*time.Millisecond {
		t.Errorf("the deaf stream ended %v after the leave with %v", deaf.at.Sub(left), deaf.err)
	}
	if r.EndedBy != drain.ByBarrier || r.Pause > 900*time.Millisecond || r.CutCount != 1 || r.Took > 3*time.Second || r.Exit != drain.ExitLoss {
		t.Fatalf("%v", r)
	}
	if q := r.Cut[0]; q.Path != "/deaf" || !q.Stream || !q.Before || q.Caller != ld.loops[0].reg.Caller() {
		t.Errorf("it is named %v", q)
	}
	ld.each(10)
	ld.rest()
	ld.sum().flawless(t, "the others")
}

// Two services swap a port: both processes are killed, and each is started again where the other was. Callers of
// either never get an answer of the other, whatever they know by then.
func TestR16TwoServicesSwapAPortUnderLoad(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	orders, stock := start(t, s, "orders", "1"), start(t, s, "stock", "1")
	start(t, s, "orders", "2")
	start(t, s, "stock", "2")
	loads := []*load{startLoad(t, s.grpc, "orders", 4), startLoad(t, s.grpc, "stock", 4)}
	for range 3 {
		killed := time.Now()
		stock.kill()
		orders.kill()
		was := orders.addr
		orders = startAs(t, order{GRPC: s.grpc, Service: "orders", ID: "1", Listen: stock.addr})
		stock = startAs(t, order{GRPC: s.grpc, Service: "stock", ID: "1", Listen: was})
		listed := time.Now()
		for _, ld := range loads {
			from := ld.sum().By["1"]
			eventually(t, "answers of the new process", func() bool { return ld.sum().By["1"] > from+20 })
			for _, f := range ld.sum().Failures {
				if f.Began.After(listed) {
					t.Errorf("a call begun %v after the swap failed: %s", f.Began.Sub(listed), f.Text)
				}
			}
		}
		t.Logf("swapped and listed %v after the kill", listed.Sub(killed).Round(time.Millisecond))
	}
	for _, ld := range loads {
		ld.rest()
		if sum := ld.sum(); len(sum.Wrong) > 0 {
			t.Errorf("%d answers of the wrong service: %.5v", len(sum.Wrong), sum.Wrong)
		}
	}
}

// A second process with an id that is in use is refused, with a sentence that says what to do, and disturbs
// nobody; it is accepted once the holder is gone, killed or left.
func TestD17R15ALiveDuplicateIsRefusedUntilItsHolderIsGone(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := startNode(t, node.Settings{Fresh: true, Cap: time.Second})
			first := start(t, s, "orders", "a")
			was, _ := s.view("orders").Find("a")
			second := spawn(t, order{Role: "instance", GRPC: s.grpc, Service: "orders", ID: "a"})
			refusal := second.await("refusal", func(l *line) bool { return l.Kind == "unlisted" && strings.Contains(l.Text, "holds the id") })
			for _, want := range []string{first.addr, "use another id", "stop that process"} {
				if !strings.Contains(refusal.Text, want) {
					t.Errorf("the refusal doesn't say %q: %s", want, refusal.Text)
				}
			}
			ld := startLoad(t, s.grpc, "orders", 2)
			ld.each(30)
			if is, ok := s.view("orders").Find("a"); !ok || !is.Equal(was) {
				t.Errorf("the holder was %v and is %v", was, is)
			}
			if _, listed := second.said(func(l *line) bool { return l.Kind == "listed" }); listed {
				t.Error("the second is listed beside a live holder")
			}
			gone := first.hears(sig)
			listed := second.awaitKind("listed")
			if after := listed.At.Sub(gone); after > 12*time.Second {
				t.Errorf("the second was listed %v after the first had gone", after)
			}
			is, _ := s.view("orders").Find("a")
			if is == nil || is.Incarnation.Is(was.Incarnation) || is.Incarnation.Number <= was.Incarnation.Number || is.Address != listed.Addr {
				t.Errorf("listed is %v, and was %v", is, was)
			}
			from := ld.sum().Requests
			eventually(t, "answers of the second", func() bool { return ld.sum().Requests > from+50 })
			ld.rest()
			for _, f := range ld.sum().Failures {
				if f.Began.After(listed.At.Add(time.Second)) || f.Began.Before(gone) && sig == syscall.SIGTERM {
					t.Errorf("a call begun %v after the end failed: %s", f.Began.Sub(gone), f.Text)
				}
			}
			t.Logf("the second was listed %v after the first had gone", listed.At.Sub(gone).Round(time.Millisecond))
		})
	}
}
