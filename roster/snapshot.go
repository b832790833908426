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
	kept  bool // picked though its breaker is open
	free  bool // picked without asking it
	hangs bool // never picked without asking it
}

// Load and Since are what balance asks.
func (e *entry) Load() int            { return int(e.m.word.Load() & inFlight) }
func (e *entry) Since() time.Duration { return e.since }

// The tiers of a snapshot: a pick comes from the first that has somebody for this request.
const (
	open     = iota // UP, and unsuspected unless too few are
	doubted         // UP, and suspect
	aside           // UP, and set aside: its breaker is open
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
	strict    bool // nobody is picked whose breaker is open
}

// build arranges who may be picked. Who leaves or is held while there is an alternative is in no tier.
func (r *Roster) build(now time.Duration) *snapshot {
	s := &snapshot{service: r.service, view: r.merged(), ended: r.last, strict: r.config.NoFloor}
	alternatives, known := r.count()
	both := r.arrange(alternatives)
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
		case m.aside:
			tier = aside
		default:
			tier = open
		}
		if tier < tiers {
			entries = append(entries, entry{m, m.in, m.since, tier == open && m.opened != 0, tier == lastOnes, m.hangs && tier != lastOnes})
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
// alternative; and how many of those are in the caller's zone.
func (r *Roster) count() (alternatives, near int) {
	for _, m := range r.members {
		if !m.mayFail() {
			continue
		}
		alternatives++
		if r.zone != "" && m.in.Zone == r.zone {
			near++
		}
	}
	return alternatives, near
}

// choose picks an entry and takes what its guards ask for; nil if there is nobody for this request.
func (s *snapshot) choose(r *Roster, not *Excluded) (*entry, pass) {
	if not != nil && not.Spare {
		return s.spare(r, r.now(), not)
	}
	first := &s.tier[open]
	var now time.Duration
	if _, warming := first.Warming(); warming {
		now = r.now()
	}
	if not.Len() == 0 {
		if s.tier[aside].Len() > 0 {
			if e, p := s.trial(r, r.now(), not); e != nil {
				return e, p
			}
		}
		if e, ok := first.Pick(rand.Uint64(), now, nil); ok {
			if p, ok := e.admit(r, not); ok {
				return e, p
			}
		}
	}
	return s.chooseFrom(r, r.now(), not)
}

// asks is how often a tier is asked for somebody else when a guard has rejected the pick: it has just opened, and the
// snapshot doesn't know yet, or somebody else has its trial, or its last slot.
const asks = 4

// chooseFrom is choose for requests that leave some out, and for bad days.
func (s *snapshot) chooseFrom(r *Roster, now time.Duration, not *Excluded) (*entry, pass) {
	if e, p := s.trial(r, now, not); e != nil {
		return e, p
	}
	skip := func(e *entry) bool { return not.has(e.m.nonce) || !e.admits() }
	for i := range s.tier {
		for range asks {
			e, ok := s.tier[i].Pick(rand.Uint64(), now, skip)
			if !ok {
				break
			}
			if p, ok := e.admit(r, not); ok {
				return e, p
			}
		}
	}
	if s.strict {
		return nil, pass{}
	}
	skip = func(e *entry) bool { return not.has(e.m.nonce) || e.hangs || !e.roomy() }
	for i := range s.tier { // whoever is left is better than nobody, if there is room and calls come back from there
		for range asks {
			e, ok := s.tier[i].Pick(rand.Uint64(), now, skip)
			if !ok {
				break
			}
			permit, _ := e.permit(r, not)
			if p, ok := e.room(r, not, permit); ok {
				return e, p
			}
		}
	}
	return nil, pass{}
}

// spare is choose for a pick that a request can do without.
func (s *snapshot) spare(r *Roster, now time.Duration, not *Excluded) (*entry, pass) {
	skip := func(e *entry) bool {
		return not.has(e.m.nonce) || e.kept || e.in.Suspicion != 0 || !e.admits()
	}
	for range asks {
		e, ok := s.tier[open].Pick(rand.Uint64(), now, skip)
		if !ok {
			break
		}
		switch p, ok := e.admit(r, not); {
		case ok && p.permit.Trial(): // its breaker has opened, and the snapshot doesn't know yet
			p.back()
		case ok:
			return e, p
		}
	}
	return nil, pass{}
}

// trial grants the trial of one whose time aside is over: to one pick, by one atomic step.
func (s *snapshot) trial(r *Roster, now time.Duration, not *Excluded) (*entry, pass) {
	for _, e := range s.tier[aside].All() {
		if not.has(e.m.nonce) || int64(now) < e.m.due.Load() || not != nil && not.Waits && e.m.hung.Load() {
			continue
		}
		if b := e.m.guard.Load(); b.Admits() {
			if permit, err := b.Allow(); err == nil {
				if p, ok := e.room(r, not, permit); ok {
					return e, p
				}
			}
		}
	}
	return nil, pass{}
}
