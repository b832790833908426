package breaker

import "sync/atomic"

// flight counts calls by when they began: sixteen words, each for a fifteenth of the slow limit, an epoch. When an
// epoch begins its word is taken from the epoch sixteen before, and what was in flight there is overdue.
//
//	epoch    …  7   8   9  10  11  12  13  14  15  16  17  18  19  20  21 │22   now, in epoch 22
//	word     …  7   8   9  10  11  12  13  14  15   0   1   2   3   4   5   6   was epoch 6's: all of its calls are overdue
//	            └───────────────── the slow limit at least ───────────────┘
//
// A word packs, from the top, calls in flight, the epoch's lowest bits as its tag, and calls that are done. A call
// that ends counts itself out only where the tag is its own epoch's; else it has been counted as overdue. What
// overflows at the top is lost and harms nobody: a million calls in flight within a fifteenth of the limit.
type flight [words]atomic.Uint64

const (
	words = 16

	doneBits = 28
	tagBits  = 16

	oneDone   = 1
	mostDone  = 1<<doneBits - 1
	oneFlying = 1 << (doneBits + tagBits)
)

func tagged(epoch uint32) uint64 { return uint64(epoch&(1<<tagBits-1)) << doneBits }
func flying(word uint64) uint64  { return word / oneFlying }
func done(word uint64) uint64    { return word & mostDone }
func tagOf(word uint64) uint32   { return uint32(word>>doneBits) & (1<<tagBits - 1) }

// in counts a call in, and returns the epoch that it is counted in: epoch, or a later one that has its word by now.
func (f *flight) in(epoch uint32) uint32 {
	word := f[epoch%words].Add(oneFlying)
	return epoch + (tagOf(word)-epoch)&(1<<tagBits-1)
}

// out counts a call out, and adds finished, 0 or oneDone, to what is done. It tells whether the call was still counted as
// in flight, and whether there was room for what is done.
func (f *flight) out(epoch uint32, finished uint64) bool {
	w := &f[epoch%words]
	for {
		word := w.Load()
		if tagOf(word) != epoch&(1<<tagBits-1) || flying(word) == 0 || done(word)+finished > mostDone {
			return false
		}
		if w.CompareAndSwap(word, word-oneFlying+finished) {
			return true
		}
	}
}

// begin gives the word of an epoch to it, and returns what was still in flight there and what was done.
func (f *flight) begin(epoch uint32) (overdue, finished uint64) {
	word := f[epoch%words].Swap(tagged(epoch))
	return flying(word), done(word)
}

// sums returns how many calls are in flight and not overdue, and how many are done, of all words.
func (f *flight) sums() (inFlight, finished uint64) {
	for i := range f {
		word := f[i].Load()
		inFlight += flying(word)
		finished += done(word)
	}
	return inFlight, finished
}
