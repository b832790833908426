package fleet

import (
	"fmt"
	"strings"
	"testing"
)

// Callers of any number of keys can't have a Memory take more than mostKept: what they tell isn't kept then, and everybody else goes
// on with what is there.
func TestMemoryIsBoundedInBytes(t *testing.T) {
	m := NewMemory(0)
	tell := func(key, caller, count string) int {
		t.Helper()
		s, err := m.Tell(t.Context(), key, caller, []byte(count), true)
		if err != nil {
			t.Fatal(err)
		}
		return len(s.Counts)
	}
	tell("orders", "a", "12")
	m.bytes = mostKept // as if ten thousand others had told all they could
	if n := tell("orders", "b", "1"); n != 1 {
		t.Errorf("full, it keeps %d counts", n)
	}
	tell("orders", "a", "345")
	if s, _ := m.Tell(t.Context(), "orders", "c", nil, true); string(s.Counts[0].Count) != "12" {
		t.Errorf("full, it keeps a longer count: %s", s.Counts[0].Count)
	}
	tell("orders", "a", "67")
	if s, _ := m.Tell(t.Context(), "orders", "c", nil, true); string(s.Counts[0].Count) != "67" {
		t.Errorf("full, it keeps an old count: %s", s.Counts[0].Count)
	}
	if _, ok, err := m.Swap(t.Context(), "orders", 0, Record{Epoch: 1}.Bytes()); !ok || err != nil {
		t.Errorf("full, nothing can be opened or closed: %v, %v", ok, err)
	}
	if n := tell("orders", "a", ""); n != 0 {
		t.Errorf("full, nothing can be taken back: %d", n)
	}
	m.bytes -= mostKept
	if n := tell("orders", "b", "1"); n != 1 {
		t.Errorf("with room again, it keeps %d counts", n)
	}
}

// What a Memory reckons to take is what it has, whatever came before.
func TestMemoryKnowsItsBytes(t *testing.T) {
	m := NewMemory(3)
	for i := range 200 {
		key, caller := fmt.Sprint("key", i%3), fmt.Sprint("caller", i%7)
		if _, err := m.TellFrom(t.Context(), key, caller, "here", []byte(strings.Repeat("x", i%50)), false); err != nil {
			t.Fatal(err)
		}
		if s, _ := m.Tell(t.Context(), key, "", nil, false); i%5 == 0 {
			_, _, _ = m.Swap(t.Context(), key, s.Version, []byte(strings.Repeat("r", i)))
		}
		if i == 150 {
			m.Flush()
		}
		sum := 0
		for _, k := range m.keys {
			sum += 128 + len(k.key) + len(k.record)
			for _, t := range k.counts {
				sum += 128 + len(t.Caller) + len(t.From) + len(t.Count.Count)
			}
		}
		if m.bytes != sum {
			t.Fatalf("step %d: it reckons %d bytes and has %d", i, m.bytes, sum)
		}
	}
	for range 3 { // as if all had been quiet
		k := m.quiet.Front().Value.(*kept)
		k.touched = k.touched.Add(-Keep)
		m.makeRoom(k.touched.Add(Keep))
	}
	if m.bytes != 0 || len(m.keys) != 0 {
		t.Errorf("of nothing it reckons %d bytes, %d keys", m.bytes, len(m.keys))
	}
}

// Who only asks takes none of the keys.
func TestMemoryKeepsNothingOfWhoAsks(t *testing.T) {
	m := NewMemory(2)
	for i := range 10 {
		if s, err := m.Tell(t.Context(), fmt.Sprint("nothing ", i), "a", nil, true); err != nil || s.Version != 0 {
			t.Errorf("of a key that has nothing: %+v, %v", s, err)
		}
	}
	if len(m.keys) != 0 {
		t.Errorf("%d keys are kept", len(m.keys))
	}
}
