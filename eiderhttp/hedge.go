package eiderhttp

import (
	"net/http"
	"sync"
	"time"

	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/roster"
)

// mayHedge tells whether a request may be out at two instances at a time. A trial isn't hedged: the registry wants to
// know what comes of it, and gives it a bound of its own.
func (s *service) mayHedge(req *http.Request, choice *roster.Choice, waits bool) bool {
	return !waits && !choice.Trial() && s.t.tries() > 1 && (!hasBody(req) || req.GetBody != nil) && s.t.repeatable(req)
}

// race is a request that is out at one instance, or at two. The first answer ends it; a try that comes in later is of no
// use to anybody, and clears up after itself.
type race struct {
	in   chan result // has room for all
	mu   sync.Mutex
	over bool
}

// result is what has come of one try.
type result struct {
	y    *try
	resp *http.Response
	flt  *fault
}

// run sends a try. It tells no span: two may come in at once, and one is told.
func (r *race) run(y *try, req *http.Request, body *body) {
	resp, flt := y.send(req, body, nil)
	r.mu.Lock()
	late := r.over
	r.over = late || flt == nil
	if !late {
		r.in <- result{y, resp, flt}
	}
	r.mu.Unlock()
	switch {
	case !late:
	case flt == nil:
		resp.Body.Close()
	default:
		flt.discard()
	}
}

// hedged sends a request to the instance chosen and, if the answer is long in coming, to another one as well. What fails
// while the other is out costs nothing but a try.
func (s *service) hedged(req *http.Request, body *body, port string, choice roster.Choice, now time.Time, span *span, pass gate.Pass) (*http.Response, error) {
	first, flt := s.begin(req, body, port, choice, now, false, pass)
	c := &call{service: s, req: req, body: body, port: port, span: span, pass: pass, begun: now}
	if body == nil {
		c.body = lentBody(req)
	}
	if flt != nil {
		return c.again(flt)
	}
	r := &race{in: make(chan result, 2)}
	go r.run(first, req, body)
	late := time.NewTimer(s.t.Hedge)
	defer late.Stop()
	out := []*try{first}
	for running := 1; ; {
		select {
		case <-late.C:
			if second, body := c.second(first); second != nil {
				out, running = append(out, second), running+1
				go r.run(second, req, body)
			}
		case got := <-r.in:
			running--
			switch {
			case got.flt == nil:
				return c.won(got, out), nil
			case running == 0:
				return c.again(got.flt)
			}
			c.record(got.flt)
			got.flt.discard()
		}
	}
}

// second begins the try at another instance, nil if there is to be none.
func (c *call) second(first *try) (*try, *body) {
	if first.callerEnded() != nil {
		return nil, nil
	}
	not := roster.Excluded{Spare: true}
	not.Add(first.choice.Instance().Incarnation)
	choice, err := c.roster.Take(c.req.Context(), &not)
	if err != nil {
		return nil, nil
	}
	body := lentBody(c.req)
	defer body.handOver()
	if !body.rewind() || !c.budget.Allow(time.Now()) {
		choice.Done(roster.Neutral)
		return nil, nil
	}
	c.span.try(choice.Instance(), false)
	c.counts.Tried(hedge)
	y, flt := c.begin(c.req, body, c.port, choice, time.Now(), false, c.pass)
	if flt != nil {
		c.record(flt)
		return nil, nil
	}
	return y, body
}

// hedge is the reason that the meter has for a second try.
const hedge = "hedge"

// won ends the race: nobody waits for the other try any more.
func (c *call) won(got result, out []*try) *http.Response {
	for _, y := range out {
		if y != got.y {
			y.tooLate(errLost)
		}
	}
	c.body.handOver()
	c.span.answered(got.resp)
	if got.y.ended.Load() { // it has no body
		c.span.ended(false)
	} else {
		got.y.span = c.span
	}
	got.y.keep(c.pass)
	return got.resp
}
