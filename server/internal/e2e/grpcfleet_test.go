package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/eidergrpc"
	"github.com/eiderhq/eider/registry"
)

// till is a gRPC service without generated code: Pay is unary, Talk answers message by message.
type till struct {
	name  string
	takes time.Duration
	book  *ledgerOf
	first func(context.Context) error // of a call; nil: nothing
}

const (
	payMethod  = "/e2e.Till/Pay"
	talkMethod = "/e2e.Till/Talk"
)

var tillDesc = grpc.ServiceDesc{
	ServiceName: "e2e.Till", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Pay", Handler: func(srv any, ctx context.Context, dec func(any) error, inter grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		pay := func(ctx context.Context, _ any) (any, error) {
			if first := srv.(*till).first; first != nil {
				if err := first(ctx); err != nil {
					return nil, err
				}
			}
			return srv.(*till).pay(in.Value), nil
		}
		if inter == nil {
			return pay(ctx, in)
		}
		return inter(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: payMethod}, pay)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Talk", ClientStreams: true, ServerStreams: true,
		Handler: func(srv any, s grpc.ServerStream) error { return srv.(*till).talk(s) }}},
}

func (l *till) pay(id string) *wrapperspb.StringValue {
	l.book.mu.Lock()
	if l.book.runs == nil {
		l.book.runs = map[string]int{}
	}
	l.book.runs[id]++
	l.book.mu.Unlock()
	<-time.After(l.takes)
	return wrapperspb.String(l.name)
}

// talk answers each message, and ends as it should: after an answer, once it has been told of a leave.
func (l *till) talk(s grpc.ServerStream) error {
	for {
		in := new(wrapperspb.StringValue)
		if err := s.RecvMsg(in); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.SendMsg(l.pay(in.Value)); err != nil {
			return err
		}
		select {
		case <-drain.Started(s.Context()):
			return nil
		default:
		}
	}
}

// startTill starts an instance that serves gRPC, and waits until it is listed.
func startTill(t *testing.T, node, id string, l *till, options ...func(*drain.Config)) *instance {
	t.Helper()
	srv := eidergrpc.NewServer()
	srv.RegisterService(&tillDesc, l)
	return startServing(t, node, "till", id, func(cfg *drain.Config) {
		for _, o := range options {
			o(cfg)
		}
	}, func(ctx context.Context, cfg drain.Config) (drain.Report, error) {
		return eidergrpc.Serve(ctx, srv, cfg)
	})
}

// payer is one calling process.
type payer struct {
	reg *registry.Registry // nil: it knows nothing of Eider
	cc  *grpc.ClientConn
}

func (c *payer) close() {
	c.cc.Close()
	if c.reg != nil {
		c.reg.Close()
	}
}

func newPayer(t *testing.T, node, name string, cfg eidergrpc.Config, opts ...grpc.DialOption) *payer {
	t.Helper()
	reg := registry.Open(registry.Config{Addr: node, Caller: name, Logger: quiet})
	cc, err := cfg.NewClient("eider:///till", reg, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	c := &payer{reg, cc}
	t.Cleanup(c.close)
	return c
}

// pay makes one call and returns who answered.
func (c *payer) pay(ctx context.Context, id string) (string, error) {
	out := new(wrapperspb.StringValue)
	err := c.cc.Invoke(ctx, payMethod, wrapperspb.String(id), out)
	return out.Value, err
}

// talk makes one stream of some messages; each answer is told. The instance may end it after any answer.
func (c *payer) talk(ctx context.Context, id string, answered func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.cc.NewStream(ctx, &tillDesc.Streams[0], talkMethod)
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	for k := range 10 {
		if err := s.SendMsg(wrapperspb.String(fmt.Sprint(id, ".", k))); err != nil && err != io.EOF {
			return fmt.Errorf("sending %d: %w", k, err)
		}
		out := new(wrapperspb.StringValue)
		if err := s.RecvMsg(out); errors.Is(err, io.EOF) && k > 0 {
			return nil // it was told to end, and did so between two messages
		} else if err != nil {
			return fmt.Errorf("answer %d: %w", k, err)
		}
		answered(out.Value)
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if err := s.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the end: %w", err)
	}
	return nil
}

// startPayers starts loops of gRPC calls, or of streams.
func startPayers(t *testing.T, n int, payerOf func(i int) *payer, streams bool) *load[*payer] {
	t.Helper()
	l := newLoad[*payer](t, "calls")
	l.start(n, 10*time.Millisecond, payerOf, func(ctx context.Context, c *payer, id string) error {
		if streams {
			return c.talk(ctx, id, l.answered)
		}
		who, err := c.pay(ctx, id)
		if err == nil {
			l.answered(who)
		}
		return err
	})
	return l
}

func checkHealth(t *testing.T, cc *grpc.ClientConn) {
	t.Helper()
	r, err := grpc_health_v1.NewHealthClient(cc).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", r, err)
	}
}
