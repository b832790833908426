package eiderhttp

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/internal/tries"
	"github.com/eiderhq/eider/meter"
	"github.com/eiderhq/eider/retry"
	"github.com/eiderhq/eider/roster"
)

// service is one followed service: who can be called, and how often a call may be tried again.
type service struct {
	t      *Transport
	name   string
	roster *roster.Roster
	gate   *gate.Gate // of the service's whole fleet; nil: none
	budget retry.Budget
	counts *meter.Service // nil: nothing is counted
	warm   atomic.Bool    // a view has come: picks no longer wait

	unrepeatable roster.Excluded // nobody, and no trial
	waiting      roster.Excluded // the same for a request that waits for its answer
	untried      roster.Excluded // nobody, and never a trial
}

// await waits for the first view, within bounds.
func (s *service) await(ctx context.Context) error {
	if s.warm.Load() {
		return nil
	}
	limit := orDefault(s.t.ViewTimeout, 10*time.Second)
	first, cancel := bounded(ctx, limit)
	defer cancel()
	err := s.roster.Await(first)
	if err == nil {
		s.warm.Store(true)
		return nil
	}
	if first.Err() != nil && ctx.Err() == nil {
		err = eider.Errorf(eider.Unavailable, "", "no view of %s came within %v: is the registry running where Registry looks for it? (%w)", s.name, limit, err)
	}
	return err
}

// take picks an instance, bounding the wait for the first view.
func (s *service) take(ctx context.Context, not *roster.Excluded) (roster.Choice, error) {
	if err := s.await(ctx); err != nil {
		return roster.Choice{}, err
	}
	return s.roster.Take(ctx, not)
}

// send sends the request, and elsewhere if that failed in a way that allows it. The first try is all that nearly
// every request needs, so nothing is set up for others before it has failed. It ends the pass.
func (s *service) send(req *http.Request, port string, span *span, waits bool, pass gate.Pass) (*http.Response, error) {
	ctx, now := req.Context(), time.Now()
	if err := ctx.Err(); err != nil {
		pass.Settle(breaker.Neutral)
		return nil, abandon(req, &eider.Error{Kind: eider.Unavailable, Err: err})
	}
	s.budget.Attempt(now)
	choice, err := s.take(ctx, s.first(req, waits, pass))
	if err != nil { // nobody has been called: not even that all have left says that the service fails
		pass.Settle(breaker.Neutral)
		return nil, abandon(req, err)
	}
	if err := pass.Late(); err != nil {
		choice.Done(roster.Neutral)
		return nil, abandon(req, err)
	}
	body := newBody(req)
	span.try(choice.Instance(), choice.Trial())
	s.counts.Tried("")
	if s.t.Hedge > 0 && !pass.Trial() && s.mayHedge(req, &choice, waits) {
		return s.hedged(req, body, port, choice, now, span, pass)
	}
	y, flt := s.begin(req, body, port, choice, now, waits, pass)
	var resp *http.Response
	if flt == nil {
		resp, flt = y.send(req, body, span)
	}
	if flt == nil {
		body.handOver()
		y.keep(pass)
		return resp, nil
	}
	if body == nil {
		body = lentBody(req)
	}
	c := &call{service: s, req: req, body: body, port: port, span: span, pass: pass, begun: now, not: roster.Excluded{Waits: waits}}
	return c.again(flt)
}

// call is a request whose first try has failed.
type call struct {
	*service
	req   *http.Request
	body  *body
	port  string
	span  *span
	not   roster.Excluded // who was tried: another is better, whatever happened
	tried tries.List

	pass   gate.Pass
	begun  time.Time // its first try
	failed bool      // a try has shown that its instance fails
}

// again tries until there is an answer, or a reason to stop.
func (c *call) again(flt *fault) (*http.Response, error) {
	for {
		choice, why := c.next(flt)
		if why != nil {
			return c.end(flt, why)
		}
		flt.discard()
		c.span.try(choice.Instance(), choice.Trial())
		c.counts.Tried(flt.cause.String())
		var y *try
		var resp *http.Response
		if y, flt = c.begin(c.req, c.body, c.port, choice, time.Now(), c.not.Waits, c.pass); flt == nil {
			resp, flt = y.send(c.req, c.body, c.span)
		}
		if flt == nil {
			c.body.handOver()
			y.keep(c.pass)
			return resp, nil
		}
	}
}

// next records a failed try and picks who is tried next; the error says why nobody is.
func (c *call) next(flt *fault) (choice roster.Choice, why error) {
	c.record(flt)
	switch {
	case flt.allows == nobody:
		return choice, tries.ErrFinal
	case flt.allows == repeatable && !c.t.repeatable(c.req):
		return choice, errNotRepeatable
	case !c.mayGoOn(flt):
		return choice, errTrial
	case c.tried.Spent(c.t.tries()):
		return choice, tries.ErrSpent
	case !c.body.rewind():
		return choice, errBody
	case flt.costs && !flt.trial && !c.budget.Allow(time.Now()):
		return choice, tries.ErrBudget
	}
	choice, err := c.take(c.req.Context(), &c.not)
	if err != nil && flt.fresh && (eider.KindOf(err) == eider.NoInstance || errors.Is(err, breaker.ErrRejected)) {
		// Nobody else is there, and it was a connection that failed, not the instance: it gets a new one.
		flt.in.closeIdle()
		choice, err = c.take(c.req.Context(), &roster.Excluded{Unrepeatable: true, Waits: c.not.Waits})
	}
	if err != nil && c.req.Context().Err() == nil && eider.KindOf(err) == eider.NoInstance {
		return choice, tries.ErrAlone
	}
	if err == nil {
		if err = c.pass.Late(); err != nil {
			choice.Done(roster.Neutral)
		}
	}
	return choice, err // the caller has ended, or breakers reject: it says whose and until when
}

// record takes down a failed try; nobody is tried twice.
func (c *call) record(flt *fault) {
	c.tried.Add(flt.Failed, flt.cause == Refused || flt.trial, c.t.tries())
	c.t.counts[flt.cause].Add(1)
	c.span.fault(flt)
	c.failed = c.failed || outcome(flt.outcome) == breaker.Failure && !flt.yields
	c.not.Add(flt.instance.Incarnation)
}

// end gives the caller what there is: an answer that no other instance could better, or an error that names every try.
func (c *call) end(flt *fault, why error) (*http.Response, error) {
	c.body.handOver()
	c.pass.Settle(c.shown(flt))
	if flt.answer != nil {
		c.span.answered(flt.answer)
		c.span.ended(false)
		return flt.answer, nil
	}
	if errors.Is(why, tries.ErrFinal) && c.tried.Len() == 1 {
		return nil, failure(c.req, flt.kind, flt.Failed)
	}
	e := failure(c.req, flt.kind, c.tried.End(why))
	if rejected, ok := errors.AsType[*eider.Error](why); ok {
		e.RetryAfter = rejected.RetryAfter
	}
	return nil, e
}
