package bench

import (
	"strings"
	"testing"
)

// What every image and every host bears for each program. Times are `go run ./gates`'s alone.
func TestEiderRunIsSmall(t *testing.T) {
	for _, g := range Gates() {
		if !strings.HasPrefix(g.Name, "run: bytes") && !strings.HasPrefix(g.Name, "run: resident") {
			continue
		}
		r, err := g.Measure(Size{})
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		if r.Ratio() > g.Most {
			t.Errorf("%s: %s, ratio %.2f, at most %.2f", g.Name, r.Eider, r.Ratio(), g.Most)
		}
		t.Logf("%s: %s", g.Name, r.Eider)
	}
}
