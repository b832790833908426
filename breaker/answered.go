package breaker

import "math"

// begun in Permit.trial is a call whose answer has begun.
const begun = math.MaxUint32

// Answered tells that the call's answer has begun, and returns the permit that ends it from now on: however long the
// rest takes, a download, a stream, the call isn't slow. A trial has gone well by then, and so has, but for having
// been slow, a call that was past the limit; what comes later is for [Breaker.Report] then, and the zero Permit is
// returned, which ends nothing.
func (p Permit) Answered() Permit {
	e := p.era
	switch {
	case e == nil || p.trial == begun || p.trial == 0 && !e.timed:
		return p
	case p.trial == 0 && e.b.now()-p.start <= e.b.set.slow && e.fly.out(p.epoch, 0):
		p.trial = begun
		return p
	}
	p.Settle(Success)
	return Permit{}
}

// Trial tells whether the call is a trial.
func (p Permit) Trial() bool { return p.trial != 0 && p.trial != begun }
