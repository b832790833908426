package bench

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Role()
	os.Exit(m.Run())
}

type fan interface {
	Change() error
	Close()
}

func benchFan(b *testing.B, open func() (fan, error)) {
	f, err := open()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Change(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFanOut1000(b *testing.B) {
	b.Run("raw gRPC", func(b *testing.B) { benchFan(b, func() (fan, error) { return openRaw(1000) }) })
	b.Run("eider", func(b *testing.B) { benchFan(b, func() (fan, error) { return openEider(1000) }) })
	b.Run("etcd", func(b *testing.B) { benchFan(b, func() (fan, error) { return openEtcd(1000) }) })
}
