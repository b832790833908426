package ledger

import "math/bits"

// rounds tells when each session that beats is to be looked at again: a wheel of slots, each some
// milliseconds wide, in front of the heap of alarms. A beat only writes down its time; when the slot of a
// session comes, the session moves on to the slot of its last beat, and into the heap, with its exact
// time, only if it is about to be silent. So a renewal costs the same among any number of sessions: a heap
// of those that beat would touch the memory of a dozen others each time.
type rounds struct {
	tick  moment // the width of a slot
	at    int64  // the slot that comes next, counted from the table's start
	slots [64][]*pulse
	used  uint64 // a bit for each slot that isn't empty
}

// pulse is what a renewal touches of a session, apart from the rest and beside those of others: a hundred thousand
// fit into the processor's second cache, sessions don't.
type pulse struct {
	beat   moment
	of     *session
	slot   int32 // in the alarms
	silent bool  // its instances are suspect by silence
	told   bool  // a beat makes its process attach anew, from session.anew on
	round  bool  // it is in the rounds
	over   bool  // its stream has ended
}

// pulses are handed out of blocks, and taken back.
type pulses []*pulse

func (free *pulses) get(s *session) *pulse {
	if len(*free) == 0 {
		block := make([]pulse, 256)
		for i := range block {
			*free = append(*free, &block[len(block)-1-i])
		}
	}
	last := len(*free) - 1
	p := (*free)[last]
	(*free)[last] = nil
	*free = (*free)[:last]
	p.of = s
	return p
}

func (free *pulses) put(p *pulse) {
	*p = pulse{}
	*free = append(*free, p)
}

// slotsAhead is how many slots the longest wait spans: fewer than there are, so that none comes too late.
const slotsAhead = 32

func newRounds(longest moment) rounds {
	return rounds{tick: max(longest/slotsAhead, 1)}
}

// put has a session looked at when the slot of a moment begins: at most a slot too early, never too late.
func (r *rounds) put(p *pulse, due moment) {
	slot := min(max(int64(due/r.tick), r.at), r.at+int64(len(r.slots))-1)
	i := slot % int64(len(r.slots))
	r.slots[i] = append(r.slots[i], p)
	r.used |= 1 << i
	p.round = true
}

// next tells when the first slot with a session begins.
func (r *rounds) next() (moment, bool) {
	if r.used == 0 {
		return 0, false
	}
	ahead := bits.TrailingZeros64(bits.RotateLeft64(r.used, -int(r.at%int64(len(r.slots)))))
	return moment(r.at+int64(ahead)) * r.tick, true
}

// take hands out a session whose slot has begun, nil if there is none.
func (r *rounds) take(clock moment) *pulse {
	at, any := r.next()
	if !any || at > clock {
		r.at = max(r.at, int64(clock/r.tick))
		return nil
	}
	r.at = int64(at / r.tick)
	i := r.at % int64(len(r.slots))
	slot := r.slots[i]
	last := len(slot) - 1
	p := slot[last]
	slot[last] = nil
	r.slots[i] = slot[:last]
	if last == 0 {
		r.used &^= 1 << i
	}
	p.round = false
	return p
}

// watch has a session looked at when its silence would make it suspect.
func (t *Table) watch(s *session) {
	if !s.round && s.slot == 0 && !s.over && !s.silent && len(s.entries) > 0 {
		t.rounds.put(s.pulse, s.beat+t.cfg.SuspectAfter)
	}
}

// round looks at the sessions whose turn has come. One whose silence ends within this very slot gets an alarm.
func (t *Table) round() {
	for t.work > 0 {
		p := t.rounds.take(t.clock)
		if p == nil {
			return
		}
		t.work--
		at := p.beat + t.cfg.SuspectAfter
		switch {
		case p.over:
			t.pulses.put(p)
		case p.silent: // one without instances goes on, until its silence says nothing
		case int64(at/t.rounds.tick) <= t.rounds.at:
			t.alarms.set(p.of, at)
		default:
			t.rounds.put(p, at)
		}
	}
}
