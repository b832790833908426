package roster

import (
	"math/rand/v2"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/balance"
)

// Setting aside. An instance that failed is left alone for a while; a breaker will take this place.
//
//	in ──a refusal, or two failures in a row──► aside ──its time is over──► trial (one pick)
//	▲                                           ▲                              │
//	│                                           └──────failed: time doubled────┤
//	└──────────────────────────answered────────────────────────────────────────┘
//
// A trial that says nothing is offered again at once; one that never ends, after [trialEnd]. Each turn
// begins a new round, and outcomes of picks from older rounds say nothing: twenty calls that were in
// flight when the instance broke are one reason to set it aside, not ten.
//
// An instance that leaves is known to, and one that is held may be stopped at any time: neither is ever counted as
// failing.
const (
	failuresInARow = 2
	asideFirst     = time.Second // doubles with every failed trial, jittered down by up to a quarter
	asideMost      = 30 * time.Second
	asideForget    = 30 * time.Second // in again for this long: the next time is asideFirst again
	trialEnd       = 10 * time.Second // a trial without an outcome returns
	recent         = 10 * time.Second // a success less long ago makes a refusal no news for the registry
	doubtEvery     = time.Second
)

// learn takes the outcome of a pick. The common case, a success of an instance that is in, locks nothing.
func (c *Choice) learn(o Outcome) {
	m := c.m
	switch o {
	case Success:
		now := c.r.now()
		if t := int64(now/tick) + 1; m.okTick.Load() != t {
			m.okTick.Store(t)
		}
		if m.fails.Load() != 0 || m.trialAt.Load() != 0 || c.trial == trialAsked {
			c.r.worked(c, now)
		}
	case Failure, Refusal:
		c.r.failed(c, o, c.r.now())
	default:
		if c.trial > 0 {
			m.trialAt.CompareAndSwap(c.trial, int64(c.r.now()))
		}
	}
}

// worked takes a success of an instance that had failed.
func (r *Roster) worked(c *Choice, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := c.m
	if c.round != m.round.Load() {
		return
	}
	m.fails.Store(0)
	m.risked = 0
	if m.trialAt.Load() != 0 {
		m.trialAt.Store(0)
		m.round.Add(1)
		m.restored = now
		r.publish(now)
	}
}

// failed takes a failure or a refusal.
func (r *Roster) failed(c *Choice, o Outcome, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := c.m
	if has, _ := r.find(m.id); has != m || m.yields() {
		return
	}
	if o == Refusal {
		r.doubt(m, now)
	}
	if c.round != m.round.Load() {
		return
	}
	if m.fails.Add(1) < failuresInARow && o == Failure && m.trialAt.Load() == 0 {
		return
	}
	if m.trialAt.Load() == 0 && !r.mayAside(o == Refusal) {
		return // its failures stay counted: it is next when another one is back
	}
	if m.trialAt.Load() == 0 && now-m.restored >= asideForget {
		m.trips = 0
	}
	pause := min(asideFirst<<min(m.trips, 5), asideMost)
	m.trips++
	m.fails.Store(0)
	m.round.Add(1)
	m.trialAt.Store(int64(now + pause - rand.N(pause/4)))
	r.publish(now)
}

// mayAside tells whether one more may be set aside: never all of those who could be picked.
func (r *Roster) mayAside(refused bool) bool {
	n, aside := 0, 0
	for _, m := range r.members {
		if m.in.Status == eider.Up && !m.yields() {
			n++
			if m.trialAt.Load() != 0 {
				aside++
			}
		}
	}
	return balance.MaySetAside(n, aside, refused)
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

// tryAgain grants the trial of one that was set aside: to one pick, by one atomic step.
func (m *member) tryAgain(now time.Duration) (end int64, ok bool) {
	at := m.trialAt.Load()
	if at == 0 || int64(now) < at {
		return 0, false
	}
	end = int64(now + trialEnd)
	return end, m.trialAt.CompareAndSwap(at, end)
}
