package fleettest

import (
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
)

// keeping is what time does to what is kept.
func keeping() []check {
	return []check{
		{"ages grow, are never negative and never more than the truth", ages},
		{"counts are kept for KeepCounts, each by itself", func(t *testing.T, w World) {
			if w.Pass == nil {
				t.Skip("this store's time can't be made to pass")
			}
			tell(t, w.Store, "orders", "a", "1", false)
			tell(t, w.Store, "orders", "b", "2", false)
			w.Pass(t, fleet.KeepCounts-5*time.Second)
			wantEqual(t, "before it", counts(t, w.Store, "orders"), []string{"a=1", "b=2"})
			tell(t, w.Store, "orders", "b", "3", false)
			w.Pass(t, 10*time.Second)
			wantEqual(t, "after it, and one has told anew", counts(t, w.Store, "orders"), []string{"b=3"})
		}},
		{"a record is kept for Keep after it was last swapped or told of", func(t *testing.T, w World) {
			if w.Pass == nil {
				t.Skip("this store's time can't be made to pass")
			}
			put := swap(t, w.Store, "orders", 0, "open")
			for range 3 {
				w.Pass(t, fleet.Keep-time.Minute)
				if seen := tell(t, w.Store, "orders", "a", "", false); seen.Version != put.Version {
					t.Fatalf("a minute before the end of Keep: %+v", seen)
				}
			}
			put = swap(t, w.Store, "orders", put.Version, "half-open")
			w.Pass(t, fleet.Keep-time.Minute)
			swap(t, w.Store, "orders", put.Version, "closed")
			w.Pass(t, fleet.Keep-time.Minute)
			if seen := tell(t, w.Store, "orders", "a", "", false); string(seen.Record) != "closed" {
				t.Fatalf("a minute before the end of Keep, once swapped: %+v", seen)
			}
		}},
		{"a flush leaves nothing, and what was seen before it fits nothing after it", flushed},
	}
}

func ages(t *testing.T, w World) {
	begun := time.Now()
	put := swap(t, w.Store, "orders", 0, "open")
	tell(t, w.Store, "orders", "a", "1", false)
	young := func(what string, age, least time.Duration) {
		t.Helper()
		if age < 0 || age < least-slack || age > time.Since(begun)+slack {
			t.Errorf("%s: %v old, want at least %v and at most %v", what, age, least, time.Since(begun))
		}
	}
	young("the record as it is written", put.Age, 0)
	done := time.Now()
	tell(t, w.both()[1], "orders", "looks", "", true) // a store without a clock counts from here
	for range 3 {
		<-time.After(pause)
		passed := time.Since(done)
		for i, s := range w.both() {
			least := passed
			if i == 1 && w.NoClock {
				least = 0
			}
			seen := tell(t, s, "orders", "looks", "", true)
			if len(seen.Counts) != 1 {
				t.Fatalf("the counts are %+v", seen.Counts)
			}
			young("the record", seen.Age, least)
			young("the count", seen.Counts[0].Age, least)
		}
	}
	if failed, _, _ := w.Store.Swap(t.Context(), "orders", 0, nil); failed.Age < pause {
		t.Errorf("a swap that failed shows a record %v old", failed.Age)
	}
	begun = time.Now()
	again := tell(t, w.Store, "orders", "a", "2", true)
	young("a count told anew", again.Counts[0].Age, 0)
	young("a record swapped anew", swap(t, w.Store, "orders", put.Version, "closed").Age, 0)
}

func flushed(t *testing.T, w World) {
	if w.Flush == nil {
		t.Skip("this store can't be flushed")
	}
	before := swap(t, w.Store, "orders", 0, "open")
	tell(t, w.Store, "orders", "a", "1", false)
	w.Flush(t)
	for _, s := range w.both() {
		if seen := tell(t, s, "orders", "looks", "", true); seen.Version != 0 || len(seen.Counts) != 0 {
			t.Errorf("after a flush: %+v", seen)
		}
		if seen, ok, err := s.Swap(t.Context(), "orders", before.Version, []byte("closed")); ok || err != nil || seen.Version != 0 {
			t.Errorf("a swap of what was there before the flush: %v, %v, %+v", ok, err, seen)
		}
	}
	for range 20 {
		after := swap(t, w.Store, "orders", 0, "open")
		if after.Version == before.Version {
			t.Errorf("version %d has come back", after.Version)
		}
		if _, ok, _ := w.Store.Swap(t.Context(), "orders", before.Version, []byte("closed")); ok {
			t.Error("what was seen before the flush fits what was written after it")
		}
		w.Flush(t)
	}
}
