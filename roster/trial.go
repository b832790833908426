package roster

import (
	"time"

	"github.com/eiderhq/eider/registry"
)

// Trials. An instance at which requests hang is suspect, so nobody picks it, so it can't show that it no longer hangs.
// The registry asks one caller at a time, every few seconds another one, for one request:
//
//	none ──the registry asks──► waiting ──a pick that may take it──► none
//	                               └──3 s, or the instance isn't one to be tried any more──► none
//
// Whether a pick may depends on what it is for. If it still hangs, the request is lost unless it can be sent again, to
// somebody else; so a trial is for those that can. A service that is called by no such request would keep an instance
// suspect for ever, so a caller that has let five trials pass takes the next with any request, and then, as long as that
// is in vain, twice as many.
const (
	trialFor   = 3 * time.Second
	trialRisks = 5
)

// asked is a trial that waits for a pick.
type asked struct {
	*registry.Trial
	until time.Duration
	risk  bool // any request may take it
}

// ask takes the registry's wish. The last one counts.
func (r *Roster) ask(t *registry.Trial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &asked{Trial: t, until: r.now() + trialFor}
	if m, ok := r.find(t.ID); ok && m.nonce == t.Incarnation.Nonce {
		a.risk = m.passed >= trialRisks<<min(m.risked, 16)
		m.passed++
	}
	r.asked.Store(a)
}

// TrialWaits tells whether the registry has asked this caller for a trial that no pick has taken yet.
func (r *Roster) TrialWaits() bool { return r.asked.Load() != nil }

// Trial tells whether this pick is a trial that the registry has asked for: the instance is suspect for hanging, so
// don't wait for long, and be ready to go elsewhere.
func (c *Choice) Trial() bool { return c.asked }

// try makes a pick the trial that waits, if it may be; false if it is to be a usual one.
func (r *Roster) try(s *snapshot, a *asked, not *Excluded) (Choice, bool) {
	if r.now() >= a.until {
		r.asked.CompareAndSwap(a, nil)
		return Choice{}, false
	}
	if not.Len() > 0 || not != nil && (not.NoTrial || not.Unrepeatable && !a.risk) || !r.asked.CompareAndSwap(a, nil) {
		return Choice{}, false
	}
	e := s.hanging(a)
	if e != nil && (not == nil || !not.Unrepeatable) {
		r.repeats(e.m)
	}
	if e == nil {
		return Choice{}, false
	}
	p, ok := e.admit(r, nil) // of one that is open here as well: with the suspicion nobody else gets its trial
	if !ok {
		return Choice{}, false
	}
	if !a.Claim() {
		p.back()
		return Choice{}, false
	}
	if ok, empty := e.m.enter(); !ok {
		p.back()
		if empty {
			r.wake()
		}
		return Choice{}, false
	}
	if not != nil && not.Unrepeatable {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.m.passed = 0
		e.m.risked++
	}
	return Choice{r: r, m: e.m, in: e.in, permit: p.permit, slot: p.slot, asked: true}, true
}

// repeats takes down that somebody came for a trial who can send his request again, whether or not he gets it: nobody
// else needs to be risked.
func (r *Roster) repeats(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.passed = 0
}

// hanging finds who is to be tried, nil if he isn't suspect any more, is leaving, held or gone.
func (s *snapshot) hanging(a *asked) *entry {
	for _, tier := range []int{doubted, open} { // open has the suspect too when most are
		for _, e := range s.tier[tier].All() {
			if e.m.nonce == a.Incarnation.Nonce && e.in.Suspicion != 0 {
				return e
			}
		}
	}
	return nil
}
