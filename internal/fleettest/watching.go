package fleettest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/eiderhq/eider/breaker/fleet"
)

func watching() []check {
	return []check{
		{"Watch yields first what is there", func(t *testing.T, w World) {
			wantEmpty(t, "of nothing", follow(t, w.both()[1], "orders").next(t, "the first of a key without a record"))
			put := swap(t, w.Store, "orders", 0, "open")
			tell(t, w.Store, "orders", "a", "1", false)
			for _, s := range w.both() {
				if seen := follow(t, s, "orders").next(t, "the first of a record"); seen.Version != put.Version || string(seen.Record) != "open" || len(seen.Counts) != 0 {
					t.Errorf("%+v, want %+v without counts", seen, put)
				}
			}
		}},
		{"Watch yields each new version, whoever swapped it", func(t *testing.T, w World) {
			own, other := follow(t, w.both()[0], "orders"), follow(t, w.both()[1], "orders")
			own.next(t, "the first")
			other.next(t, "the first")
			var last fleet.Sight
			for i := range 20 {
				last = swap(t, w.both()[i%2], "orders", last.Version, fmt.Sprint(i))
				for _, reader := range []*watch{own, other} {
					seen := reader.until(t, "a swap", func(s fleet.Sight) bool { return s.Version == last.Version })
					if string(seen.Record) != fmt.Sprint(i) || seen.Age < 0 {
						t.Fatalf("%+v, swapped was %+v", seen, last)
					}
				}
			}
		}},
		{"Watch: newest wins, and a slow reader holds nobody up", func(t *testing.T, w World) {
			slow, quick := follow(t, w.both()[1], "orders"), follow(t, w.both()[1], "orders")
			slow.next(t, "the first")
			quick.next(t, "the first")
			var last fleet.Sight
			for i := range 100 {
				last = swap(t, w.Store, "orders", last.Version, strconv.Itoa(i))
			}
			newest := func(s fleet.Sight) bool { return s.Version == last.Version }
			quick.until(t, "the newest", newest)
			before := -1
			slow.until(t, "the newest", func(s fleet.Sight) bool {
				i, err := strconv.Atoi(string(s.Record))
				if err != nil || i <= before {
					t.Errorf("after %d comes %q", before, s.Record)
				}
				before = i
				return newest(s)
			})
		}},
	}
}

func watchingMore() []check {
	return []check{
		{"Watch of several keys by several readers: each has its own", severalKeys},
		{"Watch yields a record that was lost as a zero sight, and the next that is put there", func(t *testing.T, w World) {
			if w.Flush == nil {
				t.Skip("this store can't be flushed")
			}
			put := swap(t, w.Store, "orders", 0, "open")
			readers := []*watch{follow(t, w.both()[0], "orders"), follow(t, w.both()[1], "orders")}
			for _, r := range readers {
				r.until(t, "the record", func(s fleet.Sight) bool { return s.Version == put.Version })
			}
			w.Flush(t)
			for _, r := range readers {
				wantEmpty(t, "after a flush", r.next(t, "a zero sight"))
			}
			put = swap(t, w.Store, "orders", 0, "open again")
			for _, r := range readers {
				r.until(t, "the next record", func(s fleet.Sight) bool { return s.Version == put.Version })
			}
		}},
		{"Watch ends with its context's error, and with that alone", func(t *testing.T, w World) {
			idle, busy := follow(t, w.Store, "orders"), follow(t, w.Store, "orders")
			idle.next(t, "the first")
			idle.stop()
			busy.stop()
			for _, r := range []*watch{idle, busy} {
				if err := r.end(t); !errors.Is(err, context.Canceled) {
					t.Errorf("ended with %v", err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			stop()
			last := errors.New("nothing was yielded")
			for _, last = range w.Store.Watch(ctx, "orders") {
			}
			if !errors.Is(last, context.Canceled) {
				t.Errorf("begun too late: %v", last)
			}
		}},
		{"Watch leaves no goroutine, however it ends", leaves},
	}
}

func severalKeys(t *testing.T, w World) {
	const keys, each = 4, 3
	var readers [keys][each]*watch
	var last [keys]fleet.Sight
	for k := range readers {
		for r := range readers[k] {
			readers[k][r] = follow(t, w.both()[r%2], fmt.Sprint("key ", k))
			readers[k][r].next(t, "the first")
		}
	}
	for round := range 3 {
		for k := range readers {
			last[k] = swap(t, w.both()[k%2], fmt.Sprint("key ", k), last[k].Version, fmt.Sprint(k, " in ", round))
		}
		readers[round][0].stop()
		for k := range readers {
			for r, reader := range readers[k] {
				if r == 0 && k <= round {
					continue // has left
				}
				seen := reader.until(t, "a swap", func(s fleet.Sight) bool { return s.Version == last[k].Version })
				if string(seen.Record) != fmt.Sprint(k, " in ", round) {
					t.Errorf("a reader of key %d sees %q", k, seen.Record)
				}
			}
		}
	}
}

func leaves(t *testing.T, w World) {
	some := func() {
		for i := range 10 {
			key := fmt.Sprint("key ", i%3)
			for _, s := range w.both() {
				for _, err := range s.Watch(t.Context(), key) { // left at once
					if err != nil {
						t.Error(err)
					}
					break
				}
				r := follow(t, s, key)
				r.next(t, "the first")
				r.stop()
				r.end(t)
			}
		}
	}
	some() // what a client starts once it may keep
	before := runtime.NumGoroutine()
	some()
	wantGoroutines(t, before)
}
