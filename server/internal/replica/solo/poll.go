package solo

import (
	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/replica"
)

var _ replica.Poller = (*Registry)(nil)

// Poll counts a poll and reads the view under one lock: a leave is either in the answer, or finds a caller that has
// not seen it.
func (r *Registry) Poll(p replica.Poll) (a replica.Answer, err error) {
	op := "poll " + p.Service
	if err := eider.CheckService(p.Service); err != nil {
		return a, &eider.Error{Op: op, Kind: eider.Invalid, Err: err}
	}
	defer r.mu.Unlock()
	now, err := r.enter(op)
	if err != nil {
		return a, err
	}
	number := r.number(p.Service)
	var effects ledger.Effects
	a.Number, effects, err = r.table.Poll(now, ledger.Polling(p), number)
	r.apply(now, effects)
	if err != nil {
		return replica.Answer{}, err
	}
	v := &eider.View{Service: p.Service, Cursor: eider.Cursor{Run: r.cfg.Run, Number: number}, Complete: r.complete}
	v.Instances, v.Gone = r.table.View(p.Service)
	s := r.services.known[p.Service]
	a.View, a.Exact = v, s == nil || len(s.changed) == 0 && !s.flipped
	return a, nil
}
