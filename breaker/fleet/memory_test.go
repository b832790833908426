package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fleettest"
)

func inMemory(*testing.T) fleettest.World {
	m := fleet.NewMemory(0)
	return fleettest.World{Store: m, Second: m, Flush: func(*testing.T) { m.Flush() }}
}

func TestMemory(t *testing.T) { fleettest.Suite(t, inMemory) }

func TestMemoryAsTimePasses(t *testing.T) {
	fleettest.SuiteInBubbles(t, func(t *testing.T) fleettest.World {
		w := inMemory(t)
		w.Pass = func(_ *testing.T, passed time.Duration) { <-time.After(passed) }
		return w
	})
}

// Full, a store takes one more key only in the place of one that has been quiet for Keep: whoever asks for keys without
// end takes nobody's open breaker away.
func TestMemoryIsBoundedAndForgetsNothingBeforeKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		m := fleet.NewMemory(most)
		for i := range most {
			if _, ok, err := m.Swap(t.Context(), fmt.Sprint("key ", i), 0, []byte("open")); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		refused := func(key string) {
			t.Helper()
			if _, err := m.Tell(t.Context(), key, "a", []byte("1"), false); err == nil || !strings.Contains(err.Error(), fmt.Sprint(most)) {
				t.Errorf("one key more is told of: %v", err)
			}
			if _, ok, err := m.Swap(t.Context(), key, 0, []byte("open")); ok || err == nil {
				t.Errorf("one key more is swapped: %v, %v", ok, err)
			}
			for _, err := range m.Watch(t.Context(), key) {
				if err == nil {
					t.Error("one key more is watched")
				}
				break
			}
		}
		refused("one more")
		time.Sleep(fleet.Keep - time.Second)
		if _, err := m.Tell(t.Context(), "key 0", "a", nil, false); err != nil { // the oldest is touched, key 1 is now the quietest
			t.Fatal(err)
		}
		refused("one more")
		for i := range most {
			if seen, _, _ := m.Swap(t.Context(), fmt.Sprint("key ", i), 0, nil); string(seen.Record) != "open" {
				t.Errorf("key %d is lost before Keep", i)
			}
		}
		time.Sleep(2 * time.Second)
		for i := range most - 1 {
			if _, ok, err := m.Swap(t.Context(), fmt.Sprint("new ", i), 0, []byte("open")); !ok || err != nil {
				t.Errorf("Keep has passed for seven keys, and new key %d is refused: %v, %v", i, ok, err)
			}
		}
		refused("one more")
		if seen, _ := m.Tell(t.Context(), "key 0", "a", nil, false); string(seen.Record) != "open" {
			t.Error("the key that was told of is lost")
		}
	})
}

// A watched key that had to make room says so to its watcher.
func TestMemoryTellsAWatcherWhoseKeyMadeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(1)
		if _, ok, err := m.Swap(t.Context(), "orders", 0, []byte("open")); !ok || err != nil {
			t.Fatal(ok, err)
		}
		last := make(chan error)
		go func() {
			var err error
			for _, err = range m.Watch(t.Context(), "orders") {
			}
			last <- err
		}()
		synctest.Wait()
		time.Sleep(fleet.Keep)
		if _, ok, err := m.Swap(t.Context(), "tills", 0, []byte("open")); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := <-last; err == nil || !strings.Contains(err.Error(), "1 keys") {
			t.Errorf("the watch of the key without room has ended with %v", err)
		}
	})
}

// A full store refuses at once, however many keys it keeps: a thousand callers too many don't stop it.
func TestMemoryRefusesWithoutLookingAtEveryKey(t *testing.T) {
	cost := func(most int) float64 {
		m := fleet.NewMemory(most)
		for i := range most {
			if _, _, err := m.Swap(t.Context(), fmt.Sprint("key ", i), 0, []byte("open")); err != nil {
				t.Fatal(err)
			}
		}
		best := time.Hour
		for range 20 {
			begun := time.Now()
			for range 20 {
				if _, err := m.Tell(t.Context(), "one more", "a", []byte("1"), false); err == nil {
					t.Fatal("taken")
				}
			}
			best = min(best, time.Since(begun))
		}
		return best.Seconds()
	}
	if few, many := cost(10), cost(50_000); many > 50*few {
		t.Errorf("to refuse costs %.0f times as much with 50,000 keys as with 10", many/few)
	}
}
