package hub

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkPublish is one change to the last of n watchers. BenchmarkChannels beside it is the least
// that any fan-out to n goroutines costs: the same bytes by a channel to each.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var heard, all sync.WaitGroup
			w := open(Config{})
			w.change("a")
			for range n {
				r := w.watch(b)
				subscribe(b, r, "a", 1)
				heard.Add(1)
				all.Go(func() {
					for {
						if _, err := r.Next(context.Background()); err != nil {
							return
						}
						heard.Done()
					}
				})
			}
			heard.Wait()
			b.ReportAllocs()
			for b.Loop() {
				heard.Add(n)
				w.change("a")
				heard.Wait()
			}
			w.Close()
			all.Wait()
		})
	}
}

func BenchmarkChannels(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var heard, all sync.WaitGroup
			ctx, cancel := context.WithCancel(context.Background())
			news := make([]chan []byte, n)
			for i := range news {
				news[i] = make(chan []byte, 1)
				all.Go(func() {
					for {
						select {
						case <-news[i]:
							heard.Done()
						case <-ctx.Done():
							return
						}
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				heard.Add(n)
				f := frame(step, 1)
				for _, c := range news {
					c <- f
				}
				heard.Wait()
			}
			cancel()
			all.Wait()
		})
	}
}

// BenchmarkPublishOnly is what the publisher itself spends while n watchers are away.
func BenchmarkPublishOnly(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := open(Config{})
			for range n {
				subscribe(b, w.watch(b), "a", 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				w.change("a")
			}
			w.Close()
		})
	}
}
