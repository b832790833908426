package fleet

import (
	"context"
	"testing"

	"github.com/eiderhq/eider/breaker"
)

func joined(b *testing.B) (*Breaker, *breaker.Breaker, *Memory) {
	store := NewMemory(0)
	f, err := New(Config{Store: store, Key: "k"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(f.Close)
	f.start()
	for f.view.Load() == nil {
	}
	return f, breaker.New(f.c.Local), store
}

func BenchmarkClosed(b *testing.B) {
	f, own, _ := joined(b)
	ctx := context.Background()
	b.Run("fleet", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, _ := f.Allow(ctx)
			p.Settle(breaker.Success)
		}
	})
	b.Run("local", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, _ := own.Allow()
			p.Settle(breaker.Success)
		}
	})
	b.Run("within", func(b *testing.B) {
		own := f.local
		b.ReportAllocs()
		for b.Loop() {
			p, _ := own.Allow()
			p.Settle(breaker.Success)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	f, own, store := joined(b)
	ctx := context.Background()
	if _, err := Force(ctx, store, "k", breaker.ForcedOpen); err != nil {
		b.Fatal(err)
	}
	for v := f.view.Load(); v == nil || v.State != breaker.ForcedOpen; v = f.view.Load() {
	}
	v := f.viewOf(f.view.Load().link, Sight{}, Record{Epoch: 1, State: breaker.Open, For: Keep})
	f.Close()
	f.view.Store(v)
	for range 30 {
		own.Report(breaker.Failure)
	}
	b.Run("fleet", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = f.Allow(ctx)
		}
	})
	b.Run("local", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = own.Allow()
		}
	})
}
