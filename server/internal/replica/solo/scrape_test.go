package solo

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/eiderhq/eider/server/internal/ledger"
)

// A scrape keeps nothing of a service: what it allocates is the list of names, and room for those of one look.
func TestGlancesAllocateNothingForEach(t *testing.T) {
	r := run(t, Config{Dial: silent, Ledger: ledger.Config{Lease: time.Hour, SuspectAfter: time.Hour}})
	for i := range 1000 {
		register(t, attach(t, r, fmt.Sprint("p", i)), record(fmt.Sprint("s", i), "1", fmt.Sprintf("127.0.0.1:%d", 1+i), uint64(i)+1))
	}
	for r.hub.Stats().Published < 1000 { // what the node itself allocates isn't the walk's
		runtime.Gosched()
	}
	allocated := testing.AllocsPerRun(10, func() {
		for range r.Glances() {
		}
	})
	if allocated > 500 {
		t.Errorf("a walk over 1,000 services allocates %v times", allocated)
	}
}
