package breaker

import "math/bits"

// mark is what makes an outcome worth remembering. A success that wasn't slow has none: windows remember where
// the others were, and how many outcomes there have been.
type mark uint8

const (
	failed   mark = 1 // and not slow
	slow     mark = 2 // and not failed
	slowFail mark = 3
)

// window holds the marks of the outcomes that the rates are taken over. total is how many outcomes there have
// been in all, the one that is marked included; it never falls.
type window interface {
	// mark marks the outcome at a place, or, if that is taken, the first after it that isn't, and returns where.
	mark(total, place uint64, m mark) uint64
	// fail turns the newest slow outcome into one that failed as well: a call that was overdue has failed.
	fail(total uint64) bool
	// turn moves on to a time, before anything of that time is counted, and returns the next one that it wants to know of.
	turn(total uint64, now int64) (next int64)
	counts(total uint64) counts
	// buckets adds up what is there, the slow way: a test holds counts to it.
	buckets(total uint64) counts
}

// counts are outcomes in a window.
type counts struct {
	total uint64
	marks [4]uint64 // by mark; [0] isn't kept
}

func (c counts) failures() uint64 { return c.marks[failed] + c.marks[slowFail] }
func (c counts) slows() uint64    { return c.marks[slow] + c.marks[slowFail] }

// countWindow is the last size outcomes: two bits for each.
type countWindow struct {
	seen  uint64 // the total up to which places have been cleared for who comes next
	size  uint32
	place uint32           // of the next outcome: seen modulo size
	marks [slowFail]uint32 // by mark, less one
	first [4]uint64        // of the ring: a window of up to 128 has no more
	more  *[]uint64
}

const perWord = 32

func (w *countWindow) init(size uint16) {
	w.size = uint32(size)
	if need := (int(size)+perWord-1)/perWord - len(w.first); need > 0 {
		more := make([]uint64, need)
		w.more = &more
	}
}

func (w *countWindow) word(place uint32) *uint64 {
	i := place / perWord
	if i < uint32(len(w.first)) {
		return &w.first[i]
	}
	return &(*w.more)[i-uint32(len(w.first))]
}

func (w *countWindow) at(place uint32) mark {
	return mark(*w.word(place)>>(place%perWord*2)) & 3
}

func (w *countWindow) put(place uint32, m mark) {
	shift := place % perWord * 2
	word := w.word(place)
	if old := mark(*word>>shift) & 3; old != 0 {
		w.marks[old-1]--
	}
	if m != 0 {
		w.marks[m-1]++
	}
	*word = *word&^(3<<shift) | uint64(m)<<shift
}

// advance clears the places of the outcomes that came since: each has pushed an older one out.
func (w *countWindow) advance(total uint64) {
	since := total - w.seen
	if since == 0 {
		return
	}
	if since >= uint64(w.size) { // nobody is left: where in the ring one goes on doesn't matter
		since = uint64(w.size)
	}
	w.seen = total
	for left := uint32(since); left > 0; {
		n := min(left, perWord-w.place%perWord, w.size-w.place)
		w.wipe(w.place, n)
		left -= n
		if w.place += n; w.place == w.size {
			w.place = 0
		}
	}
}

// back returns the place of the newest outcome but so many.
func (w *countWindow) back(n uint32) uint32 {
	if place := w.place - 1 - n; place < w.size {
		return place
	}
	return w.place - 1 - n + w.size
}

// wipe clears n places of one word of the ring.
func (w *countWindow) wipe(from, n uint32) {
	const ones = 0x5555_5555_5555_5555
	word, mask := w.word(from), ^uint64(0)>>(64-2*n)<<(from%perWord*2)
	gone := *word & mask
	if gone == 0 {
		return
	}
	*word &^= mask
	low, high := gone&ones, gone>>1&ones
	w.marks[failed-1] -= uint32(bits.OnesCount64(low &^ high))
	w.marks[slow-1] -= uint32(bits.OnesCount64(high &^ low))
	w.marks[slowFail-1] -= uint32(bits.OnesCount64(low & high))
}

func (w *countWindow) mark(total, place uint64, m mark) uint64 {
	w.advance(total)
	for ; total-place < uint64(w.size); place++ {
		if at := w.back(uint32(total - place)); w.at(at) == 0 || place == total {
			w.put(at, m)
			break
		}
	}
	return place
}

func (w *countWindow) fail(total uint64) bool {
	w.advance(total)
	for n := range uint32(min(total, uint64(w.size))) {
		if place := w.back(n); w.at(place) == slow {
			w.put(place, slowFail)
			return true
		}
	}
	return false
}

func (w *countWindow) turn(uint64, int64) int64 { return never }

func (w *countWindow) counts(total uint64) counts {
	w.advance(total)
	c := counts{total: min(total, uint64(w.size))}
	for i, n := range w.marks {
		c.marks[i+1] = uint64(n)
	}
	return c
}

func (w *countWindow) buckets(total uint64) counts {
	w.advance(total)
	sum := counts{total: min(total, uint64(w.size))}
	for place := range w.size {
		if m := w.at(place); m != 0 {
			sum.marks[m]++
		}
	}
	return sum
}

// timeWindow is the outcomes of a length of time, in ten buckets. A bucket knows what the total was when it began:
// successes need not be told to it.
type timeWindow struct {
	width int64 // of a bucket
	end   int64 // of the newest
	sum   [4]uint64
	now   int // the newest
	ring  [timeBuckets]struct {
		from  uint64 // the total when it began
		marks [4]uint32
	}
}

const timeBuckets = 10

func newTimeWindow(within, now int64) *timeWindow {
	w := &timeWindow{width: (within + timeBuckets - 1) / timeBuckets}
	w.end = now + w.width
	return w
}

func (w *timeWindow) turn(total uint64, now int64) int64 {
	if now < w.end {
		return w.end
	}
	passed := (now-w.end)/w.width + 1
	for range min(passed, timeBuckets) {
		w.now = (w.now + 1) % timeBuckets
		b := &w.ring[w.now]
		for m, n := range b.marks {
			w.sum[m] -= uint64(n)
		}
		b.from, b.marks = total, [4]uint32{}
	}
	w.end += passed * w.width
	return w.end
}

func (w *timeWindow) mark(_, place uint64, m mark) uint64 {
	w.ring[w.now].marks[m]++
	w.sum[m]++
	return place
}

func (w *timeWindow) fail(uint64) bool {
	for back := range timeBuckets {
		b := &w.ring[(w.now+timeBuckets-back)%timeBuckets]
		if b.marks[slow] > 0 {
			b.marks[slow]--
			b.marks[slowFail]++
			w.sum[slow]--
			w.sum[slowFail]++
			return true
		}
	}
	return false
}

func (w *timeWindow) counts(total uint64) counts {
	return counts{total - w.ring[(w.now+1)%timeBuckets].from, w.sum}
}

func (w *timeWindow) buckets(total uint64) counts {
	var sum counts
	upTo := total
	for back := range timeBuckets {
		b := &w.ring[(w.now+timeBuckets-back)%timeBuckets]
		sum.total += upTo - b.from
		upTo = b.from
		for m, n := range b.marks {
			sum.marks[m] += uint64(n)
		}
	}
	return sum
}
