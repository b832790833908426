// Package fleettest holds every store of fleet breakers to one contract, that of [fleet.Store]. Only tests import it.
package fleettest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
)

// World is one store, empty, as a test sees it.
type World struct {
	Store  fleet.Store
	Second fleet.Store                              // another client of the same store; nil: there is none
	Flush  func(t *testing.T)                       // the store forgets everything; nil: it can't
	Pass   func(t *testing.T, passed time.Duration) // all that is kept becomes older by this; nil: it can't be made to
	// NoClock says that ages are counted from when a client first saw a thing: what another client wrote is younger to it.
	NoClock bool
}

// Suite runs the contract, each sentence of it in a world of its own.
func Suite(t *testing.T, open func(t *testing.T) World) {
	for _, c := range contract() {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// SuiteInBubbles runs it with a clock that stands still while anybody works: for a store of this process.
func SuiteInBubbles(t *testing.T, open func(t *testing.T) World) {
	for _, c := range contract() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, open(t)) })
		})
	}
}

func contract() []check {
	return slices.Concat(telling(), limits(), swapping(), watching(), watchingMore(), keeping())
}

type check struct {
	name string
	run  func(t *testing.T, w World)
}

const (
	patience = time.Minute           // for what must come; only a broken store takes so long
	slack    = 20 * time.Millisecond // what two clocks may differ by that both run on
	pause    = 60 * time.Millisecond // long enough to be seen in an age beside slack
)

// both are the clients of the store: once as two, if there are two.
func (w World) both() []fleet.Store {
	if w.Second == nil {
		return []fleet.Store{w.Store, w.Store}
	}
	return []fleet.Store{w.Store, w.Second}
}

func tell(t *testing.T, s fleet.Store, key, caller, count string, all bool) fleet.Sight {
	t.Helper()
	seen, err := s.Tell(t.Context(), key, caller, []byte(count), all)
	if err != nil {
		t.Fatalf("Tell(%q, %q, %q): %v", short(key), short(caller), short(count), err)
	}
	return seen
}

// counts are what the store keeps of a key, as "caller=count" in order.
func counts(t *testing.T, s fleet.Store, key string) []string {
	t.Helper()
	var out []string
	for _, c := range tell(t, s, key, "looks", "", true).Counts {
		out = append(out, c.Caller+"="+string(c.Count))
	}
	slices.Sort(out)
	return out
}

func swap(t *testing.T, s fleet.Store, key string, version uint64, record string) fleet.Sight {
	t.Helper()
	seen, ok, err := s.Swap(t.Context(), key, version, []byte(record))
	if err != nil || !ok {
		t.Fatalf("Swap(%q, version %d): %v, %v; nobody else has swapped", short(key), version, ok, err)
	}
	if seen.Version == 0 || string(seen.Record) != record {
		t.Fatalf("Swap(%q, version %d) of %q: what is there afterwards is %+v", short(key), version, short(record), seen)
	}
	return seen
}

func wantEmpty(t *testing.T, what string, s fleet.Sight) {
	t.Helper()
	if s.Version != 0 || len(s.Record) != 0 || s.Age != 0 {
		t.Errorf("%s: %+v, want a zero sight", what, s)
	}
}

func wantEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func short(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%s… (%d bytes)", s[:40], len(s))
	}
	return s
}

// watch is one reader of Watch; it reads when it is asked.
type watch struct {
	sights chan fleet.Sight
	ended  chan error // the last error, and nil if there was none
	stop   context.CancelFunc
}

func follow(t *testing.T, s fleet.Store, key string) *watch {
	ctx, stop := context.WithCancel(t.Context())
	w := &watch{make(chan fleet.Sight), make(chan error, 1), stop}
	go func() {
		var last error
		defer func() { w.ended <- last; close(w.ended) }()
		for seen, err := range s.Watch(ctx, key) {
			if last != nil {
				last = fmt.Errorf("another is yielded after the error %w", last)
				return
			}
			if last = err; err != nil {
				continue
			}
			select {
			case w.sights <- seen:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(stop)
	return w
}

// until reads on until a sight is as wanted, and returns that.
func (w *watch) until(t *testing.T, what string, want func(fleet.Sight) bool) fleet.Sight {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case s := <-w.sights:
			if want(s) {
				return s
			}
		case err := <-w.ended:
			t.Fatalf("waiting for %s: the watch ended with %v", what, err)
		case <-late:
			t.Fatalf("waiting for %s: nothing in %v", what, patience)
		}
	}
}

func (w *watch) next(t *testing.T, what string) fleet.Sight {
	t.Helper()
	return w.until(t, what, func(fleet.Sight) bool { return true })
}

// end awaits how the watch ends.
func (w *watch) end(t *testing.T) error {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case err := <-w.ended:
			return err
		case <-w.sights:
		case <-late:
			t.Fatalf("the watch hasn't ended %v after its context", patience)
		}
	}
}

// wantGoroutines waits until there are no more than before.
func wantGoroutines(t *testing.T, before int) {
	t.Helper()
	for late := time.Now().Add(patience); runtime.NumGoroutine() > before; {
		if time.Now().After(late) {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, strings.TrimSpace(string(stacks)))
		}
		<-time.After(5 * time.Millisecond)
	}
}
