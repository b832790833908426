package solo

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/replica"
)

func silent(context.Context, string) error { return context.DeadlineExceeded }

// fleet attaches n processes with an instance each.
func fleet(b *testing.B, r *Registry, n int) []replica.Attachment {
	as := make([]replica.Attachment, n)
	for i := range as {
		as[i] = attach(b, r, fmt.Sprint("p", i))
		register(b, as[i], record(fmt.Sprint("s", i%100), fmt.Sprint(i), fmt.Sprintf("127.0.0.1:%d", 1+i%65000), uint64(i)+1))
	}
	return as
}

// BenchmarkBeat is what one lock costs: alone, and wanted by all cores at once. 50,000 beats a second
// are 100,000 processes. Nobody is suspected meanwhile: a cure is a change, not a beat.
func BenchmarkBeat(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		r := run(b, Config{Dial: silent, Ledger: ledger.Config{Lease: time.Hour, SuspectAfter: time.Hour}})
		as := fleet(b, r, n)
		b.Run(fmt.Sprintf("alone/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				as[i%n].Beat()
				i++
			}
		})
		b.Run(fmt.Sprintf("parallel/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var from atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				i := int(from.Add(1)) * 7919
				for pb.Next() {
					as[i%n].Beat()
					i++
				}
			})
		})
	}
}

// BenchmarkChange is a change of status to the last of n callers, encoded once. The change waits for
// the window after the last one, as an urgent one (a leave, a death) wouldn't: so it is made urgent here.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := run(b, Config{Dial: silent})
			a := attach(b, r, "p")
			rec := record("orders", "1", "127.0.0.1:7000", 1)
			register(b, a, rec)
			for r.hub.Stats().Published == 0 {
				runtime.Gosched()
			}
			var heard, all sync.WaitGroup
			heard.Add(n)
			ws := make([]replica.Watcher, n)
			for i := range ws {
				ws[i] = follow(b, r, fmt.Sprint("c", i), "orders")
				all.Go(func() {
					for {
						frames, err := ws[i].Next(context.Background())
						if err != nil {
							return
						}
						heard.Add(-len(frames))
					}
				})
			}
			heard.Wait()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				heard.Add(n)
				r.forgetWindow("orders")
				if err := a.SetStatus(rec.Key, []eider.Status{eider.Down, eider.Up}[i%2]); err != nil {
					b.Fatal(err)
				}
				i++
				heard.Wait()
			}
			for _, w := range ws {
				w.End(replica.Bye)
			}
			all.Wait()
		})
	}
}

func (r *Registry) forgetWindow(service string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.services.known[service]; s != nil {
		s.taken = r.since
	}
}

// BenchmarkSnapshot is what the first of many subscribers pays after a change.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := run(b, Config{Dial: silent})
			for i := range n {
				register(b, attach(b, r, fmt.Sprint("p", i)),
					record("orders", fmt.Sprint(i), fmt.Sprintf("127.0.0.1:%d", 1+i), uint64(i)+1))
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.snapshot("orders"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRegister is an instance that comes, of a process that attaches for it and is up; with and without a memory on
// disk. A registration is timed until it is answered; what is written is written meanwhile, on the same processors.
func BenchmarkRegister(b *testing.B) {
	for _, kept := range []string{"forgotten", "kept"} {
		b.Run(kept, func(b *testing.B) {
			cfg := Config{Dial: silent}
			if kept == "kept" {
				cfg.Data = b.TempDir()
			}
			r := run(b, cfg)
			b.ReportAllocs()
			n := 0
			var a replica.Attachment
			for b.Loop() {
				if n%100 == 0 {
					a = attach(b, r, fmt.Sprint("p", n))
				}
				rec := record(fmt.Sprint("s", n/50%1000), fmt.Sprint(n), fmt.Sprintf("127.0.0.1:%d", 1+n%65000), uint64(n)+1)
				rec.Zone, rec.Metadata = "a", map[string]string{"version": "v1.2.3", "commit": "7d9f8a", "pod": rec.ID}
				register(b, a, rec)
				n++
			}
		})
	}
}
