package roster

import (
	"sync/atomic"

	"github.com/eiderhq/eider/breaker"
)

// What has become of a pick's permit, in Choice.stage. Answered and Done may come at the same time from two goroutines, and
// both are the permit's end, so who is first leaves word for the other:
//
//	owed ──Answered──► answering ──────────► begun: Done settles what is left of it
//	  │                    │  └────────────► told: Answered has settled it; Done reports what failed later
//	  └──Done──► spent     └──Done──► left + outcome, for Answered to settle
const (
	owed uint32 = iota
	answering
	begun
	told
	spent
	left
)

// begin takes the pick out of the calls in flight that its breaker knows of.
func (c *Choice) begin() {
	if c.permit == (breaker.Permit{}) || !atomic.CompareAndSwapUint32(&c.stage, owed, answering) {
		return
	}
	next := begun
	if c.permit = c.permit.Answered(); c.permit == (breaker.Permit{}) {
		next = told
	}
	if !atomic.CompareAndSwapUint32(&c.stage, answering, next) {
		o := breaker.Outcome(atomic.SwapUint32(&c.stage, next) - left)
		c.settle(o)
	}
}

// settle ends the permit, if it hasn't ended.
func (c *Choice) settle(o breaker.Outcome) {
	for {
		switch g := atomic.LoadUint32(&c.stage); g {
		case owed, begun:
			if atomic.CompareAndSwapUint32(&c.stage, g, spent) {
				c.permit.Settle(o)
				return
			}
		case answering:
			if atomic.CompareAndSwapUint32(&c.stage, g, left+uint32(o)) {
				return
			}
		case told:
			if atomic.CompareAndSwapUint32(&c.stage, g, spent) {
				if o != breaker.Success { // that has been said
					c.m.guard.Load().Report(o)
				}
				return
			}
		default:
			return
		}
	}
}
