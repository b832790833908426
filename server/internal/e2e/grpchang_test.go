package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/eidergrpc"
	"github.com/eiderhq/eider/server/internal/node"
)

// TestU3AHungGRPCInstanceIsTriedAndComesBack: in a fleet that speaks gRPC alone, an instance beats on while its calls hang.
// It is suspect soon. From when the caller knows, its calls go to others, and the one that is a trial is answered by one
// of them too; a call that is answered there cures it.
func TestU3AHungGRPCInstanceIsTriedAndComesBack(t *testing.T) {
	n := startNode(t, node.Settings{Beat: 500 * time.Millisecond, Lease: 10 * time.Second})
	var hangs atomic.Bool
	var there, calls atomic.Int64
	book := &ledgerOf{}
	for _, sound := range []string{"a", "b", "c"} { // one may be late with a beat: with more than half in doubt calls go to all
		startTill(t, n.grpc, sound, &till{name: sound, book: book})
	}
	startTill(t, n.grpc, "h", &till{name: "h", book: book, first: func(ctx context.Context) error {
		there.Add(1)
		if hangs.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}})
	caller := newPayer(t, n.grpc, "payer", eidergrpc.Config{Slow: 100 * time.Millisecond, Idempotent: []string{payMethod}})
	suspected := awaitSuspicion(t, n.grpc, "till")
	pay := func(within time.Duration) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return caller.pay(ctx, fmt.Sprint("call ", calls.Add(1)))
	}
	// until calls until something is so. Nothing fails but what ran into its deadline, if that may be.
	until := func(what string, within time.Duration, so func(who string) bool) {
		t.Helper()
		for begun := time.Now(); ; {
			who, err := pay(within)
			if err != nil && (within == patience || status.Code(err) != codes.DeadlineExceeded) {
				t.Fatalf("%v; waiting for: %s", err, what)
			}
			if so(who) {
				return
			}
			if time.Since(begun) > patience {
				t.Fatalf("never: %s", what)
			}
		}
	}
	until("it is called", patience, func(who string) bool { return who == "h" })
	hangs.Store(true)
	until("it is suspect", time.Second, func(string) bool { return suspected(eider.Wedged) })
	calm := 0 // calls in a row that others have answered: by then the caller knows
	until("its calls go to others", time.Second, func(who string) bool {
		if calm++; who == "" {
			calm = 0
		}
		return calm == 30
	})
	before := there.Load()
	until("it is tried", patience, func(string) bool { return there.Load() > before+1 })
	if !suspected(eider.Wedged) {
		t.Error("it is cured, though it answered nobody")
	}
	hangs.Store(false)
	until("it is cured", patience, func(string) bool { return !suspected(eider.Wedged) })
	until("it is called again", patience, func(who string) bool { return who == "h" })
	t.Logf("%d calls, %d of them came to it", calls.Load(), there.Load())
}
