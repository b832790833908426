package eidergrpc

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fake"
)

// forgetter is a stats handler that hands gRPC a context of its own: the call's values are lost on the way to the picker.
type forgetter struct{ injector }

func (forgetter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return forgetful{ctx}
}

type forgetful struct{ context.Context }

func (forgetful) Value(any) any { return nil }

// A pick whose call can't be found is nobody's to give back. It isn't kept while its connection is being made.
func TestACallThatIsLostHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	dialled := make(chan struct{}, 8)
	silent := fake.Script(t, func(int, deadConn) { dialled <- struct{}{}; <-t.Context().Done() })
	addr, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", silent.Addr().String()), fake.Up("orders", "b", addr)
	w.Set("orders", a)
	cc := w.client(Config{ConnectTimeout: patience * 3}, "orders", grpc.WithStatsHandler(forgetter{}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cc.Invoke(ctx, sayMethod, wrapperspb.String(""), new(wrapperspb.StringValue)) }()
	<-dialled
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Fatalf("%v; want Canceled", err)
	}
	w.Set("orders", fake.Draining(a), b)
	w.Await("let-go of a", fake.LetGo("a"))
	wantSay(t, cc, "b")
}

// What such a call ends with is learnt, and it says for whom it is, as any does.
func TestACallThatIsLostIsCountedAndSaysForWhomItIs(t *testing.T) {
	w := newWorld(t)
	begun, end := make(chan struct{}), make(chan struct{})
	p := &parrot{name: "a", do: func(context.Context) error { begun <- struct{}{}; <-end; return nil }}
	addrA, _ := serve(t, p)
	addrB, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", addrA), fake.Up("orders", "b", addrB)
	w.Set("orders", a)
	cc := w.client(Config{}, "orders", grpc.WithStatsHandler(forgetter{}))
	answered := make(chan error, 1)
	go func() { _, err := say(t, cc); answered <- err }()
	<-begun
	w.Apply("orders", a, b)
	w.Set("orders", fake.Draining(a), b)
	w.Await("let-go of a", fake.LetGo("a")) // a second after it was sent
	wantSay(t, cc, "b")
	close(end)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if md := p.seen[0]; len(md[keyTo]) != 1 || len(md[keyCaller]) != 1 {
		t.Errorf("%v", md)
	}
}

// ending is a forgetter that tells when a connection has ended.
type ending struct {
	forgetter
	ended chan struct{}
}

func (e ending) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		select {
		case e.ended <- struct{}{}:
		default:
		}
	}
}

// When a write finds the stream of such a call ended, whoever reads on isn't heard: it has ended with that.
func TestACallThatIsLostEndsWithABrokenWrite(t *testing.T) {
	e := ending{ended: make(chan struct{}, 1)}
	a := fake.Up("orders", "a", newFrames(t, (*frames).goAway))
	m := together(t, 1, fleet.Config{Local: breaker.Config{FailureMin: 1000}}, Config{NoBreakers: true}, []grpc.DialOption{grpc.WithStatsHandler(e)}, a)[0]
	s := open(t, m.cc)
	<-e.ended
	if _, err := s.say("x"); err == nil {
		t.Error("somebody has answered")
	}
	if n := m.cl.counts[GoAway].Load(); n != 2 { // gRPC repeats it by itself, once
		t.Errorf("%d tries have ended so, want 2", n)
	}
	if s := m.knows().Local; s.Total != 0 {
		t.Errorf("nobody has answered, and it shows %+v", s)
	}
}

// broken are credentials that panic.
type broken struct{}

func (broken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	panic("no credentials")
}
func (broken) RequireTransportSecurity() bool { return false }

// A panic unwinds gRPC between the pick and its end, so that the pick's end is never told.
func TestAStreamWhoseOpeningPanicsHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	addrA, _ := serve(t, &parrot{name: "a"})
	addrB, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", addrA), fake.Up("orders", "b", addrB)
	w.Set("orders", a)
	cc := w.client(Config{}, "orders")
	wantSay(t, cc, "a")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it didn't panic")
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cc.NewStream(ctx, &echoDesc.Streams[0], talkMethod, grpc.PerRPCCredentials(broken{}))
	}()
	w.Set("orders", fake.Draining(a), b)
	w.Await("let-go of a", fake.LetGo("a"))
	wantSay(t, cc, "b")
}
