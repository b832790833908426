package fleettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eiderhq/eider/breaker/fleet"
)

func telling() []check {
	return []check{
		{"Tell makes no record", func(t *testing.T, w World) {
			for _, s := range w.both() {
				wantEmpty(t, "after one count", tell(t, s, "orders", "a", "1", false))
				wantEmpty(t, "with all", tell(t, s, "orders", "b", "2", true))
			}
		}},
		{"Tell leaves the record and its version alone", func(t *testing.T, w World) {
			put := swap(t, w.Store, "orders", 0, "open")
			for _, s := range w.both() {
				if seen := tell(t, s, "orders", "a", "1", false); seen.Version != put.Version || string(seen.Record) != "open" {
					t.Errorf("after Tell: %+v, was %+v", seen, put)
				}
			}
			swap(t, w.Store, "orders", put.Version, "closed")
		}},
		{"Tell replaces what this caller told, and no other's", func(t *testing.T, w World) {
			tell(t, w.both()[0], "orders", "a", "1", false)
			tell(t, w.both()[1], "orders", "b", "2", false)
			tell(t, w.both()[1], "orders", "a", "3", false)
			wantEqual(t, "counts", counts(t, w.Store, "orders"), []string{"a=3", "b=2"})
			wantEqual(t, "counts of another key", counts(t, w.Store, "tills"), nil)
		}},
		{"Tell of an empty count takes it away", func(t *testing.T, w World) {
			tell(t, w.Store, "orders", "a", "1", false)
			tell(t, w.Store, "orders", "b", "2", false)
			tell(t, w.Store, "orders", "a", "", false)
			tell(t, w.Store, "orders", "never told", "", false)
			wantEqual(t, "counts", counts(t, w.Store, "orders"), []string{"b=2"})
			tell(t, w.Store, "orders", "a", "3", false)
			wantEqual(t, "counts, told again", counts(t, w.Store, "orders"), []string{"a=3", "b=2"})
		}},
		{"Tell returns counts only when all is set, its own among them", func(t *testing.T, w World) {
			tell(t, w.Store, "orders", "a", "1", false)
			if seen := tell(t, w.Store, "orders", "b", "2", false); len(seen.Counts) != 0 {
				t.Errorf("not asked for, and there are counts: %+v", seen.Counts)
			}
			if seen := tell(t, w.Store, "orders", "b", "2", true); len(seen.Counts) != 2 {
				t.Errorf("of two callers: %+v", seen.Counts)
			}
		}},
	}
}

func limits() []check {
	return []check{
		{"bytes come back untouched", untouched},
		{"bytes are the caller's again when the call returns", func(t *testing.T, w World) {
			count, record := []byte("1"), []byte("open")
			if _, err := w.Store.Tell(t.Context(), "orders", "a", count, false); err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.Store.Swap(t.Context(), "orders", 0, record); err != nil {
				t.Fatal(err)
			}
			clear(count)
			clear(record)
			seen := tell(t, w.Store, "orders", "b", "", true)
			if string(seen.Record) != "open" || string(seen.Counts[0].Count) != "1" {
				t.Errorf("record %q, count %q", seen.Record, seen.Counts[0].Count)
			}
		}},
		{"names don't collide", odd},
		{"counts are bounded by callers, and who is too many is no error", tooMany},
		{"what is too long is refused, and what is just short enough is kept", tooLong},
		{"a key that is empty is refused", func(t *testing.T, w World) {
			_, err := w.Store.Tell(t.Context(), "", "a", nil, false)
			wantRefused(t, "Tell", err, "key")
			_, ok, err := w.Store.Swap(t.Context(), "", 0, []byte("open"))
			wantRefused(t, "Swap", err, "key")
			if ok {
				t.Error("Swap with no key: true")
			}
			wantRefused(t, "Watch", follow(t, w.Store, "").end(t), "key")
		}},
		{"a context that has ended ends the call, and nothing is written", func(t *testing.T, w World) {
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if _, err := w.Store.Tell(ctx, "orders", "a", []byte("1"), true); !errors.Is(err, context.Canceled) {
				t.Errorf("Tell: %v", err)
			}
			if _, ok, err := w.Store.Swap(ctx, "orders", 0, []byte("open")); ok || !errors.Is(err, context.Canceled) {
				t.Errorf("Swap: %v, %v", ok, err)
			}
			if seen := tell(t, w.Store, "orders", "b", "", true); seen.Version != 0 || len(seen.Counts) != 0 {
				t.Errorf("afterwards: %+v", seen)
			}
		}},
	}
}

// binary holds every byte there is.
func binary() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}

func untouched(t *testing.T, w World) {
	for i, bytes := range []string{binary(), "\x00", "\r\n", "1", "18446744073709551615", "0x10", "nil", strings.Repeat("\xff", fleet.MostBytes)} {
		key := fmt.Sprint("key ", i)
		swap(t, w.both()[0], key, 0, bytes)
		seen := tell(t, w.both()[1], key, "a", bytes, true)
		if string(seen.Record) != bytes {
			t.Errorf("the record is %q, written as %q", seen.Record, short(bytes))
		}
		if len(seen.Counts) != 1 || string(seen.Counts[0].Count) != bytes {
			t.Errorf("the counts are %q, told was %q", seen.Counts, short(bytes))
		}
	}
	if seen := swap(t, w.Store, "nothing in it", 0, ""); seen.Version == 0 {
		t.Error("a record of no bytes has no version")
	}
}

// odd names are those that a store might take apart at the wrong place.
func odd(t *testing.T, w World) {
	names := []string{"a", "a:", "a:b", "b", "a/b", "a/", "/a", "a b", " a", "a ", "a\x00b", "a\n", "{a}", "{a}b", "}a{", "*", "a*", "[a]", "?", "ä", "A", "%61", "..", "../a", "r", "v", "c:a", "a=b", "a,b", `a\b`, `"a"`,
		strings.Repeat("x", fleet.MostBytes-1) + "1", strings.Repeat("x", fleet.MostBytes-1) + "2"}
	for i, key := range names {
		swap(t, w.Store, key, 0, fmt.Sprint("record ", i))
		for j, caller := range names {
			if i < 4 || i == j {
				tell(t, w.Store, key, caller, fmt.Sprint(i, " ", j), false)
			}
		}
	}
	for i, key := range names {
		seen := tell(t, w.both()[1], key, "looks", "", true)
		if want := fmt.Sprint("record ", i); string(seen.Record) != want {
			t.Errorf("key %q: the record is %q, want %q", short(key), seen.Record, want)
		}
		told := 0
		for j, caller := range names {
			if i < 4 || i == j {
				told++
				if !slices.ContainsFunc(seen.Counts, func(c fleet.Count) bool { return c.Caller == caller && string(c.Count) == fmt.Sprint(i, " ", j) }) {
					t.Errorf("key %q: what %q told isn't there", short(key), short(caller))
				}
			}
		}
		if len(seen.Counts) != told {
			t.Errorf("key %q: %d counts, %d callers told", short(key), len(seen.Counts), told)
		}
	}
}

func tooMany(t *testing.T, w World) {
	const callers = 2 * fleet.MostCallers
	for i := range callers {
		tell(t, w.Store, "orders", fmt.Sprintf("caller %03d", i), fmt.Sprint(i), false)
	}
	kept := counts(t, w.Store, "orders")
	if len(kept) < fleet.MostCallers || len(kept) > fleet.MostCallers*3/2 {
		t.Fatalf("of %d callers the counts of %d are kept, want %d or somewhat more", callers, len(kept), fleet.MostCallers)
	}
	first, _, _ := strings.Cut(kept[0], "=")
	tell(t, w.Store, "orders", first, "again", false)
	if !slices.Contains(counts(t, w.Store, "orders"), first+"=again") {
		t.Errorf("%s was kept, and can't tell anew", first)
	}
	for _, k := range kept {
		caller, _, _ := strings.Cut(k, "=")
		tell(t, w.Store, "orders", caller, "", false)
	}
	tell(t, w.Store, "orders", "late", "1", false)
	wantEqual(t, "once all have taken theirs away", counts(t, w.Store, "orders"), []string{"late=1"})
}

func tooLong(t *testing.T, w World) {
	full, over := strings.Repeat("x", fleet.MostBytes), strings.Repeat("x", fleet.MostBytes+1)
	ctx, bound := t.Context(), fmt.Sprint(fleet.MostBytes)
	put := swap(t, w.Store, full, 0, full)
	tell(t, w.Store, full, full, full, false)
	_, err := w.Store.Tell(ctx, over, "a", nil, false)
	wantRefused(t, "Tell with a long key", err, bound)
	_, err = w.Store.Tell(ctx, full, over, nil, false)
	wantRefused(t, "Tell with a long caller", err, bound)
	_, err = w.Store.Tell(ctx, full, "a", []byte(over), false)
	wantRefused(t, "Tell of a long count", err, bound)
	_, _, err = w.Store.Swap(ctx, over, 0, nil)
	wantRefused(t, "Swap with a long key", err, bound)
	_, _, err = w.Store.Swap(ctx, full, put.Version, []byte(over))
	wantRefused(t, "Swap of a long record", err, bound)
	wantRefused(t, "Watch of a long key", follow(t, w.Store, over).end(t), bound)
	if seen := tell(t, w.Store, full, "looks", "", true); seen.Version != put.Version || len(seen.Counts) != 1 {
		t.Errorf("what was refused has changed version %d to %d, and there are %d counts", put.Version, seen.Version, len(seen.Counts))
	}
}

func wantRefused(t *testing.T, what string, err error, says string) {
	t.Helper()
	if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want an error that names %q", what, err, says)
	}
}
