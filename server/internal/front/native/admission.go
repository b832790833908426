package native

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of what a client that isn't admitted is told.
const (
	minRetryAfter = 20 * time.Millisecond
	maxRetryAfter = 15 * time.Second // short of a lease
	retryShare    = 5 * time.Second  // of an identity that has all that it may
)

// admission lets so many through a second. Those over it form a queue that holds nobody: each is told
// the next free slot and comes back by itself, so that a herd returns spread out at the very rate that
// is served, instead of all at once.
type admission struct {
	limiter *rate.Limiter
	step    time.Duration // between two slots

	mu   sync.Mutex
	last time.Time // the last slot given away
}

func newAdmission(r Rate) *admission {
	return &admission{
		limiter: rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst),
		step:    max(1, time.Duration(float64(time.Second)/r.PerSecond)),
	}
}

// admit tells whether one more may pass now; if not, when it should come back. random is in [0, 1).
func (a *admission) admit(now time.Time, random float64) (after time.Duration, ok bool) {
	if a.limiter.AllowN(now, 1) {
		return 0, true
	}
	a.mu.Lock()
	if a.last.Before(now) {
		a.last = now
	}
	if a.last = a.last.Add(a.step); a.last.Sub(now) > maxRetryAfter {
		a.last = now.Add(maxRetryAfter)
	}
	after = a.last.Sub(now)
	a.mu.Unlock()
	if after >= maxRetryAfter { // the queue is longer than that: anywhere in its later half
		return maxRetryAfter/2 + time.Duration(random*float64(maxRetryAfter/2)), false
	}
	after = max(after, minRetryAfter)
	return after + time.Duration(random*float64(after)*0.3), false
}
