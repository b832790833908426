package bulkhead

import (
	"math"
	"sync/atomic"
)

// leases counts slots in flight by when they began: sixteen words, each for a fifteenth of the lease, an epoch. A word
// packs its epoch and the slots in flight of it. When the epoch sixteen later begins, the word's youngest slot is a
// lease old; what is in it then is taken back whole.
//
// Who is counted here is counted in the bulkhead's state already, and until after he is counted out here: what is taken
// back can always be taken from there.
type leases struct {
	width int64 // of an epoch
	cell  [cells]atomic.Uint64
}

const cells = 16

// epoch is counted from sixteen, so that a word that was never used is of one that is over.
func (l *leases) epoch(now int64) uint64 { return uint64(now/l.width) + cells }

// in counts a slot in. It isn't ok if now has become so long ago that its word is another epoch's: read the clock again.
// lapsed is what was still in flight of the word's epoch before.
func (l *leases) in(now int64) (epoch, lapsed uint64, ok bool) {
	epoch = l.epoch(now)
	c := &l.cell[epoch%cells]
	for {
		w := c.Load()
		switch at := w >> flyBits; {
		case at > epoch:
			return 0, 0, false
		case at == epoch:
			if c.CompareAndSwap(w, w+1) {
				return epoch, 0, true
			}
		default:
			if c.CompareAndSwap(w, epoch<<flyBits|1) {
				return epoch, w & flyMask, true
			}
		}
	}
}

// out counts a slot out, and tells whether it was still in.
func (l *leases) out(epoch uint64) bool {
	c := &l.cell[epoch%cells]
	for {
		w := c.Load()
		if w>>flyBits != epoch || w&flyMask == 0 {
			return false
		}
		if c.CompareAndSwap(w, w-1) {
			return true
		}
	}
}

// sweep takes back every slot whose lease has ended, and returns how many.
func (l *leases) sweep(now int64) (lapsed uint64) {
	over := l.epoch(now) - cells
	for i := range l.cell {
		c := &l.cell[i]
		for {
			w := c.Load()
			if w>>flyBits > over || w&flyMask == 0 {
				break
			}
			if c.CompareAndSwap(w, 0) {
				lapsed += w & flyMask
				break
			}
		}
	}
	return lapsed
}

// next is when the epoch after now's begins.
func (l *leases) next(now int64) int64 {
	n := now / l.width
	if n >= math.MaxInt64/l.width-1 {
		return math.MaxInt64
	}
	return (n + 1) * l.width
}

// oldest is when the next lease ends, if nothing is released before; also of a slot that is taken from now on.
func (l *leases) oldest(now int64) int64 {
	first := l.epoch(now)
	for i := range l.cell {
		if w := l.cell[i].Load(); w&flyMask > 0 {
			first = min(first, w>>flyBits)
		}
	}
	if first > uint64(math.MaxInt64/l.width) {
		return math.MaxInt64
	}
	return int64(first) * l.width
}
