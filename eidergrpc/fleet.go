package eidergrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/roster"
)

// The breaker of a service's whole fleet lives with the roster of its channel. It is asked for a call, not for a try, in the
// first pick, and told what has come of the call when all tries are over.

// gate says how the breaker is made. There is one.
func (cl *client) gate(service string) gate.Config {
	set := *cl.set.Fleet
	if set.Store == nil {
		set.Store = cl.reg.Fleet()
	}
	return gate.Config{Fleet: set, Service: service, Caller: cl.reg.Caller(), Slow: cl.slow(), Meter: cl.reg.Meter()}
}

// ask asks for a call, once; it may be picked for if the error is nil. Who waits for ready isn't let wait: what is closed again
// publishes no picker.
func (c *call) ask(p *picker) error {
	if p.gate == nil || c.asked {
		return nil
	}
	pass, err := p.gate.Ask(c.Context, c.waits)
	if err != nil {
		c.why = err
		if gaveUp := c.Context.Err(); gaveUp != nil {
			return status.FromContextError(gaveUp).Err()
		}
		return status.Error(codes.Unavailable, err.Error())
	}
	c.pass, c.asked, c.first, c.failed = pass, true, time.Now(), false
	return nil
}

// late gives a pick back that is too late for the trial that it was to be.
func (c *call) late(err error) error {
	c.pass, c.why, c.phase = gate.Pass{}, err, unpicked
	c.choice.Done(roster.Neutral)
	return status.Error(codes.Unavailable, err.Error())
}

// errTrial says why a trial isn't made again.
var errTrial = errors.New("it was the one trial that the breaker of the service's callers lets through, and it has been worked for")

// mayGoOn tells whether a call that was lost on its way is still a call at no more than one instance: a trial is made
// again only where nobody has worked for it or will.
func (c *call) mayGoOn(flt *fault) bool {
	return !c.pass.Trial() || flt.allows == anybody && !flt.costs
}

// unasked has the call be asked for anew: what it was asked for has come to its end.
func (c *call) unasked(o breaker.Outcome) {
	c.pass.Settle(o)
	c.pass, c.asked = gate.Pass{}, false
}

// settle tells what has come of the call, once.
func (c *call) settle(err error) {
	c.pass.Settle(c.shown(err))
	c.pass = gate.Pass{}
}

// broken ends a call that somebody's own code has broken off, by a panic or otherwise. After its end it does nothing.
func (c *call) broken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass.Settle(breaker.Failure)
	c.pass = gate.Pass{}
}

// shown is what a call has shown of its service: as its tries have of their instances, but for the caller's deadline, for which
// all of them count together.
func (c *call) shown(err error) breaker.Outcome {
	switch gaveUp := c.gaveUp(); {
	case err == nil:
		return breaker.Success
	case gaveUp == nil && c.answer: // a status that is an answer
		return breaker.Success
	case gaveUp == nil && c.failed:
		return breaker.Failure
	case errors.Is(gaveUp, context.DeadlineExceeded) && !c.yields && !c.waits && time.Since(c.first) >= c.cl.slow():
		return breaker.Failure
	}
	return breaker.Neutral
}

// lesson takes what a try that ends has shown, before its pick is done.
func (c *call) lesson(o roster.Outcome) {
	if c.pass == (gate.Pass{}) {
		return
	}
	c.answer = o == roster.Success
	if c.yields = !c.answer && c.choice.Yields(); !c.yields && outcome(o) == breaker.Failure {
		c.failed = true
	}
}

// outcome is a try's in the words of breakers.
func outcome(o roster.Outcome) breaker.Outcome {
	switch o {
	case roster.Success:
		return breaker.Success
	case roster.Neutral:
		return breaker.Neutral
	}
	return breaker.Failure
}
