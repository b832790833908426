package roster

import (
	"slices"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
)

// Verdicts. The registry is told what the breakers are that aren't closed, for people to see and for it to look for itself:
// by the tender, the newest word of each, however often they have changed meanwhile. Of an instance that leaves or is held
// nothing is said, and what was said is taken back.

// teller is a source that takes verdicts.
type teller interface {
	Verdicts(changed ...eider.Verdict)
}

// judge has the registry told of a member's breaker. Called under the lock.
func (r *Roster) judge(m *member) {
	if !slices.Contains(r.judged, m) {
		r.judged = append(r.judged, m)
	}
}

// judged is of whom the registry is told.
type judged struct {
	key         eider.Key
	incarnation eider.Incarnation
	guard       *breaker.Breaker // nil: nothing is to be said of it
}

// judgements are those that are due. Called under the lock.
func (r *Roster) judgements() (all []judged) {
	for _, m := range r.judged {
		j := judged{m.in.Key, m.in.Incarnation, m.guard.Load()}
		if m.yields() {
			j.guard = nil
		}
		all = append(all, j)
	}
	r.judged = nil
	return all
}

// tellVerdicts tells them. Not under the roster's lock, which the breakers' events take.
func tellVerdicts(src source, all []judged) {
	to, ok := src.(teller)
	if !ok || len(all) == 0 {
		return
	}
	verdicts := make([]eider.Verdict, len(all))
	for i, j := range all {
		verdicts[i] = eider.Verdict{Key: j.key, Incarnation: j.incarnation}
		if j.guard != nil {
			s := j.guard.Snapshot()
			verdicts[i].Breaker = eider.Breaker{State: eider.BreakerState(s.State), Rule: eider.BreakerRule(s.Rule),
				Count: s.Count, Of: s.Of, Since: s.Since, Retry: s.Retry}
		}
	}
	to.Verdicts(verdicts...)
}
