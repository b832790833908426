package eiderhttp

import (
	"net/http"
	"time"

	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/roster"
)

// A trial of an instance that is suspect for hanging goes with a request that can be sent again: it is given
// trialSlow × Slow for the answer's header, and then to somebody else, at no cost to tries and budget. It was the
// registry's wish, and not the caller's.
const trialSlow = 3

// first says what the pick of a request's first try has to mind.
func (s *service) first(req *http.Request, waits bool, pass gate.Pass) *roster.Excluded {
	switch {
	case waits:
		return &s.waiting
	case pass.Trial(): // of the whole service: what comes of one that hung says nothing of the others
		return &s.untried
	}
	if s.roster.TrialWaits() && s.t.tries() > 1 && s.t.repeatable(req) && (!hasBody(req) || req.GetBody != nil) {
		return nil
	}
	return &s.unrepeatable
}

// limit is how long the answer's header is waited for; 0 for ever. What can't be sent again gets the time it would
// have had anyway.
func (y *try) limit() time.Duration {
	wait, t := y.in.t.wait, y.in.t
	if short := max(trialSlow*t.slow(), time.Millisecond); y.brief && (wait == 0 || short < wait) {
		return short
	}
	return wait
}
