package breaker

import (
	"slices"
)

// model is a breaker as one would write it who has all the time and memory in the world: outcomes in a slice with
// their times, counted anew after each step, and no thought of locks.
type model struct {
	set   settings
	state State
	era   int
	began int64
	until int64 // Open
	why   Rejected

	seen    []outcome
	flying  map[int64]uint64 // by fifteenths of the slow limit since the era began
	overdue uint64
	run     uint64
	told    bool // MetricsOnly
	share   uint64

	trials   map[uint32]int64 // deadlines
	nextID   uint32
	won      uint16
	streak   int
	closedAt int64
	lastOpen int64
	opened   uint64
	events   []Event
}

type outcome struct {
	at           int64
	failed, slow bool
}

// held is a permit as the model has it.
type held struct {
	era   int // 0: ends nothing
	at    int64
	epoch int64
	trial uint32
	begun bool
}

func (m *model) counting() bool {
	return m.state == Closed || m.state == Ramping || m.state == MetricsOnly
}

func (m *model) begin(to State, now int64) {
	m.era++
	m.state, m.began, m.seen, m.flying, m.overdue, m.run, m.told, m.share = to, now, nil, map[int64]uint64{}, 0, 0, false, 0
	m.trials, m.nextID, m.won = map[uint32]int64{}, 0, 0
}

func (m *model) note(ev Event) { m.events = append(m.events, ev) }

// window is the outcomes that rates are taken over.
func (m *model) window(now int64) []outcome {
	if m.set.within == 0 {
		return m.seen[max(0, len(m.seen)-int(m.set.window)):]
	}
	bucket := func(at int64) int64 { return (at - m.began) / ((m.set.within + 9) / 10) }
	return slices.DeleteFunc(slices.Clone(m.seen), func(o outcome) bool { return bucket(o.at) <= bucket(now)-10 })
}

func (m *model) epoch(at int64) int64 { return (at - m.began) / ((m.set.slow + 14) / 15) }

// touch is what time alone does.
func (m *model) touch(now int64) {
	if m.state == HalfOpen {
		m.expire(now)
	}
	if !m.counting() {
		return
	}
	if m.state == Ramping && now >= m.began+m.set.ramp {
		m.state = Closed
		m.note(Event{From: Ramping, To: Closed})
	}
	for epoch, n := range m.flying {
		if m.set.slow > 0 && epoch <= m.epoch(now)-16 {
			delete(m.flying, epoch)
			m.overdue += n
			m.seen = append(m.seen, slices.Repeat([]outcome{{at: now, slow: true}}, int(n))...)
		}
	}
	m.judge(now)
}

func (m *model) expire(now int64) {
	late := uint64(0)
	for _, deadline := range m.trials {
		if now >= deadline {
			late++
		}
	}
	if late > 0 {
		m.open(RuleHanging, late, uint64(len(m.trials)), now)
	}
}

func (m *model) counts(now int64) (c counts) {
	for _, o := range m.window(now) {
		c.total++
		kind := mark(0)
		if o.failed {
			kind |= failed
		}
		if o.slow {
			kind |= slow
		}
		c.marks[kind]++
	}
	c.marks[0] = 0
	return c
}

func (m *model) judge(now int64) {
	c := m.counts(now)
	reached := func(n uint64, rate float32, least uint16) bool {
		permille := uint64(float64(rate)*1000 + 0.5)
		return n > 0 && permille > 0 && c.total >= uint64(least) && n*1000 >= permille*c.total
	}
	hanging := RuleSlowRate
	if m.overdue*2 >= c.slows() {
		hanging = RuleHanging
	}
	switch {
	case c.failures() == 0 && c.slows() == 0:
	case m.set.consecutive > 0 && m.run >= uint64(m.set.consecutive):
		m.broken(RuleConsecutive, m.run, m.run, now)
	case reached(c.failures(), m.set.failRate, m.set.failMin):
		m.broken(RuleFailureRate, c.failures(), c.total, now)
	case reached(c.slows(), m.set.slowRate, m.set.slowMin):
		m.broken(hanging, c.slows(), c.total, now)
	}
}

func (m *model) broken(rule Rule, count, of uint64, now int64) {
	if m.state == MetricsOnly {
		if !m.told {
			m.note(Event{From: MetricsOnly, To: MetricsOnly, Rule: rule, Count: count, Of: of})
		}
		m.told = true
		return
	}
	if now-m.closedAt >= m.lastOpen {
		m.streak = 0
	}
	m.open(rule, count, of, now)
}

func (m *model) open(rule Rule, count, of uint64, now int64) {
	m.note(Event{From: m.state, To: Open, Rule: rule, Count: count, Of: of})
	m.lastOpen = m.set.openFor
	for range m.streak {
		m.lastOpen = min(m.lastOpen*2, m.set.maxOpen)
	}
	m.streak++
	m.opened++
	m.begin(Open, now)
	m.until = now + m.lastOpen
	m.why = Rejected{State: Open, Rule: rule, Count: count, Of: of}
}

// allow tells what a call gets. looked is whether the machine reads a clock for it.
func (m *model) allow(now int64, looked bool) (h held, ok bool) {
	if looked {
		m.touch(now)
	}
	switch m.state {
	case ForcedClosed:
		return held{}, true
	case ForcedOpen:
		return held{}, false
	case Open:
		if now < m.until {
			return held{}, false
		}
		m.note(Event{From: Open, To: HalfOpen})
		m.begin(HalfOpen, now)
	case Ramping:
		weight := max(uint64(float64(now-m.began)/float64(m.set.ramp)*(1<<20)), 1<<20/10+1)
		before := m.share / (1 << 20)
		if m.share += weight; m.share/(1<<20) == before {
			return held{}, false
		}
	}
	h = held{era: m.era, at: now}
	if m.state == HalfOpen {
		if len(m.trials) >= int(m.set.trials) {
			return held{}, false
		}
		m.nextID++
		h.trial = m.nextID
		m.trials[h.trial] = now + m.set.trialTimeout
	} else if m.set.slow > 0 {
		h.epoch = m.epoch(now)
		m.flying[h.epoch]++
	}
	return h, true
}

func (m *model) settle(h held, o Outcome, now int64, looked bool) {
	switch {
	case h.era != m.era:
	case h.trial > 0:
		m.settleTrial(h, o, now)
	default:
		if looked {
			if m.touch(now); h.era != m.era {
				return
			}
		}
		counted := m.set.slow > 0 && !h.begun
		if counted && h.epoch <= m.epoch(now)-16 {
			m.settleOverdue(o, now)
			return
		}
		if counted && m.flying[h.epoch] == 0 {
			return
		} else if counted {
			m.flying[h.epoch]--
		}
		m.count(o, counted && now-h.at > m.set.slow, now)
	}
}

func (m *model) count(o Outcome, slow bool, now int64) {
	if o == Neutral {
		return
	}
	m.seen = append(m.seen, outcome{now, o != Success, slow})
	if m.run++; o == Success {
		m.run = 0
	}
	m.verdict(o, now)
}

func (m *model) verdict(o Outcome, now int64) {
	if o == Refused {
		m.broken(RuleRefused, 1, 1, now)
		return
	}
	m.judge(now)
}

func (m *model) settleOverdue(o Outcome, now int64) {
	if m.overdue > 0 {
		m.overdue--
	}
	if o != Failure && o != Refused {
		return
	}
	window := m.window(now)
	for i := range window {
		if last := &m.seen[len(m.seen)-1-i]; last.slow && !last.failed {
			last.failed = true
			m.run++
			break
		}
	}
	m.verdict(o, now)
}

func (m *model) settleTrial(h held, o Outcome, now int64) {
	m.touch(now)
	if _, there := m.trials[h.trial]; h.era != m.era || !there {
		return
	}
	delete(m.trials, h.trial)
	switch {
	case o == Neutral:
	case o != Success || m.set.slowRate > 0 && now-h.at > m.set.slow:
		m.open(RuleTrial, 1, 1, now)
	default:
		if m.won++; m.won == m.set.successes {
			m.closedAt = now
			m.begin(Closed, now)
			if m.set.ramp > 0 {
				m.state = Ramping
			}
			m.note(Event{From: HalfOpen, To: m.state})
		}
	}
}

func (m *model) answered(h held, now int64) held {
	switch {
	case h.era == 0 || h.begun || h.trial == 0 && m.set.slow == 0:
		return h
	case h.era != m.era:
		return held{}
	case h.trial == 0 && now-h.at <= m.set.slow && m.flying[h.epoch] > 0:
		m.flying[h.epoch]--
		h.begun = true
		return h
	}
	m.settle(h, Success, now, true)
	return held{}
}

func (m *model) report(o Outcome, now int64) {
	if o == Neutral {
		return
	}
	m.touch(now)
	switch {
	case m.counting():
		m.count(o, false, now)
	case m.state == HalfOpen && o != Success:
		m.open(RuleTrial, 1, 1, now)
	}
}

func (m *model) byHand(to State, now int64) {
	if m.state != to {
		m.note(Event{From: m.state, To: to, Rule: RuleByHand})
	}
	m.streak = 0
	m.begin(to, now)
	m.why = Rejected{State: to, Rule: RuleByHand}
}
