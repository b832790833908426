package eidergrpc

import (
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/internal/gate"
	"github.com/eiderhq/eider/meter"
	"github.com/eiderhq/eider/roster"
)

// policy is the balancer's name in service configs.
const policy = "eider"

// gRPC finds a balancing policy by its name in a map of its own and nowhere else (a parsed service config keeps its
// policy in a field that only gRPC writes), and allows writing that map in an init alone. This is the house's one init.
func init() { balancer.Register(policyBuilder{}) }

type policyBuilder struct{}

func (policyBuilder) Name() string { return policy }

func (policyBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &policyOf{cc: cc, instances: map[*instance]struct{}{}}
}

// policyOf is the policy of one channel: a roster, and a SubConn for each incarnation in it.
type policyOf struct {
	cc     balancer.ClientConn
	cl     *client
	to     goal
	roster *roster.Roster
	gate   *gate.Gate     // of the service's whole fleet; nil: none
	counts *meter.Service // nil: nothing is counted
	late   *time.Timer    // the first view hasn't come in time

	mu        sync.Mutex
	instances map[*instance]struct{}
	ready     int // of those
	dialling  int
	viewed    bool
	closed    bool
}

// UpdateClientConnState begins the following, once: a channel has one target.
func (p *policyOf) UpdateClientConnState(s balancer.ClientConnState) error {
	f, ok := s.ResolverState.Attributes.Value(followedKey{}).(*followed)
	if !ok {
		err := errors.New("the policy " + policy + " balances targets of the form eider:///orders alone; make the channel with eidergrpc.NewClient")
		p.cc.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: failing{err}})
		return err
	}
	if p.roster != nil {
		return nil
	}
	p.cl, p.to, p.counts = f.cl, f.to, f.cl.reg.Meter().Service(f.to.service)
	set := &f.cl.set
	if set.Fleet != nil {
		var err error
		if p.gate, err = f.cl.gate(f.to.service).New(); err != nil {
			p.cc.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: failing{err}})
			return err
		}
	}
	p.roster = roster.Config{Companion: p.companion, Applied: p.applied,
		Breaker: set.Breaker, NoBreakers: set.NoBreakers, NoFloor: set.NoFloor, Bulkhead: set.Bulkhead, Slow: set.Slow}.Follow(f.cl.reg, f.to.service)
	p.cl.follows.Store(p)
	if limit := orDefault(f.cl.set.ViewTimeout, 10*time.Second); limit > 0 {
		p.late = time.AfterFunc(limit, func() { p.unviewed(limit) })
	}
	if u := p.roster.View(); u.View == nil && u.Err != nil {
		p.cc.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: failing{u.Err}})
	}
	return nil
}

// applied has gRPC look again at calls that wait for somebody to be there.
func (p *policyOf) applied(*eider.View) {
	p.mu.Lock()
	p.viewed = true
	p.mu.Unlock()
	p.publish()
}

// unviewed fails the calls that have waited for the first view, and those that come before it.
func (p *policyOf) unviewed(limit time.Duration) {
	p.mu.Lock()
	late := !p.viewed && !p.closed
	p.mu.Unlock()
	if !late {
		return
	}
	err := eider.Errorf(eider.Unavailable, "", "no view of %s came within %v: is the registry running where the handle looks for it?", p.to.service, limit)
	p.cc.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: failing{err}})
	p.publish() // a view that came meanwhile is the newer word
}

// publish wakes the calls that wait, and says how the channel is.
func (p *policyOf) publish() {
	p.mu.Lock()
	state := connectivity.Idle
	switch {
	case p.ready > 0:
		state = connectivity.Ready
	case p.dialling > 0:
		state = connectivity.Connecting
	}
	known := p.viewed && !p.closed
	p.mu.Unlock()
	if known {
		p.cc.UpdateState(balancer.State{ConnectivityState: state, Picker: &picker{p.cl, p.roster, p.gate, p.counts}})
	}
}

// ResolverError does nothing: the resolver has none.
func (p *policyOf) ResolverError(error) {}

// UpdateSubConnState isn't called: SubConns have listeners.
func (p *policyOf) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle connects to everybody: grpc.ClientConn.Connect asks for it. Else who is picked is connected to.
func (p *policyOf) ExitIdle() {
	p.mu.Lock()
	all := make([]*instance, 0, len(p.instances))
	for in := range p.instances {
		all = append(all, in)
	}
	p.mu.Unlock()
	for _, in := range all {
		in.connect()
	}
}

// Close ends the following.
func (p *policyOf) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if p.late != nil {
		p.late.Stop()
	}
	if p.roster != nil {
		p.roster.Close()
	}
	p.gate.Close()
}

// failing is the picker while nothing can be picked.
type failing struct{ err error }

func (f failing) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, f.err
}

// picker hands every pick to the roster, which alone knows who may be picked and counts who was. It is the same in
// every state; that there is a new one is how gRPC is told to ask again.
type picker struct {
	cl     *client
	roster *roster.Roster
	gate   *gate.Gate
	counts *meter.Service
}

func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if c, ok := info.Ctx.Value(callKey{}).(*call); ok {
		return c.pick(p, info.Ctx)
	}
	return p.lost(info)
}

// lost picks for a call that can't be found: a stats handler has put a context of its own in its place. From the moment
// that a pick is handed out gRPC sees to its end, for it calls Done whatever happens. Before that it calls nobody: it
// waits for the next picker, or gives up. So what isn't ready is given back at once, and picked anew if gRPC asks again.
func (p *picker) lost(info balancer.PickInfo) (balancer.PickResult, error) {
	c := &call{Context: info.Ctx, cl: p.cl, method: info.FullMethodName, not: spared, waits: true, lost: true} // it may be a stream
	c.done = c.finished
	to, err := c.pick(&picker{p.cl, p.roster, p.gate, nil}, info.Ctx)
	if err != nil {
		c.ended(nil)
		c.unasked(breaker.Neutral)
		return to, err
	}
	p.counts.Tried("") // once for all that were given back
	return to, nil
}
