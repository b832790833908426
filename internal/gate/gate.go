// Package gate answers: may this request be sent, as far as the breaker of its service's whole fleet is concerned? It is what
// eiderhttp and eidergrpc have in common around package fleet; what a request has shown is theirs to say.
package gate

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/meter"
)

// Config says of what service a gate is, and who asks it.
type Config struct {
	Fleet   fleet.Config // Key is put before Service
	Service string
	Caller  string        // the process' name, where Fleet has none
	Slow    time.Duration // of an answer, as the breakers of instances have it
	Meter   *meter.Meter  // nil: nothing is counted
}

// Gate is one follower's part in the fleet's breaker of a service, or a breaker that is this caller's alone. A nil Gate lets
// everything through.
type Gate struct {
	fleet   *fleet.Breaker // nil: the caller is alone
	own     *breaker.Breaker
	name    string // own's
	slow    time.Duration
	service string
	counts  *meter.Service
	forget  func()
}

const (
	slowLimit = 10 * time.Second // so long is slow although nobody has given up, and so many times Slow
	slowFold  = 10
)

// Alone is the gate of a caller without a fleet.
func Alone(rules breaker.Config) *Gate {
	return &Gate{own: breaker.New(rules), forget: func() {}}
}

func (c *Config) named() fleet.Config {
	set := c.Fleet
	set.Key += c.Service
	return set
}

// Validate tells what New would.
func (c Config) Validate() error { return c.named().Validate() }

// New makes a gate. It does nothing yet.
func (c Config) New() (*Gate, error) {
	set := c.named()
	if set.Caller == "" && c.Caller != "" { // a process may have several followers, each with its own counts
		set.Caller = c.Caller + "-" + strconv.FormatUint(uint64(rand.Uint32()), 36)
	}
	if set.Local.SlowLimit == 0 {
		set.Local.SlowLimit = max(slowLimit, slowFold*c.Slow)
	}
	set.Local.Name = set.Key + " of this caller"
	g := &Gate{service: c.Service, name: set.Local.Name, slow: c.Slow, counts: c.Meter.Service(c.Service)}
	tell := set.OnEvent
	set.OnEvent = func(ev fleet.Event) {
		if ev.Parted != nil {
			g.counts.Parted()
		}
		if tell != nil {
			tell(ev)
		}
	}
	var err error
	if g.fleet, err = fleet.New(set); err != nil {
		return nil, &eider.Error{Kind: eider.Invalid, Err: err}
	}
	g.own = g.fleet.Local()
	g.counts.Fleet()
	g.forget = c.Meter.State(g.tell)
	return g, nil
}

// tell tells the Meter whether this caller is with the fleet, and what that says.
func (g *Gate) tell(emit func(meter.Sample)) {
	s, parted := g.Snapshot(), 0.0
	if s.Alone {
		parted = 1
	} else {
		emit(meter.Sample{Metric: meter.FleetState, Service: g.service, Label: s.State.String(), Value: 1})
	}
	emit(meter.Sample{Metric: meter.FleetParted, Service: g.service, Value: parted})
}

// Own is this caller's own breaker.
func (g *Gate) Own() *breaker.Breaker { return g.own }

// Closed tells whether it can be forgotten without anybody's noticing: both breakers are closed.
func (g *Gate) Closed() bool {
	if g.own.State() != breaker.Closed {
		return false
	}
	s := g.Snapshot()
	return s.Alone || s.State == breaker.Closed
}

// Snapshot is what this caller knows of the fleet's breaker.
func (g *Gate) Snapshot() fleet.Snapshot {
	if g.fleet == nil {
		return fleet.Snapshot{Alone: true}
	}
	return g.fleet.Snapshot()
}

// Close ends the gate's part in the fleet. Requests go on, each by this caller's own breaker.
func (g *Gate) Close() {
	if g == nil {
		return
	}
	g.forget()
	if g.fleet != nil {
		g.fleet.Close()
	}
}

// Ask lets a request through, or says in an [eider.Error] around a [*breaker.Rejected] why not. One that waits may take as long
// as it likes for its answer.
func (g *Gate) Ask(ctx context.Context, waits bool) (Pass, error) {
	if g == nil {
		return Pass{}, nil
	}
	permit, err := g.allow(ctx)
	switch {
	case err != nil:
		return Pass{}, g.refusal(err)
	case permit == (fleet.Permit{}): // an operator lets everything through, and counts none
		return Pass{}, nil
	case !waits:
		return Pass{g: g, permit: permit}, nil
	case permit.Probes():
		return Pass{g, permit, new(atomic.Bool)}, nil
	}
	return Pass{g: g, permit: permit.Answered()}, nil
}

func (g *Gate) allow(ctx context.Context) (fleet.Permit, error) {
	if g.fleet != nil {
		return g.fleet.Allow(ctx)
	}
	p, err := g.own.Allow()
	return fleet.Own(p), err
}

func (g *Gate) refusal(err error) error {
	e := &eider.Error{Kind: eider.Unavailable, Err: err}
	if r, ok := err.(*breaker.Rejected); ok {
		g.counts.FleetRejected(r.Name != g.name)
		if !r.Retry.IsZero() {
			e.RetryAfter = max(time.Until(r.Retry), 0)
		}
	}
	return e
}

// Pass is one request's. It is a value: pass it on, end it once. The zero Pass is of a request that no gate was asked for.
type Pass struct {
	g      *Gate
	permit fleet.Permit
	ended  *atomic.Bool // of a trial that waits for its answer, which two may end; nil: there is one who does
}

// Trial tells whether the request is a trial: it mustn't be at two instances.
func (p Pass) Trial() bool { return p.permit.Probes() }

// Late is the error of a trial whose time has come to an end before it was sent: it isn't to be, and its pass has ended. Ask
// just before each try.
func (p Pass) Late() error {
	if p.permit.Live() {
		return nil
	}
	return p.g.refusal(p.permit.Late())
}

// Wrote tells that a request is on its way. A trial that is meant to wait for its answer has gone well when it hasn't failed for as
// long as somebody else's answer may take: it may be silent for hours.
func (p Pass) Wrote() {
	if p.ended != nil && p.g.fleet != nil {
		time.AfterFunc(p.g.slow, func() { p.Settle(breaker.Success) })
	}
}

// Answered tells that the answer has begun, and returns the pass that ends the request from now on: however long the rest takes,
// the service isn't slow.
func (p Pass) Answered() Pass {
	if p.ended != nil {
		p.Settle(breaker.Success)
		return p
	}
	p.permit = p.permit.Answered()
	return p
}

// Settle ends the request with what it has shown of the service.
func (p Pass) Settle(o breaker.Outcome) {
	switch {
	case p.ended != nil && p.ended.Swap(true):
	case p.permit != (fleet.Permit{}):
		p.permit.Settle(o)
	case p.g != nil && o != breaker.Success: // that has been said
		p.g.own.Report(o)
	}
}
