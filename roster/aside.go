package roster

import (
	"cmp"
	"slices"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/balance"
	"github.com/eiderhq/eider/breaker"
)

// Setting aside. Each instance has a breaker in this caller, which says what its calls have shown; the roster says what
// follows for who is picked. A pick takes the permit of the instance's breaker, and is made again if there is none.
//
//	          a rule is broken                its time is over
//	in ──────────────┬─────────► open ───────────────────────────────► half-open: a trial (one pick)
//	▲                │            ▲                                           │
//	│                │            └──failed, slow, or unsettled in 10 s: ─────┤
//	│                │               time doubled                             │
//	└────────────────┼───────────────answered: warmed up like a newcomer──────┘
//	                 │
//	                 ├─► the floor lets it be left out ──► aside: nobody picks it, but for its trial
//	                 └─► it doesn't ─────────────────────► kept: picked as before, without asking its breaker, but for its trial
//
// The floor: refusals leave one instance, failures half of them, together with those that are suspect. When one is in
// again, or another one has come, who is kept is looked at anew: first come, first out. Where calls don't even come back
// within a SlowLimit that somebody has set there is no floor: a failure costs the caller one call, a hang the place that it
// waits in, until none is left. Ten seconds that nobody has thought of may be what a report takes: there is one then.
//
// Each turn of a breaker begins an era of its own, and outcomes of picks from older ones say nothing: twenty calls that
// were in flight when the instance broke are one reason to set it aside, not ten.
//
// An instance that leaves is known to, and one that is held may be stopped at any time: neither is ever counted as
// failing.
const (
	failuresInARow = 2
	asideFirst     = 800 * time.Millisecond // doubles with every failed trial; stretched by up to a quarter, so a second at most
	asideMost      = 24 * time.Second       // half a minute at most, likewise
	trialEnd       = 10 * time.Second       // a trial without an outcome has failed
	slowLimit      = 10 * time.Second       // so long is slow although nobody has given up, and so many times Slow
	slowFold       = 10
	recent         = 10 * time.Second // a success less long ago makes a refusal no news for the registry
	doubtEvery     = time.Second
)

func (c *Config) slow() time.Duration {
	if c.Slow == 0 {
		return time.Second
	}
	return max(c.Slow, 0)
}

// rules are the breakers' own, with the house's defaults for an instance.
func (c *Config) rules() breaker.Config {
	b := c.Breaker
	b.Consecutive = cmp.Or(b.Consecutive, failuresInARow)
	b.OpenFor = cmp.Or(b.OpenFor, asideFirst)
	b.MaxOpen = cmp.Or(b.MaxOpen, max(asideMost, b.OpenFor))
	b.TrialTimeout = cmp.Or(b.TrialTimeout, trialEnd)
	b.SlowLimit = cmp.Or(b.SlowLimit, max(slowLimit, slowFold*c.slow()))
	return b
}

// breaker returns the member's, nil if there are none. It is made with the first pick: a caller that follows thousands of
// instances calls few of them.
func (m *member) breaker(r *Roster) *breaker.Breaker {
	if b := m.guard.Load(); b != nil || r.config.NoBreakers {
		return b
	}
	rules := r.rules
	rules.Name = m.first.Key.String()
	id, nonce := m.id, m.nonce // not m: another member may have the breaker by then
	var b *breaker.Breaker
	rules.OnEvent = func(ev breaker.Event) { r.turned(id, nonce, b, ev) }
	b = breaker.New(rules)
	if m.guard.CompareAndSwap(nil, b) {
		return b
	}
	return m.guard.Load()
}

// turned takes what has become of a breaker.
func (r *Roster) turned(id string, nonce uint64, b *breaker.Breaker, ev breaker.Event) {
	now := r.now()
	r.mu.Lock()
	m, ok := r.find(id)
	if !ok || m.nonce != nonce || m.guard.Load() != b || m.yields() {
		r.mu.Unlock()
		return
	}
	r.judge(m)
	if r.turn(m, ev, now) {
		r.publish(now)
	}
	r.mu.Unlock()
	r.wake()
	if r.config.Breaker.OnEvent != nil {
		r.config.Breaker.OnEvent(ev)
	}
}

// turn tells whether that changes who is picked.
func (r *Roster) turn(m *member, ev breaker.Event, now time.Duration) bool {
	switch ev.To {
	case breaker.Open:
		m.due.Store(int64(ev.At.Add(ev.OpenFor).Sub(r.base)))
		if ev.Rule == breaker.RuleRefused {
			m.refused = true
		}
		if m.opened == 0 {
			r.opens++
			m.opened = r.opens
			m.hung.Store(ev.Rule == breaker.RuleSlowRate || ev.Rule == breaker.RuleHanging)
		}
		m.hangs = ev.Rule == breaker.RuleHanging && r.config.Breaker.SlowLimit > 0
		return true
	case breaker.HalfOpen:
		m.due.Store(0)
	case breaker.Closed, breaker.Ramping:
		if m.opened == 0 {
			return false
		}
		m.opened, m.refused, m.hangs, m.since = 0, false, false, now
		return true
	}
	return false
}

// inherit gives a member the breaker that its incarnation had here before: what is open doesn't close by an absence. One
// that opened only while its instance was leaving or held says nothing.
func (m *member) inherit(from *member) {
	if from.opened == 0 {
		return
	}
	b := from.guard.Load()
	switch b.State() {
	case breaker.Open, breaker.HalfOpen:
		m.guard.Store(b)
		m.due.Store(from.due.Load())
		m.hung.Store(from.hung.Load())
		m.opened, m.refused, m.hangs = from.opened, from.refused, from.hangs
	}
}

// arrange says who is set aside, and tells whether so few would be left that suspects are picked too. Those who are kept
// needn't be counted for that: there are some only where no more than the floor are left.
func (r *Roster) arrange(alternatives int) (suspects bool) {
	sound := 0
	var open []*member
	for _, m := range r.members {
		m.aside = false
		switch {
		case !m.mayFail():
		case m.opened != 0:
			open = append(open, m)
		case m.in.Suspicion == 0:
			sound++
		}
	}
	slices.SortFunc(open, func(a, b *member) int {
		if a.refused != b.refused {
			if a.refused {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.opened, b.opened)
	})
	aside := 0
	for _, m := range open {
		if r.config.NoFloor || m.hangs || balance.MaySetAside(alternatives, aside, m.refused) {
			m.aside = true
			aside++
		}
	}
	return sound < balance.Floor(alternatives)
}

// mayFail tells whether what comes of calls says anything of the instance.
func (m *member) mayFail() bool { return m.born && m.in.Status == eider.Up && !m.yields() }

// learn takes the outcome of a pick. The common case, a success of an instance that is in, locks nothing.
func (c *Choice) learn(o Outcome) {
	m := c.m
	switch o {
	case Success:
		now := c.r.now()
		if t := int64(now/tick) + 1; m.okTick.Load() != t {
			m.okTick.Store(t)
		}
		if c.asked {
			c.r.tried(m)
		}
		c.settle(breaker.Success)
	case Failure, Refusal:
		c.settle(c.r.failed(m, o))
	default:
		c.settle(breaker.Neutral)
	}
}

// tried takes it that a trial of the registry's went well.
func (r *Roster) tried(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.risked = 0
}

// failed takes a failure or a refusal, and returns what it says to the breaker: nothing, if the instance leaves, is held or
// has ended.
func (r *Roster) failed(m *member, o Outcome) breaker.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if has, _ := r.find(m.id); has != m || m.yields() {
		return breaker.Neutral
	}
	if o == Refusal {
		r.doubt(m, r.now())
		return breaker.Refused
	}
	return breaker.Failure
}

// doubt has a refusal told upstream, unless this caller has had a recent success there.
func (r *Roster) doubt(m *member, now time.Duration) {
	if ok := m.okTick.Load(); ok != 0 && now-time.Duration(ok-1)*tick < recent {
		return
	}
	if m.doubted != 0 && now-m.doubted < doubtEvery {
		return
	}
	m.doubted = max(now, 1)
	r.doubts = append(r.doubts, m.in.Departure())
	r.wake()
}
