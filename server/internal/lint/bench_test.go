package lint

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// BenchmarkLint lints 1,000 manifests, each a document of a file of its own, in one world: those of testdata over and
// over, most of them under names of their own.
func BenchmarkLint(b *testing.B) {
	files := manifests(b)
	var sources []Source
	bytes := 0
	for i := range 1000 {
		text, err := os.ReadFile(files[i%len(files)])
		if err != nil {
			b.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "orders", fmt.Sprintf("orders-%d", i)))
		bytes += len(text)
		sources = append(sources, Source{fmt.Sprintf("%d.yaml", i), text})
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		if r := Check(sources, Options{}); r.Objects < 1000 {
			b.Fatalf("%d objects", r.Objects)
		}
	}
}
