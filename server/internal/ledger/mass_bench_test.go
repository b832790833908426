package ledger

import (
	"fmt"
	"testing"

	"github.com/eiderhq/eider"
)

// BenchmarkAckOfManyDrains is one word of a caller of a service that leaves as a whole: two thousand instances,
// of which it names as many as a message holds.
func BenchmarkAckOfManyDrains(b *testing.B) {
	w := fresh(b)
	w.follow("c1", "orders")
	var names []eider.Departure
	for i := range 2000 {
		k := fmt.Sprintf("orders/host-%04d:8080", i)
		w.mustRegister("p", k, fmt.Sprintf("10.0.0.1:%d", 1000+i))
		w.leave("p", k)
		if names = append(names, w.departure(k)); i%2 == 0 {
			names = names[:len(names)-1]
		}
	}
	for what, say := range map[string][2][]eider.Departure{"no alternative": {nil, names}, "let go": {names[:maxNamed], nil}} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				w.tb.Ack(w.now, w.actor("c1").follower, "orders", 1, say[0], say[1])
			}
		})
	}
	b.Run("subscribe", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.tb.Subscribe(w.now, w.actor("c1").follower, "orders", names[:maxNamed]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
