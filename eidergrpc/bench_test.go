package eidergrpc

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/roster"
)

// channel is what a policy has of gRPC, without gRPC: SubConns that are ready at once.
type channel struct {
	balancer.ClientConn
	mu     sync.Mutex
	picker balancer.Picker
}

func (c *channel) NewSubConn(_ []resolver.Address, o balancer.NewSubConnOptions) (balancer.SubConn, error) {
	return &subConn{state: o.StateListener}, nil
}

func (c *channel) UpdateState(s balancer.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.picker = s.Picker
}

type subConn struct {
	balancer.SubConn
	state func(balancer.SubConnState)
}

func (s *subConn) Connect() {
	s.state(balancer.SubConnState{ConnectivityState: connectivity.Connecting})
	s.state(balancer.SubConnState{ConnectivityState: connectivity.Ready})
}
func (s *subConn) Shutdown() {}

// eiderPicker returns a picker over ten ready instances, and a call's context for it.
func eiderPicker(t testing.TB) (balancer.Picker, context.Context) {
	w := newWorld(t)
	var all []eider.Instance
	for _, id := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		all = append(all, fake.Up("orders", id, "127.0.0.1:9"))
	}
	w.Set("orders", all...)
	cl := &client{reg: w.Handle, metaKey: keyOfMetadata()}
	ch := &channel{}
	p := &policyOf{cc: ch, cl: cl, to: goal{service: "orders"}, instances: map[*instance]struct{}{}}
	p.roster = roster.Config{Companion: p.companion, Applied: p.applied}.Follow(w.Handle, "orders")
	t.Cleanup(p.Close)
	first, err := p.roster.Take(t.Context(), nil) // waits for the view
	if err != nil {
		t.Fatal(err)
	}
	first.Done(roster.Neutral)
	p.ExitIdle()
	return &picker{cl, p.roster, nil, w.counts.Service("orders")}, cl.newCall(t.Context(), sayMethod, false)
}

func pickOnce(t testing.TB, p balancer.Picker, info balancer.PickInfo) {
	r, err := p.Pick(info)
	if err != nil {
		t.Fatal(err)
	}
	if r.Done != nil {
		r.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
	}
}

// BenchmarkPick is a pick and its end, of ten ready instances.
func BenchmarkPick(b *testing.B) {
	p, ctx := eiderPicker(b)
	info := balancer.PickInfo{FullMethodName: sayMethod, Ctx: ctx}
	b.ReportAllocs()
	for b.Loop() {
		pickOnce(b, p, info)
	}
}

// A pick allocates no more than round_robin's, which is nothing.
func TestAPickAllocatesNothing(t *testing.T) {
	p, ctx := eiderPicker(t)
	info := balancer.PickInfo{FullMethodName: sayMethod, Ctx: ctx}
	if n := testing.AllocsPerRun(500, func() { pickOnce(t, p, info) }); n != 0 {
		t.Errorf("%v allocations a pick", n)
	}
}

// BenchmarkCall is a whole call on loopback beside plain grpc-go's with round_robin.
func BenchmarkCall(b *testing.B) {
	addr, _ := serve(b, &parrot{name: "a"})
	w := newWorld(b)
	w.Set("orders", fake.Up("orders", "a", addr))
	rr, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { rr.Close() })
	for name, cc := range map[string]*grpc.ClientConn{"eider": w.client(Config{}, "orders"), "round_robin": rr} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				wantSay(b, cc, "a")
			}
		})
	}
}
