package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A state is seen with its reason or not at all: who is rejected at the moment of a change can say why, and when to come back.
func TestARejectionSaysWhyAtTheMomentOfAChange(t *testing.T) {
	b := New(Config{Consecutive: 1, OpenFor: 1, MaxOpen: 1, Jitter: -1, Ramp: time.Hour})
	var wg sync.WaitGroup
	var stop atomic.Bool
	wg.Go(func() {
		for !stop.Load() {
			_, err := b.Allow()
			if err == nil {
				continue
			}
			if r := err.(*Rejected); r == nil || r.State == Closed {
				t.Errorf("rejected with %+v", r)
				return
			}
		}
	})
	for range 10_000 {
		b.ForceOpen()
		b.Reset()
		b.Report(Failure)
		for b.State() != HalfOpen {
			_, _ = b.Allow()
		}
	}
	stop.Store(true)
	wg.Wait()
}
