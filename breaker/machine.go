package breaker

import (
	"math/rand/v2"
	"slices"
	"time"
)

// This file is the state machine: every way from one state to another. All of it runs under the breaker's lock,
// with the time as an argument.

// begin starts an era: next is when a call may be let through that isn't by now, and why is what the others are told.
// Permits of the era before lose their say. Nobody sees it before it is whole.
func (b *Breaker) begin(to State, now, next int64, why *Rejected) *era {
	e := &era{b: b, began: now}
	e.state.Store(uint32(to))
	e.next.Store(next)
	e.rejected.Store(why)
	switch to {
	case Closed, Ramping, MetricsOnly:
		e.count(now)
	case HalfOpen:
		e.half = new(halfOpen)
	}
	b.era.Store(e)
	return e
}

// settle is the way of every outcome that isn't quick.
func (b *Breaker) settle(p Permit, o Outcome) {
	e := p.era
	now := e.began
	if e.next.Load() != never {
		now = b.now()
	}
	place := uint64(0)
	if !b.lock.TryLock() {
		place = e.queue(p, o)
		b.lock.Lock()
	}
	defer b.unlock()
	if b.era.Load() != e {
		return // of an era that has ended
	}
	if p.Trial() {
		b.settleTrial(e, p, o, now)
		return
	}
	e.turn(now)
	if b.era.Load() != e {
		return // what was overdue has just ended the era
	}
	switch counted := e.flies(p); {
	case place > 0:
	case counted && e.isOverdue(p):
		e.failOverdue(o, now)
		return
	case counted && !e.fly.out(p.epoch, 0):
		return // settled twice
	case o == Neutral:
		return
	}
	e.add(o, e.markOf(p, o, now), place, now)
}

// report is for an outcome without a permit.
func (b *Breaker) report(o Outcome) {
	now := b.now()
	b.lock.Lock()
	defer b.unlock()
	b.advance(now)
	e := b.era.Load()
	switch State(e.state.Load()) {
	case Closed, Ramping, MetricsOnly:
		m := mark(0)
		if o != Success {
			m = failed
		}
		e.add(o, m, 0, now)
	case HalfOpen:
		if o != Success {
			b.open(e, RuleTrial, 1, 1, now)
		}
	}
}

// isOverdue tells whether a call was counted as slow when it passed the limit, and takes it from those that are still out. Its
// epoch says so, not its start: a goroutine may stand still between reading the clock and being counted.
func (e *era) isOverdue(p Permit) bool {
	if e.epoch.Load()-p.epoch < words {
		return false
	}
	if e.overdue > 0 {
		e.overdue--
	}
	return true
}

func (e *era) markOf(p Permit, o Outcome, now int64) (m mark) {
	if o != Success {
		m |= failed
	}
	if e.flies(p) && now-p.start > e.b.set.slow {
		m |= slow
	}
	return m
}

// turn is for a call that finds that the era must be turned before it can be let through. It returns the time of that,
// and whether the era is still there: who then looked at the clock again would find, where the limit is short and many
// wait for the lock, that it must be turned again, and never get on.
func (b *Breaker) turn(e *era) (now int64, same bool) {
	b.lock.Lock()
	defer b.unlock()
	now = b.now()
	if b.era.Load() == e {
		e.turn(now)
	}
	return now, b.era.Load() == e
}

// look is for a success that a rule may have waited for.
func (b *Breaker) look(e *era) {
	now := b.now()
	b.lock.Lock()
	defer b.unlock()
	if b.era.Load() == e {
		e.judge(e.total(), now)
	}
}

// advance moves on whatever time moves by itself.
func (b *Breaker) advance(now int64) {
	e := b.era.Load()
	switch State(e.state.Load()) {
	case Closed, Ramping, MetricsOnly:
		e.turn(now)
	case HalfOpen:
		b.expire(e, now)
	}
}

// broken is told by an era that counts that a rule is broken in it.
func (b *Breaker) broken(e *era, rule Rule, count, of uint64, now int64) {
	if e.next.Load() == never {
		now = b.now() // where nothing is timed, nobody has looked before
	}
	if State(e.state.Load()) == MetricsOnly {
		if !e.told {
			e.told = true
			b.note(Event{From: MetricsOnly, To: MetricsOnly, Rule: rule, Count: count, Of: of}, now)
		}
		return
	}
	if b.streak > 0 && now-b.closedAt >= b.lastOpen {
		b.streak = 0 // it has held: this is no relapse
	}
	b.open(e, rule, count, of, now)
}

// open opens it, for longer than the last time if that was of no use.
func (b *Breaker) open(e *era, rule Rule, count, of uint64, now int64) {
	length := b.set.maxOpen
	if doubled := b.set.openFor << min(b.streak, 62); doubled>>min(b.streak, 62) == b.set.openFor {
		length = min(doubled, length)
	}
	b.streak = min(b.streak+1, 100)
	b.lastOpen = length
	length += int64(rand.Float64() * float64(b.set.jitter) * float64(length))
	b.opened++
	from := State(e.state.Load())
	b.begin(Open, now, now+length, &Rejected{Name: b.set.name, State: Open, Rule: rule, Count: count, Of: of, Retry: b.base.Add(time.Duration(now + length))})
	b.note(Event{From: from, To: Open, Rule: rule, Count: count, Of: of, OpenFor: time.Duration(length)}, now)
}

// halfOpen is what only a half-open era has.
type halfOpen struct {
	trials []trial
	nextID uint32
	won    uint16 // trials that went well
}

// trial is a call that is let through while half-open.
type trial struct {
	id       uint32
	deadline int64
}

// try lets a trial through if it is time, and half-opens first if it is open.
func (b *Breaker) try(now int64) (Permit, bool) {
	b.lock.Lock()
	defer b.unlock()
	e := b.era.Load()
	switch State(e.state.Load()) {
	case Open:
		if now < e.next.Load() {
			return Permit{}, false
		}
		trying := *e.rejected.Load()
		trying.State = HalfOpen
		e = b.begin(HalfOpen, now, never, &trying)
		b.note(Event{From: Open, To: HalfOpen}, now)
	case HalfOpen:
		if b.expire(e, now); b.era.Load() != e || len(e.half.trials) >= int(b.set.trials) {
			return Permit{}, false
		}
	default:
		return Permit{}, false
	}
	e.half.nextID++
	e.half.trials = append(e.half.trials, trial{e.half.nextID, now + b.set.trialTimeout})
	e.offer(now)
	return Permit{era: e, start: now, trial: e.half.nextID}, true
}

// offer says from when on the next call may be a trial: at once if there is room, else when the first one's deadline is over.
func (e *era) offer(now int64) {
	if len(e.half.trials) < int(e.b.set.trials) {
		e.next.Store(now)
		return
	}
	first := slices.MinFunc(e.half.trials, func(a, b trial) int { return int(min(max(a.deadline-b.deadline, -1), 1)) }).deadline
	e.next.Store(first)
	full := *e.rejected.Load()
	full.Retry = e.b.base.Add(time.Duration(first))
	e.rejected.Store(&full)
}

// expire opens it again when a trial hasn't been settled by its deadline: it hangs, or its owner is gone.
func (b *Breaker) expire(e *era, now int64) {
	late := uint64(0)
	for _, t := range e.half.trials {
		if now >= t.deadline {
			late++
		}
	}
	if late > 0 {
		b.open(e, RuleHanging, late, uint64(len(e.half.trials)), now)
	}
}

func (b *Breaker) settleTrial(e *era, p Permit, o Outcome, now int64) {
	if b.expire(e, now); b.era.Load() != e {
		return
	}
	i := slices.IndexFunc(e.half.trials, func(t trial) bool { return t.id == p.trial })
	if i < 0 {
		return // settled twice
	}
	e.half.trials = slices.Delete(e.half.trials, i, i+1)
	late := b.set.slowRate > 0 && now-p.start > b.set.slow
	switch {
	case o == Neutral:
		e.offer(now)
	case o != Success || late:
		b.open(e, RuleTrial, 1, 1, now)
	default:
		if e.half.won++; e.half.won < b.set.successes {
			e.offer(now)
			return
		}
		b.closeAgain(now)
	}
}

func (b *Breaker) closeAgain(now int64) {
	b.closedAt = now
	to := Closed
	var why *Rejected
	if b.set.ramp > 0 {
		to = Ramping
		why = &Rejected{Name: b.set.name, State: Ramping, Retry: b.base.Add(time.Duration(now))}
	}
	b.begin(to, now, never, why)
	b.note(Event{From: HalfOpen, To: to}, now)
}

func (b *Breaker) byHand(to State) {
	now := b.now()
	b.lock.Lock()
	defer b.unlock()
	from := State(b.era.Load().state.Load())
	b.streak = 0
	var why *Rejected
	if to == ForcedOpen {
		why = &Rejected{Name: b.set.name, State: ForcedOpen, Rule: RuleByHand}
	}
	b.begin(to, now, never, why)
	if from != to {
		b.note(Event{From: from, To: to, Rule: RuleByHand}, now)
	}
}
