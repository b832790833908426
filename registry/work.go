package registry

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider"
)

const (
	rememberUnknown = 5 * time.Minute  // how long unknown callers are remembered
	defaultUnknown  = 8 * time.Second  // how long a drain waits for them
	slowestEvery    = 10 * time.Second // the slowest of a minute is kept in slots of this length
	slowestSlots    = 7                // a minute, and the slot that has begun
	workShards      = 16               // a power of two
)

// Work counts what one instance does: put into its [Registration], the counts travel with the beats, and the node
// takes an instance at which requests arrive and none completes for hung. drain.Serve and eidergrpc count by
// themselves; it is for servers of one's own. Make it with [NewWork].
//
// Its methods may be called from any goroutine. They take no lock and allocate nothing: the counts are spread, so
// that cores don't take each other's cache lines. On a nil Work they do nothing.
type Work struct {
	base    time.Time
	unknown atomic.Int64 // the last unknown caller, by the clock of base, a second behind at most; 0: none yet
	slowest [slowestSlots]atomic.Uint64
	_       [64]byte
	shards  [workShards]workShard
}

// workShard has a pair of cache lines of its own.
type workShard struct {
	arrived, ended, completed atomic.Uint64
	_                         [104]byte
}

// Arrival is one request that arrived, for its End. The zero Arrival is none.
type Arrival struct {
	at    time.Duration // by the clock of Work
	shard uint32
}

// NewWork returns counts that stand at nothing.
func NewWork() *Work { return &Work{base: time.Now()} }

// now is monotonic and never 0.
func (w *Work) now() time.Duration { return time.Since(w.base) + 1 }

// Arrive counts a request. Leave out what says nothing about the work: health checks, which are answered by a hung
// process too, and streams, which don't end.
func (w *Work) Arrive() Arrival {
	if w == nil {
		return Arrival{}
	}
	a := Arrival{at: w.now(), shard: rand.Uint32() % workShards}
	w.shards[a.shard].arrived.Add(1)
	return a
}

// End tells that a request is over. Only an answer wholly written to a client that still listens completes it. It is
// called once for each Arrival.
func (w *Work) End(a Arrival, completed bool) {
	if w == nil || a.at == 0 {
		return
	}
	s := &w.shards[a.shard]
	s.ended.Add(1) // before completed, as Read has it
	if !completed {
		return
	}
	s.completed.Add(1)
	now := w.now()
	w.slow(now, now-a.at)
}

// slow notes how long a request took. A slot holds the number of its ten seconds above the milliseconds, so that a
// later slot's first word replaces what an earlier one left: it is the greater number. It is seldom written.
func (w *Work) slow(now, took time.Duration) {
	n := uint64(now / slowestEvery)
	slot := &w.slowest[n%slowestSlots]
	for mine := n<<32 | uint64(min(took.Milliseconds(), 1<<32-1)); ; {
		held := slot.Load()
		if held >= mine || slot.CompareAndSwap(held, mine) {
			return
		}
	}
}

// Unknown tells of a request whose caller can't be told that this instance leaves: it doesn't say who it is. For five
// minutes a leave waits for whoever that was, see Registration.Unknown.
func (w *Work) Unknown() {
	if w == nil {
		return
	}
	if now, last := int64(w.now()), w.unknown.Load(); last == 0 || now-last > int64(time.Second) { // else all cores would write it all the time
		w.unknown.Store(now)
	}
}

// Uncounted tells that requests come which nobody counts here, as when another process serves: from now on there may
// be unknown callers at any time, and each leave waits for them.
func (w *Work) Uncounted() {
	if w != nil {
		w.unknown.Store(math.MaxInt64) // a moment that stays the last one, and never passes
	}
}

// Read returns the counts as they stand.
func (w *Work) Read() (out eider.Work) {
	if w == nil {
		return out
	}
	// In this order a request that goes on meanwhile is never seen to have ended before it arrived.
	for i := range w.shards {
		out.Completed += w.shards[i].completed.Load()
	}
	for i := range w.shards {
		out.Ended += w.shards[i].ended.Load()
	}
	for i := range w.shards {
		out.Arrived += w.shards[i].arrived.Load()
	}
	now := w.now()
	for i := range w.slowest {
		if held := w.slowest[i].Load(); held>>32+slowestSlots > uint64(now/slowestEvery) {
			out.Slowest = max(out.Slowest, time.Duration(held&(1<<32-1))*time.Millisecond)
		}
	}
	last := time.Duration(w.unknown.Load())
	out.Unknown = last != 0 && now-last < rememberUnknown
	return out
}
