package ledger

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

var sizes = []int{1_000, 10_000, 100_000}

// fleetRecord is one of many instances, as it comes out of a decoder: every string its own.
func fleetRecord(i int) eider.Record {
	return eider.Record{
		Key:         eider.Key{Service: fmt.Sprintf("service-%d", i/50), ID: fmt.Sprintf("10.%d.%d.%d:8080", i>>16, i>>8&255, i&255)},
		Incarnation: eider.Incarnation{Nonce: uint64(i + 1)}, Attachment: 1, Status: eider.Up,
		Address: fmt.Sprintf("10.%d.%d.%d:8080", i>>16, i>>8&255, i&255), Zone: fmt.Sprint("zone-", i%3),
		Metadata: map[string]string{"version": fmt.Sprint("v1.2.", i%7), "commit": fmt.Sprintf("%016x", i), "pod": fmt.Sprintf("orders-7d9f8-%05d", i)},
	}
}

// fleet is a table with n instances, each of a process of its own.
func fleet(tb testing.TB, n int) (*Table, time.Time) {
	now := time.Unix(0, 0)
	t := New(Config{Node: "a", Fresh: true, MaxInstances: n + 10}, now)
	for i := range n {
		s := Session(i + 1)
		t.Attach(now, s, Peer{Caller: fmt.Sprintf("service-%d@%08x", i/50, i), Addr: netip.MustParseAddr("10.0.0.1")})
		if _, _, err := t.Register(now, s, fleetRecord(i), 0, Proof{}); err != nil {
			tb.Fatal(err)
		}
	}
	return t, now
}

func BenchmarkRenew(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, now := fleet(b, n)
			step := 2 * time.Second / time.Duration(n) // each beats every two seconds
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(step)
				t.Beat(now, Session(i*7919%n+1))
				if i++; i%64 == 0 {
					t.Look(now) // its share of looking is part of the price
				}
			}
		})
	}
}

// BenchmarkBareRenew is the least that any table does which finds sessions by their number: what it costs more
// among many is the memory's price, not the table's.
func BenchmarkBareRenew(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, now := fleet(b, n) // as much else is in memory
			type session struct {
				beat   time.Duration
				silent bool
			}
			bare := map[Session]*session{}
			for id := range t.sessions {
				bare[id] = &session{}
			}
			i := 0
			for b.Loop() {
				now = now.Add(time.Millisecond)
				if s := bare[Session(i*7919%n+1)]; s != nil && !s.silent {
					s.beat = now.Sub(t.last)
				}
				i++
			}
		})
	}
}

// BenchmarkBareApply is the least that finds a record by its key, sees what is new in it, and keeps it.
func BenchmarkBareApply(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			bare := map[string]map[string]*eider.Record{}
			records := make([]eider.Record, n)
			words := words{}
			for i := range n {
				records[i] = fleetRecord(i)
				rec := words.pack(records[i], records[i].Service)
				if bare[rec.Service] == nil {
					bare[rec.Service] = map[string]*eider.Record{}
				}
				bare[rec.Service][rec.ID] = &rec
			}
			i := 0
			for b.Loop() {
				rec := &records[i*7919%n]
				rec.Version++
				was := bare[rec.Service][rec.ID]
				if rec.Address == was.Address && maps.Equal(rec.Metadata, was.Metadata) {
					was.Version, was.Status = rec.Version, rec.Status
				}
				i++
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			now := time.Unix(0, 0)
			t := New(Config{Node: "a", Fresh: true}, now)
			records := make([]eider.Record, n)
			for i := range n {
				records[i] = fleetRecord(i)
				records[i].Incarnation.Number, records[i].Version = 1, 1
				t.Apply(now, records[i], "b")
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				rec := &records[i*7919%n]
				rec.Version++
				rec.Status = eider.Up + eider.Status(rec.Version%2) // UP, DOWN and back
				t.Apply(now, *rec, "b")
				i++
			}
		})
	}
}

func BenchmarkRegister(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, now := fleet(b, n)
			s := Session(n + 1)
			t.Attach(now, s, Peer{Caller: "churn@1"})
			rec := fleetRecord(n)
			rec.Service = "service-0"
			i := uint64(0)
			b.ReportAllocs()
			for b.Loop() { // a new incarnation comes and leaves
				i++
				rec.Incarnation = eider.Incarnation{Nonce: uint64(n) + i + 1}
				if _, _, err := t.Register(now, s, rec, 0, Proof{}); err != nil {
					b.Fatal(err)
				}
				if _, err := t.Left(now, s, rec.Key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBarrier is one drain from the leave to the last of the callers' words.
func BenchmarkBarrier(b *testing.B) {
	for _, n := range sizes[:2] {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			now := time.Unix(0, 0)
			t := New(Config{Node: "a", Fresh: true}, now)
			for i := range n {
				f := Follower(i + 1)
				t.Follow(now, f, Peer{Caller: fmt.Sprintf("checkout@%08x", i)})
				t.Subscribe(now, f, "orders", nil)
			}
			t.Attach(now, 1, Peer{Caller: "orders@1"})
			rec := fleetRecord(0)
			rec.Service = "orders"
			i := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				i++
				rec.Incarnation = eider.Incarnation{Nonce: i}
				grant, _, _ := t.Register(now, 1, rec, 0, Proof{})
				t.Leave(now, 1, rec.Key, 0)
				gone := []eider.Departure{grant.Record.Departure()}
				for f := range n {
					t.Ack(now, Follower(f+1), "orders", i, gone, nil)
				}
				if d, _ := t.Drain(gone[0]); !d.Reached {
					b.Fatal("not reached")
				}
				t.Left(now, 1, rec.Key)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/caller")
		})
	}
}

func TestRenewDoesntAllocate(t *testing.T) {
	tb, now := fleet(t, 1000)
	i := 0
	if allocs := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		tb.Beat(now, Session(i%1000+1))
		i++
	}); allocs != 0 {
		t.Errorf("%v allocations a beat", allocs)
	}
}

// An instance with three pairs of metadata, at 100,000 of them, each with a process of its own.
func TestMemoryOfAnInstance(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a table with 100,000 instances")
	}
	const n, most = 100_000, 1536
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tb, _ := fleet(t, n)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes an instance", each)
	if each > most {
		t.Errorf("%d bytes an instance, at most %d", each, most)
	}
	runtime.KeepAlive(tb)
}
