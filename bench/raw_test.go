package bench

import (
	"os"
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

func benchFan(b *testing.B, open func() (fan, error)) {
	f, err := open()
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
		if err := f.Change(); err != nil {
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
	b.Run("raw gRPC", func(b *testing.B) { benchFan(b, func() (fan, error) { return openRaw(fanned) }) })
	b.Run("eider", func(b *testing.B) { benchFan(b, func() (fan, error) { return openEider(fanned) }) })
	b.Run("etcd", func(b *testing.B) { benchFan(b, func() (fan, error) { return openEtcd(fanned) }) })
}
