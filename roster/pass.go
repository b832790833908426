package roster

import (
	"context"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
)

// pass is what a pick has of the guards of its instance: the permit of the breaker, and a slot of the bulkhead.
type pass struct {
	permit breaker.Permit
	slot   bulkhead.Slot
}

// back gives it back unused.
func (p pass) back() {
	p.permit.Settle(breaker.Neutral)
	p.slot.Forget()
}

// admit asks the guards for a pick; false if another instance is to be picked.
func (e *entry) admit(r *Roster, not *Excluded) (pass, bool) {
	permit, ok := e.permit(r, not)
	if !ok {
		return pass{}, false
	}
	return e.room(r, not, permit)
}

// permit asks the breaker. Who is kept, or may not fail, is picked without its permit too.
func (e *entry) permit(r *Roster, not *Excluded) (breaker.Permit, bool) {
	b := e.m.breaker(r)
	if b == nil || e.free {
		return breaker.Permit{}, true
	}
	p, err := b.Allow()
	switch {
	case err != nil:
		return breaker.Permit{}, e.kept
	case not == nil || !not.Waits:
		return p, true
	case !p.Trial():
		return p.Answered(), true
	case e.m.hung.Load():
		p.Settle(breaker.Neutral)
		return breaker.Permit{}, e.kept
	}
	return p, true
}

// room takes a slot for a pick that has its permit. What waits for its answer takes none: it would hold it for as long.
func (e *entry) room(r *Roster, not *Excluded, permit breaker.Permit) (pass, bool) {
	p := pass{permit: permit}
	if r.config.Bulkhead == nil || not != nil && not.Waits {
		return p, true
	}
	slot, err := e.m.bulkhead(r).Acquire(context.Background()) // which doesn't wait
	if err != nil {
		p.back()
		return pass{}, false
	}
	p.slot = slot
	return p, true
}

// admits tells whether it may be picked as far as its guards are concerned.
func (e *entry) admits() bool {
	b := e.m.guard.Load()
	return (e.free || e.kept || b == nil || b.Admits()) && e.roomy()
}

func (e *entry) roomy() bool {
	b := e.m.bulk.Load()
	return b == nil || b.Admits()
}

// bulkhead returns the member's, which is made with its first pick. There are some.
func (m *member) bulkhead(r *Roster) *bulkhead.Bulkhead {
	if b := m.bulk.Load(); b != nil {
		return b
	}
	c := *r.config.Bulkhead
	c.Name, c.Wait = m.first.Key.String(), 0
	if c.SlowLimit == 0 {
		c.SlowLimit = r.rules.SlowLimit
	}
	m.bulk.CompareAndSwap(nil, bulkhead.New(c))
	return m.bulk.Load()
}
