package roster

import (
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
)

// A member is one incarnation of one instance at one address, in this caller: who it is, its calls in
// flight, its leaving mark, its breaker, its companion. It is made when the roster first hears of
// the incarnation and everything about it ends with it: a successor on the same address inherits
// nothing, and one that comes back has the breaker that it had, if that isn't closed.
//
// The fields up to the first blank line are read and written by pickers, without a lock.
type member struct {
	// word holds the calls in flight (bits 0–31), those of them that still hold up letting go and whose
	// request isn't written (bits 32–62), and the leaving mark (bit 63). One word, so that counting in
	// and looking at the mark is one step: every pick is either counted before the mark or sees it.
	word atomic.Uint64
	// written counts the picks whose request is wholly written and not yet answered, by the tick in
	// which it was: tick (upper half), count (lower half). See settled.
	written [ring]atomic.Uint64
	_       [64]byte                          // what follows is mostly read
	guard   atomic.Pointer[breaker.Breaker]   // see breaker
	bulk    atomic.Pointer[bulkhead.Bulkhead] // see bulkhead; nil without Config.Bulkhead
	okTick  atomic.Int64                      // one more than the tick of the last success; 0 for none
	due     atomic.Int64                      // its breaker needn't be asked for a trial before, on the roster's clock
	hung    atomic.Bool                       // its breaker opened since calls were slow or hung
	said    atomic.Bool                       // said of itself, in band, that it is leaving: final for an incarnation

	id        string
	nonce     uint64
	first     *eider.Instance // as it was when this member was made: what the companion is for
	companion Companion       // set before the first pick, never changed

	// These are the roster's, under its lock.
	in       *eider.Instance // as the newest record has it
	before   *member         // who had the incarnation before, until its picks have settled
	born     bool            // the companion is made
	since    time.Duration   // when it came UP
	absent   time.Duration   // missing from complete views since; meaningful if in.Suspicion says so
	left     order           // the newest record that said DRAINING; zero if none did
	marked   bool            // the leaving mark is set
	settling bool            // it is being let go of
	markedAt time.Duration   // when, if by a view or its own word
	letGo    bool            // no pick counts any more, connections are closed: acknowledged
	opened   uint64          // its breaker has opened, as the roster's so manyeth; 0: it is closed
	refused  bool            // by a refusal
	hangs    bool            // the last time, since calls didn't come back
	aside    bool            // it is left out for that
	doubted  time.Duration   // when a refusal was last told upstream; 0 never
	passed   int             // trials that the registry asked for in a row and that no pick took
	risked   int             // trials for which a request was risked in vain
}

func newMember(in *eider.Instance, now time.Duration) *member {
	m := &member{id: in.ID, nonce: in.Incarnation.Nonce, first: in, in: in, since: now}
	if in.Status == eider.Draining {
		m.left = orderOf(&in.Record)
	}
	return m
}

const (
	unwritten uint64 = 1 << 32
	leaving   uint64 = 1 << 63
	inFlight  uint64 = 1<<32 - 1

	// A written request holds up letting go for a second, in ticks of an eighth: a pick in tick p counts up to the
	// end of tick p+held. The ring is longer than that, so what a new tick overwrites no longer counts.
	tick     = time.Second / 8
	held     = 8
	ring     = 16
	tickBits = 29 // what fits beside three flags in a Choice; two years
	tickMask = 1<<tickBits - 1
)

// enter counts a pick in; false, and nothing counted, if the member is leaving. empty tells that this
// stepping back was the last that letting go waited for.
func (m *member) enter() (ok, empty bool) {
	if m.word.Add(unwritten|1)&leaving == 0 {
		return true, false
	}
	return false, m.leave(unwritten | 1)
}

// leave counts out; true if the member is leaving and nothing unwritten is left.
func (m *member) leave(what uint64) bool {
	w := m.word.Add(-what)
	return w&leaving != 0 && w&^leaving < unwritten
}

// mark sets the leaving mark, for every picker at once and for good.
func (m *member) mark() {
	m.marked = true
	m.word.Or(leaving)
}

// wrote counts a pick as written in tick t.
func (m *member) wrote(t uint32) {
	slot := &m.written[t%ring]
	for {
		old := slot.Load()
		next := old + 1
		if was := uint32(old >> 32); was != t {
			if age(was, t) < 0 && uint32(old) > 0 {
				return // this goroutine slept for a whole ring: its second has passed
			}
			next = uint64(t)<<32 | 1
		}
		if slot.CompareAndSwap(old, next) {
			return
		}
	}
}

// unwrote takes back what wrote counted; true if the member is leaving.
func (m *member) unwrote(t uint32) bool {
	slot := &m.written[t%ring]
	for {
		old := slot.Load()
		if uint32(old>>32) != t || uint32(old) == 0 {
			break
		}
		if slot.CompareAndSwap(old, old-1) {
			break
		}
	}
	return m.word.Load()&leaving != 0
}

// settled tells whether no pick from before the mark counts any more, and if only the passing of time
// is missing, when to look again; 0 means that somebody will count out.
//
// A pick counts in the word until its request is written, then in the ring until it is answered or its
// second has passed. It enters the ring before it leaves the word, and the word is read first, so it is
// never overlooked in between.
func (m *member) settled(now time.Duration) (ok bool, again time.Duration) {
	if m.word.Load()&^leaving >= unwritten {
		return false, 0
	}
	current := tickOf(now)
	for i := range m.written {
		slot := m.written[i].Load()
		if uint32(slot) == 0 {
			continue
		}
		if old := max(age(uint32(slot>>32), current), 0); old <= held {
			again = max(again, (now/tick+time.Duration(held+1-old))*tick)
		}
	}
	if m.before != nil {
		if done, at := m.before.settled(now); !done {
			return false, max(again, at)
		}
	}
	return again == 0, again
}

// after has letting go of m wait for the picks of a member that had its incarnation before.
func (m *member) after(old *member, now time.Duration) {
	if done, _ := old.settled(now); !done {
		m.before = old
	}
}

// tickOf names the tick of a time.
func tickOf(now time.Duration) uint32 { return uint32(now/tick) & tickMask }

// age is how many ticks lie between two, negative if t comes later.
func age(t, now uint32) int { return int(int32((now-t)<<(32-tickBits)) >> (32 - tickBits)) }

// order is the part of a record that orders those of one incarnation.
type order struct{ attachment, version uint64 }

func orderOf(r *eider.Record) order { return order{r.Attachment, r.Version} }

// after tells whether o is newer.
func (o order) after(other order) bool {
	return o.attachment > other.attachment || o.attachment == other.attachment && o.version > other.version
}

// yields tells whether the instance is to be let go of, as far as this caller knows: it leaves, or is held.
func (m *member) yields() bool {
	return m.marked || m.said.Load() || m.in.Status == eider.Draining || m.in.Hold != nil
}

// leaves tells whether it leaves, for good: by its record, or by its own word.
func (m *member) leaves() bool {
	return m.said.Load() || m.left != order{} || m.in.Status == eider.Draining
}

// lastOne tells whether it may be picked when nobody else is left. A hold doesn't make one that is DOWN pickable.
func (m *member) lastOne() bool {
	return m.in.Status == eider.Up || m.in.Status == eider.Draining || m.said.Load()
}

// back tells whether a record takes back that it was let go of: it is UP again and isn't held.
func (m *member) back(in *eider.Instance) bool {
	return !m.said.Load() && in.Status == eider.Up && in.Hold == nil && orderOf(&in.Record).after(m.left)
}

// departures names what an instance is let go of for: its leave, its hold, both. A hold is named by the count that
// it has now, and only while it is in force: released, it may be picked again, and a leave isn't let go of by that.
func (m *member) departures(to []eider.Departure) []eider.Departure {
	if m.leaves() {
		to = append(to, m.in.Departure())
	}
	if m.in.Hold != nil {
		held := m.in.Departure()
		held.Hold = m.in.Hold.Count
		to = append(to, held)
	}
	return to
}
