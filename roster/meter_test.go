package roster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/meter"
)

// A letting go is timed from when it began, also of one that is marked from its first moment in the books: one that
// moved while it was being let go of, and one that another node lists again after its end. No mark at all would be the
// zero of the roster's clock, an hour before its start.
func TestALetGoIsTimedFromItsMark(t *testing.T) {
	for _, row := range []struct {
		name string
		then func(w *world)
		took float64 // seconds
	}{
		{"that stayed", func(w *world) {}, 5},
		{"that moved", func(w *world) {
			moved := w.view("a#1 DRAINING", "b UP")
			moved.Instances[0].Address = "elsewhere:80"
			w.pushView(moved)
		}, 5},
		{"that is listed again", func(w *world) {
			w.push("a gone LEFT", "b UP")
			w.run, w.n = 2, 0
			w.push("a#1.1 UP", "b UP")
		}, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, Config{}, "", func(t *testing.T, w *world) {
				counts := &meter.Meter{}
				w.counts = counts.Service("orders")
				w.push("a#1 UP", "b UP")
				c := w.takeOf("a")
				w.push("a#1 DRAINING", "b UP")
				w.wait(2 * time.Second)
				row.then(w)
				w.wait(3 * time.Second)
				if n, _ := letGo(counts); n != 0 {
					t.Fatalf("%v were let go of while a pick counts", n)
				}
				c.Done(Success)
				synctest.Wait()
				if n, took := letGo(counts); n != 1 || took != row.took {
					t.Errorf("%v were let go of in %v s, want 1 in %v s", n, took, row.took)
				}
			})
		})
	}
}

func letGo(of *meter.Meter) (n, seconds float64) {
	for _, s := range of.Samples() {
		switch s.Metric {
		case meter.LetGo:
			n += s.Value
		case meter.LetGoSeconds:
			seconds += s.Value
		}
	}
	return n, seconds
}
