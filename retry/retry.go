// Package retry answers: when to try again, and may I? Backoff and jitter for when, [Budget] for whether.
//
// It is arithmetic: time and randomness are arguments, nothing here waits or starts anything. Every rnd is a
// number from [0, 1), as math/rand/v2's Float64 draws it.
package retry

import "time"

// Backoff says how long to wait before trying again. The zero value is how a caller reconnects to its
// registry: 50 ms doubling to 2 s.
type Backoff struct {
	Base time.Duration // 0 means 50ms; the longest wait before the first retry
	Max  time.Duration // 0 means 2s; the longest wait before any: what a registry that came back waits for its last client
}

// Ceiling returns the longest wait before a retry: Base doubled attempt times, at most Max. Attempt 0 is the first
// retry.
func (b Backoff) Ceiling(attempt int) time.Duration {
	base, limit := b.Base, b.Max
	if base <= 0 {
		base = 50 * time.Millisecond
	}
	if limit <= 0 {
		limit = 2 * time.Second
	}
	for ; attempt > 0 && base < limit; attempt-- {
		if base > limit/2 {
			return limit
		}
		base *= 2
	}
	return min(base, limit)
}

// Delay draws a wait from (0, Ceiling(attempt)]: full jitter, since a wait with a fixed part leaves the herd that
// a restart has made in step. It is never 0, so that a loop over it never spins.
func (b Backoff) Delay(attempt int, rnd float64) time.Duration {
	ceiling := b.Ceiling(attempt)
	return max(ceiling-time.Duration(clamp(rnd)*float64(ceiling)), 1)
}

// Early spreads d down by up to a fraction of it, so that no two clients wake on the same clock: Early(2s, 0.25, rnd)
// is from (1.5s, 2s]. Down, never up: what d promises somebody (a heartbeat before a lease) still holds.
func Early(d time.Duration, fraction, rnd float64) time.Duration {
	return d - time.Duration(clamp(fraction)*clamp(rnd)*float64(d))
}

// Late spreads d up by up to a fraction of it: Late(1s, 0.25, rnd) is from [1s, 1.25s). It is for what must not
// come sooner: a time given by somebody who can't serve now.
func Late(d time.Duration, fraction, rnd float64) time.Duration {
	return d + time.Duration(clamp(fraction)*clamp(rnd)*float64(d))
}

// clamp holds x within [0, 1]; what isn't a number becomes 0.
func clamp(x float64) float64 {
	if x > 0 {
		return min(x, 1)
	}
	return 0
}
