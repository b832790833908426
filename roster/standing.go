package roster

import (
	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
)

// Standing is what this caller makes of an instance.
type Standing struct {
	eider.Key
	Incarnation eider.Incarnation
	Breaker     breaker.Snapshot
	Aside       bool // it isn't picked, but for trials: its breaker is open
	Kept        bool // it is picked although its breaker is open, for the floor allows to leave out no more
}

// Standings returns those of all instances that were picked, ordered by id: for pages and metrics.
func (r *Roster) Standings() []Standing {
	var all []Standing
	var guards []*breaker.Breaker
	r.mu.Lock()
	for _, m := range r.members {
		if b := m.guard.Load(); b != nil {
			guards = append(guards, b)
			all = append(all, Standing{Key: m.in.Key, Incarnation: m.in.Incarnation,
				Aside: m.aside, Kept: m.opened != 0 && !m.aside && m.mayFail()})
		}
	}
	r.mu.Unlock()
	for i, b := range guards { // not under the lock, which its events take
		all[i].Breaker = b.Snapshot()
	}
	return all
}
