package eidergrpc

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/roster"
)

// How far the connection to an instance is:
//
//	idle ──picked──► dialling ──► ready ──the connection ends──► idle
//	  ▲                 └──────► failed ──a moment later──────┐
//	  └────────────────────────────────────────────────────────┘
//	any ──let go of──► retired, for good
const (
	idle int32 = iota
	dialling
	ready
	failed
	retired
)

// instance is what this channel has of one incarnation at one address: its SubConn and so its connection, which live
// and die with its membership. It is a roster.Companion.
type instance struct {
	p    *policyOf
	sub  balancer.SubConn // nil: it hasn't got the port, or the channel is being closed
	meta metadata.MD      // sent with each call to it
	sent any              // the same as gRPC keeps it in a context

	state atomic.Int32
	mu    sync.Mutex
	err   error // of the last dial
}

// companion makes what lives beside one incarnation. Nothing is dialled before it is picked: a caller that follows
// thousands of instances calls few of them.
func (p *policyOf) companion(rec eider.Instance) roster.Companion {
	in := &instance{p: p, meta: metadata.MD{
		keyCaller: {p.cl.reg.Caller()},
		keyTo:     {rec.ID + "@" + rec.Incarnation.String()},
	}}
	in.sent = metadata.NewOutgoingContext(context.Background(), in.meta).Value(p.cl.metaKey)
	address, ok := rec.Endpoint(p.to.port)
	if !ok {
		return in
	}
	//lint:ignore SA1019 the deprecation is of several addresses; this is one
	sub, err := p.cc.NewSubConn([]resolver.Address{{Addr: address}}, balancer.NewSubConnOptions{StateListener: in.heard})
	if err != nil { // the channel is being closed
		in.state.Store(retired)
		return in
	}
	in.sub = sub
	p.mu.Lock()
	p.instances[in] = struct{}{}
	p.mu.Unlock()
	return in
}

// heard takes what gRPC says of the connection.
func (in *instance) heard(s balancer.SubConnState) {
	next := idle
	switch s.ConnectivityState {
	case connectivity.Connecting:
		next = dialling
	case connectivity.Ready:
		next = ready
	case connectivity.TransientFailure:
		next = failed
		in.mu.Lock()
		in.err = s.ConnectionError
		in.mu.Unlock()
	case connectivity.Shutdown:
		next = retired
	}
	in.become(next)
	in.p.publish()
}

// become changes the state, and the policy's counts with it. Retired is for good.
func (in *instance) become(next int32) {
	p := in.p
	p.mu.Lock()
	defer p.mu.Unlock()
	was := in.state.Load()
	if was == retired {
		return
	}
	in.state.Store(next)
	count := func(state int32, by int) {
		switch state {
		case ready:
			p.ready += by
		case dialling:
			p.dialling += by
		}
	}
	count(was, -1)
	count(next, 1)
}

// connect dials, once for however many calls wait for it.
func (in *instance) connect() {
	p := in.p
	p.mu.Lock()
	mine := in.sub != nil && in.state.CompareAndSwap(idle, dialling)
	if mine {
		p.dialling++
	}
	p.mu.Unlock()
	if mine {
		in.sub.Connect()
	}
}

func (in *instance) failure() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// LetGo shuts the SubConn down. When it returns, no stream can begin on it any more: gRPC's transport is draining, or
// closed if it was idle. Streams in flight finish, the last one closes the connection.
func (in *instance) LetGo() {
	in.become(retired)
	in.p.mu.Lock()
	delete(in.p.instances, in)
	in.p.mu.Unlock()
	if in.sub != nil {
		in.sub.Shutdown()
	}
}

// Close ends the membership: streams in flight still end. Calls that waited for its connection look for another.
func (in *instance) Close() {
	in.LetGo()
	in.p.publish()
}
