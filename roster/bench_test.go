package roster

import (
	"fmt"
	"sync"
	"testing"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// still returns a roster of n instances that nothing feeds.
func still(n int) *Roster {
	r := Config{}.follow("orders", "", nil)
	r.apply(registry.Update{View: viewOf(n, 1), Connected: true}, r.now())
	return r
}

func viewOf(n int, number uint64) *eider.View {
	v := &eider.View{Service: "orders", Cursor: eider.Cursor{Run: 1, Number: number}, Complete: true}
	for i := range n {
		v.Instances = append(v.Instances, eider.Instance{Record: eider.Record{
			Key:         eider.Key{Service: "orders", ID: fmt.Sprintf("i%06d", i)},
			Incarnation: eider.Incarnation{Number: 1, Nonce: uint64(i) + 1}, Attachment: 1, Version: number,
			Status: eider.Up, Address: "127.0.0.1:80"}})
	}
	return v
}

func BenchmarkTakeDone(b *testing.B) {
	r := still(10)
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c, _ := r.Take(b.Context(), nil)
			c.Done(Success)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			ctx := b.Context()
			for pb.Next() {
				c, _ := r.Take(ctx, nil)
				c.Done(Success)
			}
		})
	})
	b.Run("whole", func(b *testing.B) { // as a transport does it
		b.ReportAllocs()
		for b.Loop() {
			c, _ := r.Take(b.Context(), nil)
			c.Wrote()
			c.Answered()
			c.Done(Success)
		}
	})
	b.Run("excluding", func(b *testing.B) {
		b.ReportAllocs()
		var not Excluded
		not.Add(eider.Incarnation{Nonce: 1})
		for b.Loop() {
			c, _ := r.Take(b.Context(), &not)
			c.Done(Success)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	for _, n := range []int{3, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			r := still(n)
			views := []*eider.View{viewOf(n, 2), viewOf(n, 2)}
			for i := 0; b.Loop(); i++ {
				r.apply(registry.Update{View: views[i%2], Connected: true}, r.now())
			}
		})
	}
}

// BenchmarkThousandRosters is one view taken by a thousand rosters of one process, to the last
// acknowledgement.
func BenchmarkThousandRosters(b *testing.B) {
	const n = 1000
	var acks sync.WaitGroup
	sources := make([]*fake, n)
	for i := range sources {
		src := newFake()
		src.onAck = func(word) { acks.Done() }
		sources[i] = src
		r := Config{}.follow("orders", "", func() (source, error) { return src, nil })
		r.View()
		defer r.Close()
	}
	b.ReportAllocs()
	for number := uint64(1); b.Loop(); number++ {
		u := registry.Update{View: viewOf(3, number), Connected: true}
		acks.Add(n)
		for _, src := range sources {
			src.updates <- u
		}
		acks.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/roster")
}

func TestTakeAllocatesNothing(t *testing.T) {
	r := still(10)
	ctx := t.Context()
	var not Excluded
	for n := range uint64(8) {
		not.Add(eider.Incarnation{Nonce: n + 1})
	}
	for what, not := range map[string]*Excluded{"plain": nil, "leaving eight out": &not} {
		if n := testing.AllocsPerRun(1000, func() {
			c, _ := r.Take(ctx, not)
			c.Wrote()
			c.Answered()
			c.Done(Success)
		}); n != 0 {
			t.Errorf("%s: %v allocations a pick, want 0", what, n)
		}
	}
}
