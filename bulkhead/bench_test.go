package bulkhead_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/eiderhq/eider/bulkhead"
)

func nothing(context.Context) error { return nil }

// What every bulkhead with times must do: read the clock twice.
func BenchmarkFloorTwoClocks(b *testing.B) {
	base := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		_ = time.Since(base)
		_ = time.Since(base)
	}
}

func BenchmarkDo(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  bulkhead.Config
	}{{"fixed", bulkhead.Config{Limit: 100}}, {"auto", bulkhead.Config{}}} {
		b.Run(c.name, func(b *testing.B) {
			h := bulkhead.New(c.cfg)
			b.ReportAllocs()
			for b.Loop() {
				if err := h.Do(ctx, nothing); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+" parallel", func(b *testing.B) {
			h := bulkhead.New(c.cfg)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					_ = h.Do(ctx, nothing)
				}
			})
		})
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	h := bulkhead.New(bulkhead.Config{Limit: 100})
	b.ReportAllocs()
	for b.Loop() {
		s, err := h.Acquire(ctx)
		if err != nil {
			b.Fatal(err)
		}
		s.Release(true)
	}
}

func BenchmarkAcquireReleaseParallel(b *testing.B) {
	h := bulkhead.New(bulkhead.Config{Limit: 100})
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if s, err := h.Acquire(ctx); err == nil {
				s.Release(true)
			}
		}
	})
}

// Many more goroutines than processors, and fewer slots than goroutines.
func BenchmarkDo64Goroutines(b *testing.B) {
	h := bulkhead.New(bulkhead.Config{Limit: 48})
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			_ = h.Do(ctx, nothing)
		}
	})
}

func BenchmarkFull(b *testing.B) {
	h := bulkhead.New(bulkhead.Config{Limit: 1})
	if _, err := h.Acquire(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Do(ctx, nothing); err == nil {
			b.Fatal("two of one")
		}
	}
}

func BenchmarkWait(b *testing.B) {
	h := bulkhead.New(bulkhead.Config{Limit: 1, Wait: time.Hour, MaxWaiting: 1000})
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := h.Do(ctx, nothing); err != nil {
				b.Error(err)
			}
		}
	})
}
