package access

import (
	"fmt"
	"testing"
	"time"
)

// A handshake in full, and one that is resumed.
func BenchmarkHandshake(b *testing.B) {
	m, err := Mint(b.TempDir()+"/certs", []string{"localhost", "127.0.0.1"}, "orders", time.Now())
	if err != nil {
		b.Fatal(err)
	}
	c := NewCerts(m.Server, m.ServerKey, m.CA)
	if _, err := c.Reload(); err != nil {
		b.Fatal(err)
	}
	for _, resumed := range []bool{false, true} {
		b.Run(fmt.Sprintf("resumed=%v", resumed), func(b *testing.B) {
			at, config := listen(b, c), trust(b, m.CA)
			if !resumed {
				config.ClientSessionCache = nil
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := visit(at, config); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a stream pays for being asked who it is, among ten thousand tokens.
func BenchmarkIdentify(b *testing.B) {
	var data []byte
	var token string
	for i := range 10_000 {
		token = NewToken()
		data = AppendLine(data, Identity{Name: fmt.Sprint("t", i), Kind: Token, Roles: Roles{Read: true}}, token, noon)
	}
	book, err := Parse("f", data)
	if err != nil {
		b.Fatal(err)
	}
	k := NewKeeper("f")
	k.book.Store(book)
	g := &Guard{Keeper: k}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Identify(token, nil); err != nil {
			b.Fatal(err)
		}
	}
}
