package ledger

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
)

// writers draws what concurrent writers may have written of a few keys: two runs of a process with the
// same number on two nodes, one that moved between nodes, late and early versions of each. What a record
// says follows from (incarnation, attachment, version), since each has one writer; but for that anything
// goes, or the laws could not fail.
func writers(t *rapid.T) []eider.Record {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) eider.Record {
		rec := eider.Record{
			Key:         eider.Key{Service: "orders", ID: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "id")},
			Incarnation: eider.Incarnation{Number: rapid.Uint64Range(1, 3).Draw(t, "number"), Nonce: rapid.Uint64Range(1, 3).Draw(t, "nonce")},
			Attachment:  rapid.Uint64Range(1, 3).Draw(t, "attachment"),
			Version:     rapid.Uint64Range(1, 4).Draw(t, "version"),
		}
		seed := rec.Incarnation.Number*64 + rec.Incarnation.Nonce*16 + rec.Attachment*4 + rec.Version
		rec.Status = [...]eider.Status{eider.Up, eider.Down, eider.Draining, eider.Left, eider.Dead, eider.Lapsed, eider.Starting}[seed*2654435761%7]
		if rec.Status.Live() {
			rec.Address = fmt.Sprintf("10.0.0.%d:80", seed%5+1)
			rec.Zone = fmt.Sprint("z", seed%2)
			rec.Metadata = map[string]string{"seed": fmt.Sprint(seed % 3)}
		}
		return rec
	}), 1, 12).Draw(t, "records")
}

// merger is a way to merge records, the table's or a broken one.
type merger func(records []eider.Record) []eider.Record

func throughTable(records []eider.Record) []eider.Record {
	now := time.Unix(0, 0)
	tb := New(Config{Fresh: true}, now)
	for _, rec := range records {
		tb.Apply(now, rec, "b")
	}
	return tb.Records("orders")
}

// byRule merges by a rule of its own.
func byRule(newer func(rec, known *eider.Record) bool) merger {
	return func(records []eider.Record) []eider.Record {
		known := map[eider.Key]eider.Record{}
		for _, rec := range records {
			if was, ok := known[rec.Key]; !ok || newer(&rec, &was) {
				known[rec.Key] = rec
			}
		}
		return slices.SortedFunc(maps.Values(known), func(a, b eider.Record) int { return a.Key.Compare(b.Key) })
	}
}

// lawful tells what law a merge breaks for these records, in this order and another; "" if none.
func lawful(merge merger, records, shuffled []eider.Record) string {
	once := merge(records)
	if diff := cmp.Diff(once, merge(shuffled)); diff != "" {
		return "the order of arrival matters: " + diff
	}
	if diff := cmp.Diff(once, merge(slices.Concat(records, shuffled, records))); diff != "" {
		return "hearing it twice matters: " + diff
	}
	half := len(records) / 2 // merged elsewhere first, and passed on
	relayed := slices.Concat(merge(records[half:]), merge(records[:half]))
	if diff := cmp.Diff(once, merge(relayed)); diff != "" {
		return "the way it came matters: " + diff
	}
	return ""
}

func TestMergeIsLawful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := writers(t)
		if broken := lawful(throughTable, records, rapid.Permutation(records).Draw(t, "shuffled")); broken != "" {
			t.Fatal(broken)
		}
	})
}

// The laws can fail: each of these merges is one that somebody has shipped.
func TestBrokenMergesAreCaught(t *testing.T) {
	for name, newer := range map[string]func(rec, known *eider.Record) bool{
		"the last to arrive wins": func(_, _ *eider.Record) bool { return true },
		"the version alone":       func(rec, known *eider.Record) bool { return rec.Version > known.Version },
		"without the nonce": func(rec, known *eider.Record) bool {
			a, b := *rec, *known
			a.Incarnation.Nonce, b.Incarnation.Nonce = 1, 1
			return a.Compare(&b) > 0
		},
		"gone beats live": func(rec, known *eider.Record) bool { return rec.Status.Gone() || rec.Compare(known) > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 500 {
				caught := ""
				gen := rapid.Custom(func(t *rapid.T) string {
					records := writers(t)
					return lawful(byRule(newer), records, rapid.Permutation(records).Draw(t, "shuffled"))
				})
				if caught = gen.Example(seed); caught != "" {
					return
				}
			}
			t.Error("500 examples don't show that it is broken")
		})
	}
}

// LEFT is final for its incarnation whatever arrives, in whatever order.
func TestLeftNeverComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		tb := New(Config{Fresh: true}, now)
		left := map[eider.Departure]bool{}
		for _, rec := range writers(t) {
			tb.Apply(now, rec, "b")
			for _, known := range tb.Records("orders") {
				if known.Status == eider.Left {
					left[known.Departure()] = true
				} else if left[known.Departure()] {
					t.Fatalf("%s of incarnation %s had left and is %s", known.Key, known.Incarnation, known.Status)
				}
			}
		}
	})
}
