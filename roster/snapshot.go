package roster

import (
	"math/rand/v2"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/balance"
)

// An entry is one instance as a snapshot has it.
type entry struct {
	m     *member
	in    *eider.Instance
	since time.Duration
}

// Load and Since are what balance asks.
func (e *entry) Load() int            { return int(e.m.word.Load() & inFlight) }
func (e *entry) Since() time.Duration { return e.since }

// The tiers of a snapshot: a pick comes from the first that has somebody for this request.
const (
	open     = iota // UP, and unsuspected unless too few are
	doubted         // UP, and suspect
	aside           // UP, and set aside
	lastOnes        // leaving or held, while there is nobody else
	tiers
)

// A snapshot is who may be picked, at one moment: immutable, replaced as a whole. Calls in flight,
// leaving marks and trials live in the members that it points to.
type snapshot struct {
	service   string
	tier      [tiers]balance.Set[*entry]
	view      *eider.View // as this caller knows it
	renounced []string    // ids in view that are leaving or held, and left alone
	ended     *ending     // how the last one ended, nil if that isn't known
	closed    bool
}

// build arranges who may be picked. Who leaves or is held while there is an alternative is in no tier.
func (r *Roster) build(now time.Duration) *snapshot {
	s := &snapshot{service: r.service, view: r.merged(), ended: r.last}
	alternatives, sound, known := r.count()
	both := 2*sound < alternatives
	entries := make([]entry, 0, len(r.members))
	in := [tiers][]*entry{open: make([]*entry, 0, len(r.members))}
	for _, m := range r.members {
		tier := tiers
		switch {
		case m.marked || m.yields() && alternatives > 0:
			if m.leaves() || m.in.Hold != nil { // else it was, and is DOWN now
				s.renounced = append(s.renounced, m.id)
			}
		case !m.born:
		case m.yields():
			if m.lastOne() {
				tier = lastOnes
			}
		case m.in.Status != eider.Up:
		case m.in.Suspicion != 0 && !both:
			tier = doubted
		case m.trialAt.Load() != 0:
			tier = aside
		default:
			tier = open
		}
		if tier < tiers {
			entries = append(entries, entry{m, m.in, m.since})
			in[tier] = append(in[tier], &entries[len(entries)-1])
		}
	}
	zone := balance.Zone[*entry]{Known: known}
	if r.zone != "" {
		zone.Own = func(e *entry) bool { return e.in.Zone == r.zone }
	}
	for i := range in {
		s.tier[i] = balance.NewSet(in[i], zone, balance.Ramp{}, now)
	}
	return s
}

// count returns how many are UP, not leaving and not held, suspect or not: whoever leaves or is held has them as an
// alternative; how many of those are unsuspected, and how many are in the caller's zone.
func (r *Roster) count() (alternatives, sound, near int) {
	for _, m := range r.members {
		if !m.born || m.in.Status != eider.Up || m.yields() {
			continue
		}
		alternatives++
		if m.in.Suspicion == 0 {
			sound++
		}
		if r.zone != "" && m.in.Zone == r.zone {
			near++
		}
	}
	return alternatives, sound, near
}

// choose picks an entry, nil if there is nobody for this request; end is not 0 if it is a trial.
func (s *snapshot) choose(r *Roster, not *Excluded) (e *entry, end int64) {
	first := &s.tier[open]
	var now time.Duration
	if _, warming := first.Warming(); warming {
		now = r.now()
	}
	if not.Len() == 0 {
		if s.tier[aside].Len() > 0 {
			if e, end = s.trial(r.now(), nil); e != nil {
				return e, end
			}
		}
		if e, ok := first.Pick(rand.Uint64(), now, nil); ok {
			return e, 0
		}
	}
	return s.chooseFrom(r.now(), not)
}

// chooseFrom is choose for requests that leave some out, and for bad days.
func (s *snapshot) chooseFrom(now time.Duration, not *Excluded) (*entry, int64) {
	skip := func(e *entry) bool { return not.has(e.m.nonce) }
	if e, end := s.trial(now, not); e != nil {
		return e, end
	}
	for i := range s.tier {
		if e, ok := s.tier[i].Pick(rand.Uint64(), now, skip); ok {
			return e, 0
		}
	}
	return nil, 0
}

// trial grants the trial of one whose time aside is over.
func (s *snapshot) trial(now time.Duration, not *Excluded) (*entry, int64) {
	for _, e := range s.tier[aside].All() {
		if not.has(e.m.nonce) {
			continue
		}
		if end, ok := e.m.tryAgain(now); ok {
			return e, end
		}
	}
	return nil, 0
}
