package eiderhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/roster"
)

// The breaker of a service's whole fleet. It is asked for a request, not for a try, and told what has come of the request
// when all tries are over: one instance that fails is the instance's own breaker's, a service that fails wherever it is asked is
// the fleet's.

// gate is the fleet's breaker of a service, nil without one.
func (t *Transport) gate(service string) (*gate.Gate, error) {
	if t.Fleet == nil {
		return nil, nil
	}
	set := *t.Fleet
	if set.Store == nil {
		set.Store = t.Registry.Fleet()
	}
	return gate.Config{Fleet: set, Service: service, Caller: t.Registry.Caller(), Slow: t.slow(), Meter: t.Registry.Meter()}.New()
}

// admit sends a request if the fleet's breaker of its service lets it through. The first list of the service is waited for before,
// so that the wait for the registry is none for the service.
func (s *service) admit(req *http.Request, port string, span *span) (*http.Response, error) {
	waits := s.t.waits(req)
	if s.gate == nil {
		return s.send(req, port, span, waits, gate.Pass{})
	}
	ctx := req.Context()
	err := ctx.Err()
	if err == nil {
		err = s.await(ctx)
	}
	if err != nil {
		return nil, abandon(req, err)
	}
	pass, err := s.gate.Ask(ctx, waits)
	if err != nil {
		return nil, abandon(req, err)
	}
	ended := false
	defer func() {
		if !ended { // somebody's own code has panicked, or ended the goroutine
			pass.Settle(breaker.Failure)
		}
	}()
	resp, err := s.send(req, port, span, waits, pass)
	ended = true
	return resp, err
}

// errTrial says why a trial isn't sent again.
var errTrial = errors.New("it was the one trial that the breaker of the service's callers lets through, and it has been worked for")

// mayGoOn tells whether a request that was lost on its way is still a request at no more than one instance: a trial is sent
// again only where nobody has worked for it or will.
func (c *call) mayGoOn(flt *fault) bool {
	return !c.pass.Trial() || flt.allows == anybody && !flt.costs
}

// keep has the request end with its answer.
func (y *try) keep(pass gate.Pass) {
	if pass == (gate.Pass{}) {
		return
	}
	y.rest = pass
	switch {
	case y.failed:
		y.settle(breaker.Failure)
	case y.ended.Load(): // it has no body
		y.settle(breaker.Success)
	default:
		y.rest = pass.Answered()
	}
}

// settle ends the request that the try has answered.
func (y *try) settle(o breaker.Outcome) {
	if y.rest == (gate.Pass{}) {
		return
	}
	if o == breaker.Failure && y.yields() {
		o = breaker.Neutral
	}
	y.rest.Settle(o)
	y.rest = gate.Pass{}
}

// yields tells whether the instance is on its way out: if it fails, that is no failure of the service.
func (y *try) yields() bool { return y.pass != (gate.Pass{}) && y.choice.Yields() }

// shown is what a request that has no answer has shown of its service: as its tries have of their instances, but for the
// caller's deadline, for which all of them count together.
func (c *call) shown(flt *fault) breaker.Outcome {
	switch {
	case flt.gaveUp == nil && c.failed:
		return breaker.Failure
	case flt.gaveUp == context.DeadlineExceeded && !flt.yields && !c.not.Waits && time.Since(c.begun) >= c.t.slow():
		return breaker.Failure
	}
	return breaker.Neutral
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
