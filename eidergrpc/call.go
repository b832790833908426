package eidergrpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/internal/tries"
	"github.com/eiderhq/eider/roster"
)

// call is one call of the user's, over all its tries. It is its own context, by which the picker finds it, so that a
// pick allocates nothing.
//
// A try goes
//
//	unpicked ──roster.Take──► waiting ──its connection is ready──► out ──Done──► unpicked
//	    ▲                        └────its connection failed───────────────────────┘
//
// and the next one begins in the same place, whoever wants it: gRPC itself, which repeats a stream that was never
// opened, or that the peer declared unprocessed for the first time; or [client.unary] and [stream], which repeat what
// gRPC doesn't.
type call struct {
	context.Context // the caller's
	cl              *client
	method          string
	done            func(balancer.DoneInfo)  // finished, bound once
	streams         bool                     // it isn't unary
	spares          bool                     // the next call of its kind can be given up while it hangs: no trial with this one
	waits           bool                     // it is meant to wait for its answer
	bare            bool                     // the caller sends no metadata of its own: the instance's stands in its place
	to              atomic.Pointer[instance] // the one that was picked last

	mu     sync.Mutex // gRPC's goroutines and the caller's take turns; this makes it certain
	choice roster.Choice
	in     *instance
	phase  phase
	began  time.Time // the try
	opened bool      // a stream of it is open: a pick counts as written when it is handed out
	flt    *fault    // why the last try failed; nil: it didn't, or what follows is allowed for already
	left   string    // what the last try came to nothing of, for the Meter
	not    roster.Excluded
	tried  tries.List
	why    error
	span   *span

	pass   gate.Pass
	asked  bool
	lost   bool      // nobody but gRPC knows of its end
	answer bool      // the last try has had one, if only a status
	failed bool      // a try has shown that its instance fails
	yields bool      // the last one's instance is on its way out, so that it shows nothing of the service
	first  time.Time // it was asked for

	cancel  func()      // ends the try, should it be a trial; nil: it isn't to be one
	timer   *time.Timer // of the trial
	overdue bool        // it has run out
}

type phase uint8

const (
	unpicked phase = iota
	waiting
	out
	undecided // gRPC has said Done, and not yet of what: see finished
)

type callKey struct{}

// Value is how the picker finds the call, and gRPC what it sends with it.
func (c *call) Value(key any) any {
	switch key {
	case callKey{}:
		return c
	case c.cl.metaKey:
		if in := c.to.Load(); c.bare && in != nil {
			return in.sent
		}
	}
	return c.Context.Value(key)
}

// keyOfMetadata finds out under which key gRPC keeps outgoing metadata in a context. A call is a context already, and
// so needn't be wrapped in another one, and its metadata be copied and merged by gRPC, for the two pairs that are the
// same in every call to an instance.
func keyOfMetadata() any {
	probe := &asked{Context: context.Background()}
	metadata.FromOutgoingContext(probe)
	return probe.key
}

type asked struct {
	context.Context
	key any
}

func (a *asked) Value(key any) any {
	a.key = key
	return nil
}

func (cl *client) newCall(ctx context.Context, method string, streams bool) *call {
	now := time.Now()
	cl.budget.Attempt(now)
	var p *span
	if cl.set.TracerProvider != nil || cl.set.Propagator != nil {
		ctx, p = cl.traced(ctx, method)
	}
	c := &call{span: p, not: spared, Context: ctx, cl: cl, method: method, streams: streams, waits: streams || names(cl.waiting, method), began: now}
	c.done = c.finished
	c.bare = cl.metaKey != nil && ctx.Value(cl.metaKey) == nil
	return c
}

// spared has calls spared the trials that the registry asks for, as far as may be: a try can be given up for another while
// it hangs only where trying says so.
var spared = roster.Excluded{Unrepeatable: true}

// pick is the picker's: it returns somebody whose connection is ready, has gRPC wait for one that is being made, and
// looks elsewhere when it fails.
func (c *call) pick(p *picker, ctx context.Context) (balancer.PickResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.phase == undecided { // gRPC repeats by itself only what wasn't processed
			c.fail(c.newFault(errUnprocessed, GoAway, anybody, roster.Neutral))
		}
		if c.phase == unpicked {
			if err := c.take(p); err != nil {
				return balancer.PickResult{}, err
			}
		}
		state := c.in.state.Load() // looked at first: a connection that has taken longer than the trial may is ready too late
		if err := c.pass.Late(); err != nil {
			return balancer.PickResult{}, c.late(err)
		}
		switch state {
		case ready:
			c.phase = out
			c.time()
			if c.opened || !c.streams {
				c.choice.Wrote() // see docs/decisions/0010: from here the SubConn is the fence
				c.pass.Wrote()
			}
			if c.bare && ctx.Value(c.cl.metaKey) == nil { // else a stats handler has put some between the call and gRPC
				c.to.Store(c.in)
				return balancer.PickResult{SubConn: c.in.sub, Done: c.done}, nil
			}
			return balancer.PickResult{SubConn: c.in.sub, Done: c.done, Metadata: c.in.meta}, nil
		case failed:
			c.fail(c.judgeDial(c.in.failure()))
		case retired:
			c.fail(c.newFault(errRetired, GoAway, anybody, roster.Neutral))
		default:
			if c.in.sub == nil {
				c.fail(c.newFault(errors.New("has no port named "+c.in.p.to.port+": it must be registered in Ports"), NoPort, anybody, roster.Neutral))
				continue
			}
			c.in.connect()
			return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
		}
	}
}

var (
	errRetired     = errors.New("the instance has been let go of")
	errUnprocessed = errors.New("the stream ended unprocessed")
)

// take begins a try: it picks, if the one before allows it.
func (c *call) take(p *picker) error {
	flt := c.flt
	if flt != nil {
		if why := c.next(flt); why != nil {
			return c.refuse(flt, why)
		}
	}
	if err := c.ask(p); err != nil {
		return err
	}
	trial := c.pass.Trial()              // of the whole service: what comes of one that hung says nothing of the others
	c.not.Unrepeatable = c.cancel == nil // it has no bound but the call's own deadline, so one that hangs isn't sent again
	c.not.NoTrial = c.cancel == nil && c.spares || trial
	c.not.Waits = c.waits
	choice, err := p.roster.Take(c.Context, &c.not)
	if err != nil && flt != nil && flt.fresh && (eider.KindOf(err) == eider.NoInstance || errors.Is(err, breaker.ErrRejected)) {
		// Nobody else is there, and it was a connection that failed, not the instance: it gets a new one.
		choice, err = p.roster.Take(c.Context, &roster.Excluded{NoTrial: true, Waits: c.waits})
	}
	if err != nil {
		if flt == nil {
			c.why = err
			c.unasked(breaker.Neutral) // nobody has been called: not even that all have left says that the service fails
			return err
		}
		if eider.KindOf(err) != eider.NoInstance {
			return c.refuse(flt, err) // breakers reject: it says whose and until when
		}
		return c.refuse(flt, tries.ErrAlone)
	}
	c.flt, c.why = nil, nil
	c.choice, c.phase, c.began = choice, waiting, time.Now()
	c.in = choice.Companion().(*instance)
	p.counts.Tried(c.left)
	c.span.try(choice.Instance(), choice.Trial())
	return nil
}

// next counts a failed try; the error says why there is no further one.
func (c *call) next(flt *fault) error {
	switch {
	case c.tried.Spent(c.cl.tries()):
		return tries.ErrSpent
	case !c.mayGoOn(flt):
		return errTrial
	case flt.costs && !flt.trial && !c.cl.budget.Allow(time.Now()):
		return tries.ErrBudget
	}
	return nil
}

// refuse ends the picking. What a dial failed of is no status of the call's: a call that waits for ready begins anew
// with the next picker. Anything else ends it with the status it has had.
func (c *call) refuse(flt *fault, why error) error {
	c.why = c.tried.End(why)
	if !flt.status {
		c.unasked(c.shown(c.why))
		c.flt, c.not, c.tried = nil, spared, tries.List{}
		return c.why
	}
	return status.Error(status.Code(flt.Err), c.why.Error())
}

// fail ends a try that came to nothing, before or after it was handed out.
func (c *call) fail(flt *fault) {
	c.phase, c.flt, c.left = unpicked, flt, flt.cause.String()
	rec := c.choice.Instance()
	c.lesson(flt.outcome)
	c.choice.Done(flt.outcome)
	c.not.Add(rec.Incarnation)
	c.tried.Add(flt.Failed, flt.cause == Refused || flt.trial, c.cl.tries())
	c.cl.counts[flt.cause].Add(1)
	c.span.fault(flt)
}

// finished is gRPC's word that a try has ended.
func (c *call) finished(info balancer.DoneInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != out {
		return
	}
	c.to.Store(nil) // nobody is to copy it into the next try
	if said := info.Trailer[keyLeaving]; len(said) == 1 {
		c.leaving(said[0])
	}
	if c.lost && info.Err == nil && !info.BytesReceived {
		info.Err = status.Error(codes.Unavailable, saysUnwritten) // whoever reads on isn't heard
	}
	if info.Err == nil && info.BytesSent && !info.BytesReceived {
		// The stream was found broken by a write, and what broke it comes with the next read. Nobody has answered.
		c.phase = undecided
		return
	}
	if c.lost {
		defer func() { c.settle(info.Err) }()
	}
	if flt := c.judge(info); flt != nil {
		c.fail(flt)
		return
	}
	c.phase = unpicked
	switch {
	case !info.BytesSent: // the connection ended between the pick and the stream; gRPC picks again
		c.left = Unopened.String()
		c.choice.Done(roster.Neutral)
	default:
		o := c.judgeAnswer(info.Err)
		c.lesson(o)
		c.choice.Done(o)
	}
}

// leaving takes the word of an instance, in band, that it is leaving.
func (c *call) leaving(text string) {
	if in, err := eider.ParseIncarnation(text); err == nil {
		c.choice.Leaving(in)
	}
}

// ended takes the error that gRPC has handed out, or nil: a pick that it has given up waiting for is given back.
func (c *call) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.phase == waiting, c.phase == undecided && (err == nil || err == io.EOF):
		c.phase = unpicked
		c.choice.Done(roster.Neutral)
	case c.phase == undecided:
		c.fail(c.judge(balancer.DoneInfo{Err: err, BytesSent: true}))
	}
}

// unclear tells whether gRPC has said Done and hasn't shown yet of what.
func (c *call) unclear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase == undecided
}

// wrote tells that the stream is open.
func (c *call) wrote() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = true
	if c.phase == out {
		c.choice.Wrote()
		c.pass.Wrote()
	}
}

// answered takes the header of an answer.
func (c *call) answered(said []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != out {
		return
	}
	c.choice.Answered()
	c.pass = c.pass.Answered()
	if len(said) == 1 {
		c.leaving(said[0])
	}
}

// again tells whether the call may be tried once more after an error that gRPC has handed out.
func (c *call) again(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	flt := c.flt
	switch {
	case flt == nil || c.why != nil: // no try has failed, or the picker has said the last word
		return false
	case c.Context.Err() != nil || status.Code(err) == codes.Canceled:
		return false
	case flt.allows == nobody:
		c.why = tries.ErrFinal
	case flt.allows == repeatable && !c.cl.mayRepeat(c.method):
		c.why = errNotRepeatable
	case !c.mayGoOn(flt):
		c.why = errTrial
	case c.tried.Spent(c.cl.tries()):
		c.why = tries.ErrSpent
	}
	return c.why == nil
}

// explain returns the error that the user gets: gRPC's own if one try was all there was, else one that names every try.
func (c *call) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, _ := status.FromError(err)
	switch {
	case c.why == nil, errors.Is(c.why, tries.ErrFinal) && c.tried.Len() <= 1:
		return err
	case c.flt != nil && c.flt.status:
		if t, ok := c.why.(*tries.Error); ok {
			return &Error{code: st.Code(), Err: t}
		}
		return &Error{code: st.Code(), Err: c.tried.End(c.why)}
	case eider.KindOf(c.why) != eider.Internal || isTries(c.why):
		return &Error{code: st.Code(), Err: c.why}
	}
	return err
}

func isTries(err error) bool {
	_, ok := err.(*tries.Error)
	return ok
}

// giveUp says why no further try is made.
func (c *call) giveUp(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = why
}
