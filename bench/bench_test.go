package bench

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Role()
	os.Exit(m.Run())
}

type fan interface {
	Change() error
	Close()
	cpus() (cpus, error)
}

const fanned = 1000

// benchFan times what is done to a fan, and reports the processor time of both ends for one message to one caller.
func benchFan[F fan](b *testing.B, open func(int) (F, error), do func(F) error) {
	f, err := open(fanned)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	before, err := f.cpus()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := do(f); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		<-time.After(rest) // what a change leaves behind is part of its price, and must not fall into the next
		b.StartTimer()
	}
	after, err := f.cpus()
	if err != nil {
		b.Fatal(err)
	}
	used := after.since(before)
	each := float64(b.N) * fanned * 1000
	b.ReportMetric(float64(used.client)/each, "client-cpu-µs/msg")
	b.ReportMetric(float64(used.server)/each, "server-cpu-µs/msg")
}

func BenchmarkFanOut1000(b *testing.B) {
	b.Run("raw gRPC", func(b *testing.B) { benchFan(b, openRaw, (*rawFan).Change) })
	b.Run("eider", func(b *testing.B) { benchFan(b, openEider, (*eiderFan).Change) })
	b.Run("eider acknowledged", func(b *testing.B) { benchFan(b, openEider, (*eiderFan).Acknowledged) })
	b.Run("etcd", func(b *testing.B) { benchFan(b, openEtcd, (*etcdFan).Change) })
}

// BenchmarkBarrier1000 times the leave alone: barrier-ns is what counts, ns/op has the listing before it too.
func BenchmarkBarrier1000(b *testing.B) {
	f, err := openEider(fanned)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var sum time.Duration
	for n := 0; b.Loop(); n++ {
		ctx, cancel := context.WithTimeout(b.Context(), patience)
		took, err := f.Barrier(ctx, "leaving"+strconv.Itoa(n))
		cancel()
		if err != nil {
			b.Fatal(err)
		}
		sum += took
	}
	b.ReportMetric(float64(sum.Nanoseconds())/float64(b.N), "barrier-ns")
}

// BenchmarkCrash100 is kill -9 until the last of a hundred callers no longer picks the instance.
func BenchmarkCrash100(b *testing.B) {
	f, err := openCrash()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var wholes, waits time.Duration
	for n := 0; b.Loop(); n++ {
		whole, wait, err := f.Crash("victim" + strconv.Itoa(n))
		if err != nil {
			b.Fatal(err)
		}
		wholes, waits = wholes+whole, waits+wait
	}
	b.ReportMetric(float64(wholes.Nanoseconds())/float64(b.N), "gone-ns")
	b.ReportMetric(float64(waits.Nanoseconds())/float64(b.N), "refused-ns")
}

// BenchmarkCall is one HTTP call to another process on loopback.
func BenchmarkCall(b *testing.B) {
	c, err := openCalls()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, side := range []struct {
		name string
		do   func(int) (time.Duration, error)
	}{{"plain", c.Plain}, {"eider", c.Ours}} {
		b.Run(side.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := side.do(1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
