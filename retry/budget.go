package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds retries to a share of the first attempts of the last seconds, so that an outage isn't answered
// with a multiple of the load that it broke under. It counts over a window of first attempts, not over calls in
// flight: those shrink as calls die, and with them the retries that would have saved the rest.
//
// The zero value works. Its methods may be called from any goroutine; they don't allocate, and Attempt takes no
// lock. A Budget must not be copied after its first use.
type Budget struct {
	Ratio        float64       // 0 means 0.2: one retry for five first attempts; below 0 means none
	MinPerSecond float64       // 0 means 10: allowed without any attempt, saved up over Window; below 0 means none
	Window       time.Duration // 0 means 10s; a longer one forgives longer bursts

	once   sync.Once
	origin time.Time     // the first time seen: times are counted from it, by the monotonic clock
	width  time.Duration // of one bucket

	lock sync.Mutex // one Allow at a time: two that see the last retry left don't both take it
	ring [buckets]atomic.Uint64
}

// A bucket is one word, so that its counts are reset and counted in one step: the epoch it counts for, attempts,
// retries. Counts saturate: at more than four million attempts in a tenth of the window fewer retries are allowed
// than Ratio says.
const (
	buckets     = 10
	retryBits   = 18
	attemptBits = 22
	epochBits   = 64 - attemptBits - retryBits

	maxRetries  = 1<<retryBits - 1
	maxAttempts = 1<<attemptBits - 1
	maxEpoch    = 1<<epochBits - 1
)

// Attempt counts one first attempt.
func (b *Budget) Attempt(now time.Time) { b.count(b.epoch(now), 1, 0) }

// Allow tells whether a retry may be made now, and counts it if so.
func (b *Budget) Allow(now time.Time) bool {
	epoch := b.epoch(now)
	b.lock.Lock()
	defer b.lock.Unlock()
	attempts, retries := b.sums(epoch)
	if float64(retries)+1 > b.limit(attempts) {
		return false
	}
	b.count(epoch, 0, 1)
	return true
}

// Used returns what is in the window now: first attempts, retries made, and how many retries may be made in all.
func (b *Budget) Used(now time.Time) (attempts, retries, limit int) {
	a, r := b.sums(b.epoch(now))
	return int(a), int(r), int(b.limit(a))
}

// limit returns how many retries the attempts in the window allow.
func (b *Budget) limit(attempts uint64) float64 {
	ratio, floor := b.Ratio, b.MinPerSecond
	if ratio == 0 {
		ratio = 0.2
	}
	if floor == 0 {
		floor = 10
	}
	return max(ratio, 0)*float64(attempts) + max(floor, 0)*(b.width*buckets).Seconds()
}

// epoch counts bucket widths since the first time seen, from 1; a bucket that was never used is of epoch 0 and empty.
func (b *Budget) epoch(now time.Time) uint64 {
	b.once.Do(func() {
		window := b.Window
		if window <= 0 {
			window = 10 * time.Second
		}
		b.origin, b.width = now, max(window/buckets, 1)
	})
	return uint64(max(now.Sub(b.origin), 0)/b.width) + 1
}

// count adds to the bucket of the epoch, which it resets if it still holds an older one. A slot that holds a newer
// one already (a goroutine that was late with its clock) is counted into.
func (b *Budget) count(epoch, attempts, retries uint64) {
	slot := &b.ring[epoch%buckets]
	for {
		old := slot.Load()
		at, a, r := unpack(old)
		if d := age(epoch, at); d > 0 || d <= -buckets {
			at, a, r = epoch&maxEpoch, 0, 0
		}
		next := pack(at, min(a+attempts, maxAttempts), min(r+retries, maxRetries))
		if next == old || slot.CompareAndSwap(old, next) {
			return
		}
	}
}

// sums adds up the buckets of the last window.
func (b *Budget) sums(epoch uint64) (attempts, retries uint64) {
	for i := range b.ring {
		at, a, r := unpack(b.ring[i].Load())
		if d := age(epoch, at); -buckets < d && d < buckets {
			attempts, retries = attempts+a, retries+r
		}
	}
	return attempts, retries
}

// age returns how many epochs lie between; negative if at is the newer one. Epochs wrap, after 48 days of one-second
// buckets: what is a window or more away in either direction is old.
func age(epoch, at uint64) int64 {
	return int64((epoch-at)<<(64-epochBits)) >> (64 - epochBits)
}

func pack(epoch, attempts, retries uint64) uint64 {
	return epoch<<(attemptBits+retryBits) | attempts<<retryBits | retries
}

func unpack(word uint64) (epoch, attempts, retries uint64) {
	return word >> (attemptBits + retryBits), word >> retryBits & maxAttempts, word & maxRetries
}
