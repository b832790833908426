package fleettest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/eiderhq/eider/breaker/fleet"
)

func swapping() []check {
	return []check{
		{"Swap at version 0 puts a record where there is none", func(t *testing.T, w World) {
			put := swap(t, w.both()[0], "orders", 0, "open")
			if seen := tell(t, w.both()[1], "orders", "a", "", false); seen.Version != put.Version || string(seen.Record) != "open" {
				t.Errorf("the other sees %+v, was swapped to %+v", seen, put)
			}
			wantOvertaken(t, w.both()[1], "orders", 0, put)
		}},
		{"Swap at a wrong version does nothing, and says what is there", func(t *testing.T, w World) {
			first := swap(t, w.Store, "orders", 0, "open")
			second := swap(t, w.Store, "orders", first.Version, "half-open")
			for _, s := range w.both() {
				for _, wrong := range []uint64{0, first.Version, second.Version + 1, second.Version - 1, 1 << 63, ^uint64(0)} {
					wantOvertaken(t, s, "orders", wrong, second)
				}
			}
			swap(t, w.Store, "orders", second.Version, "closed")
		}},
		{"Swap at a version where there is none does nothing", func(t *testing.T, w World) {
			tell(t, w.Store, "orders", "a", "1", false)
			for _, version := range []uint64{1, 2, 1 << 63, ^uint64(0)} {
				wantOvertaken(t, w.Store, "orders", version, fleet.Sight{})
				wantOvertaken(t, w.Store, "tills", version, fleet.Sight{})
			}
		}},
		{"Swap leaves the counts alone and returns none", func(t *testing.T, w World) {
			tell(t, w.Store, "orders", "a", "1", false)
			put := swap(t, w.Store, "orders", 0, "open")
			again := swap(t, w.Store, "orders", put.Version, "closed")
			if len(put.Counts)+len(again.Counts) != 0 {
				t.Errorf("counts: %+v, %+v", put.Counts, again.Counts)
			}
			wantEqual(t, "counts", counts(t, w.Store, "orders"), []string{"a=1"})
		}},
		{"Swap of one key is none of another", func(t *testing.T, w World) {
			put := swap(t, w.Store, "orders", 0, "open")
			wantEmpty(t, "another key", tell(t, w.Store, "tills", "a", "", false))
			wantOvertaken(t, w.Store, "tills", put.Version, fleet.Sight{})
		}},
		{"of many that swap at once, one wins", race},
		{"a version never comes back", func(t *testing.T, w World) {
			seen := map[uint64]bool{}
			var last fleet.Sight
			for i := range 200 {
				last = swap(t, w.both()[i%2], "orders", last.Version, "the same record")
				if seen[last.Version] {
					t.Fatalf("version %d, again", last.Version)
				}
				seen[last.Version] = true
			}
		}},
	}
}

func wantOvertaken(t *testing.T, s fleet.Store, key string, version uint64, there fleet.Sight) {
	t.Helper()
	seen, ok, err := s.Swap(t.Context(), key, version, []byte("of one who was overtaken"))
	if ok || err != nil {
		t.Errorf("Swap at version %d where %d is: %v, %v", version, there.Version, ok, err)
	}
	if seen.Version != there.Version || string(seen.Record) != string(there.Record) {
		t.Errorf("Swap at version %d says that %+v is there, it is %+v", version, seen, there)
	}
}

func race(t *testing.T, w World) {
	const swappers = 64
	var version uint64
	for round := range 3 {
		type tried struct {
			seen fleet.Sight
			ok   bool
			err  error
		}
		all := make([]tried, swappers)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				<-start
				a := &all[i]
				a.seen, a.ok, a.err = w.both()[i%2].Swap(t.Context(), "orders", version, fmt.Append(nil, round, " by ", i))
			})
		}
		close(start)
		wg.Wait()
		won := -1
		for i, a := range all {
			if a.err != nil {
				t.Fatal(a.err)
			}
			if a.ok && won >= 0 {
				t.Errorf("both %d and %d have won", won, i)
			}
			if a.ok {
				won = i
			}
		}
		if won < 0 {
			t.Fatal("nobody has won")
		}
		for i, a := range all {
			if a.seen.Version != all[won].seen.Version || string(a.seen.Record) != fmt.Sprint(round, " by ", won) {
				t.Errorf("%d has won, %d sees %+v", won, i, a.seen)
			}
		}
		version = all[won].seen.Version
	}
}
