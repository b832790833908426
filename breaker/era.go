package breaker

import (
	"math"
	"sync/atomic"
)

const never = int64(math.MaxInt64)

// era is one stretch of one state, with everything that is counted in it. A permit points to the era that gave it, so
// that a result which comes after its era has ended can decide nothing: it is written where nobody reads.
//
// The fields above the line are read and written by calls without a lock, those below it under the breaker's.
type era struct {
	b        *Breaker
	state    atomic.Uint32 // changes within an era only from Ramping to Closed
	watch    atomic.Bool   // a success may be the outcome that a rule's minimum waits for
	timed    bool          // calls in flight are counted
	told     bool          // MetricsOnly: that a rule is broken
	epoch    atomic.Uint32
	overdue  uint32       // calls that were counted as slow and haven't come back
	next     atomic.Int64 // when calls must look again: an epoch ends, a bucket, the ramp; Open, HalfOpen: when the next trial may be
	fly      flight
	beside   atomic.Uint64 // outcomes that aren't in flight words, or not any more
	rejected atomic.Pointer[Rejected]
	share    atomic.Uint64 // Ramping: sums up what each call may weigh
	// ─────────────────
	began    int64
	epochEnd int64
	last     countWindow
	times    *timeWindow // instead of last
	half     *halfOpen
	lastFail uint64 // the total after the newest failure
	run      uint32 // failures in a row
	failed   uint32 // outcomes of the era that were
	slowed   uint32
}

// total is how many outcomes there have been.
func (e *era) total() uint64 {
	if !e.timed {
		return e.beside.Load()
	}
	_, finished := e.fly.sums()
	return e.beside.Load() + finished
}

func (e *era) width() int64 { return (e.b.set.slow + words - 2) / (words - 1) }

// count makes the era ready to count.
func (e *era) count(now int64) {
	set := &e.b.set
	e.timed = set.slow > 0
	if set.within > 0 {
		e.times = newTimeWindow(set.within, now)
	} else {
		e.last.init(set.window)
	}
	e.epochEnd = never
	if e.timed {
		e.epochEnd = now + e.width()
		for epoch := range uint32(words) {
			e.fly.begin(epoch)
		}
		e.epoch.Store(words - 1)
	}
	e.plan(e.window().turn(0, now))
}

func (e *era) window() window {
	if e.times != nil {
		return e.times
	}
	return &e.last
}

// plan says when calls must turn the era again.
func (e *era) plan(windowEnd int64) {
	next := min(windowEnd, e.epochEnd)
	if State(e.state.Load()) == Ramping {
		next = min(next, e.began+e.b.set.ramp)
	}
	e.next.Store(next)
}

// turn moves the era on to now: buckets and epochs end, and what is overdue is counted.
func (e *era) turn(now int64) {
	if now < e.next.Load() {
		return
	}
	if State(e.state.Load()) == Ramping && now >= e.began+e.b.set.ramp {
		e.state.Store(uint32(Closed))
		e.b.note(Event{From: Ramping, To: Closed}, now)
	}
	windowEnd := e.window().turn(e.total(), now)
	var overdue uint64
	if e.timed && now >= e.epochEnd {
		overdue = e.turnEpochs(now)
	}
	e.plan(windowEnd)
	e.judge(e.addOverdue(overdue), now)
}

func (e *era) turnEpochs(now int64) (overdue uint64) {
	passed := (now-e.epochEnd)/e.width() + 1
	epoch := e.epoch.Load() + uint32(passed)
	for back := min(passed, words) - 1; back >= 0; back-- {
		late, finished := e.fly.begin(epoch - uint32(back))
		overdue += late
		e.beside.Add(finished)
	}
	e.epochEnd += passed * e.width()
	e.epoch.Store(epoch)
	return overdue
}

// addOverdue counts calls as slow that have passed the limit and haven't come back, and returns the total then. They
// don't end a run of failures.
func (e *era) addOverdue(n uint64) uint64 {
	before := e.total()
	if n == 0 {
		return before
	}
	e.overdue += uint32(n)
	e.slowed += uint32(n)
	if e.lastFail == before {
		e.lastFail += n
	}
	e.beside.Add(n)
	most := n
	if size := uint64(e.last.size); size > 0 {
		most = min(n, size)
	}
	for i := range most {
		place := before + n - most + i + 1
		e.window().mark(place, place, slow)
	}
	return before + n
}

// flies tells whether a call is among those in flight.
func (e *era) flies(p Permit) bool { return e.timed && p.trial != begun }

// queue counts an outcome before its turn for the lock comes, and returns its place; 0 if it must be looked at first.
// Successes need no lock, so whoever waits for it is overtaken by them: failures that waited together would else count
// as so many in a row.
func (e *era) queue(p Permit, o Outcome) uint64 {
	if p.Trial() || o == Neutral || e.flies(p) && !e.fly.out(p.epoch, 0) {
		return 0
	}
	return e.place()
}

// place counts one outcome, and returns its place.
func (e *era) place() uint64 {
	beside := e.beside.Add(1)
	if !e.timed {
		return beside
	}
	_, finished := e.fly.sums()
	return beside + finished
}

// add counts one outcome, if it has no place yet, and judges. A refusal needs no rule.
func (e *era) add(o Outcome, m mark, place uint64, now int64) {
	total := uint64(0)
	if place == 0 {
		place = e.place()
		total = place
	} else {
		total = e.total()
	}
	if m != 0 {
		place = e.window().mark(total, place, m)
		if m&failed != 0 {
			e.failed++
			e.failure(place)
		}
		if m&slow != 0 {
			e.slowed++
		}
	}
	e.judgeWith(o, total, now)
}

// failure lengthens the run of failures, or begins one if anything else came between.
func (e *era) failure(place uint64) {
	switch {
	case place == e.lastFail+1:
		e.run++
		e.lastFail = place
	case place > e.lastFail:
		e.run = 1
		e.lastFail = place
	case place+uint64(e.run) == e.lastFail: // it came before those, and was told after them
		e.run++
	}
}

// failOverdue is told what came of a call that had been counted as slow.
func (e *era) failOverdue(o Outcome, now int64) {
	if o == Success || o == Neutral {
		return
	}
	total := e.total()
	if e.window().fail(total) {
		e.failed++
		if e.lastFail == total {
			e.run++
		} else {
			e.run, e.lastFail = 1, total
		}
	}
	e.judgeWith(o, total, now)
}

// judge looks whether a rule is broken now, and whether a success could be what breaks it next: one that
// makes up the outcomes that a rule waits for.
func (e *era) judge(total uint64, now int64) {
	c := e.window().counts(total)
	set := &e.b.set
	fails, slows := c.failures(), c.slows()
	waits := false
	switch {
	case fails == 0 && slows == 0:
	case set.consecutive > 0 && e.run >= uint32(set.consecutive):
		e.b.broken(e, RuleConsecutive, uint64(e.run), uint64(e.run), now)
	case reaches(fails, c.total, set.failRate, set.failMin):
		e.b.broken(e, RuleFailureRate, fails, c.total, now)
	case reaches(slows, c.total, set.slowRate, set.slowMin):
		rule := RuleSlowRate
		if uint64(e.overdue)*2 >= slows {
			rule = RuleHanging
		}
		e.b.broken(e, rule, slows, c.total, now)
	default:
		waits = fails > 0 && c.total < uint64(set.failMin) || slows > 0 && c.total < uint64(set.slowMin)
	}
	if e.watchFor(waits) {
		e.judge(e.total(), now) // the success that it waits for may have come meanwhile, and seen no watch
	}
}

// watchFor tells whether it has just been switched on.
func (e *era) watchFor(on bool) bool {
	if e.watch.Load() == on { // a store costs much more, and other cores their cache line
		return false
	}
	e.watch.Store(on)
	return on
}

func (e *era) judgeWith(o Outcome, total uint64, now int64) {
	if o == Refused {
		e.b.broken(e, RuleRefused, 1, 1, now)
		return
	}
	e.judge(total, now)
}

func reaches(n, of uint64, rate float32, least uint16) bool {
	const rounding = 1e-3 // rates are float32: 10,000 times one is off by less than that
	return rate > 0 && n > 0 && of >= uint64(least) && float64(n) >= float64(rate)*float64(of)-rounding
}

// windowed tells what the window holds, if the era has one.
func (e *era) windowed() counts {
	if e.last.size == 0 && e.times == nil {
		return counts{}
	}
	return e.window().counts(e.total())
}
