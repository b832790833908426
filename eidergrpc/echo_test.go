package eidergrpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider/internal/fake"
)

// echo is a service without generated code: Say answers the instance's name, Talk answers each message with it.
type echo interface {
	Say(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error)
	Talk(grpc.ServerStream) error
}

var echoDesc = grpc.ServiceDesc{
	ServiceName: "test.Echo", HandlerType: (*echo)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(srv any, ctx context.Context, dec func(any) error, inter grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		say := func(ctx context.Context, req any) (any, error) {
			return srv.(echo).Say(ctx, req.(*wrapperspb.StringValue))
		}
		if inter == nil {
			return say(ctx, in)
		}
		return inter(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: sayMethod}, say)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Talk", ClientStreams: true, ServerStreams: true,
		Handler: func(srv any, s grpc.ServerStream) error { return srv.(echo).Talk(s) }}},
}

const (
	sayMethod  = "/test.Echo/Say"
	talkMethod = "/test.Echo/Talk"
)

// parrot says its name, after what the test wants done.
type parrot struct {
	name string
	do   func(context.Context) error // nil: nothing

	mu   sync.Mutex
	said int
	seen []metadata.MD
}

func (p *parrot) Say(ctx context.Context, m *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p.mu.Lock()
	p.said++
	p.seen = append(p.seen, md)
	p.mu.Unlock()
	if p.do != nil {
		if err := p.do(ctx); err != nil {
			return nil, err
		}
	}
	return wrapperspb.String(p.name), nil
}

func (p *parrot) Talk(s grpc.ServerStream) error {
	for {
		in := new(wrapperspb.StringValue)
		if err := s.RecvMsg(in); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.do != nil {
			if err := p.do(s.Context()); err != nil {
				return err
			}
		}
		if err := s.SendMsg(wrapperspb.String(p.name + " " + in.Value)); err != nil {
			return err
		}
	}
}

func (p *parrot) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// serve starts a plain gRPC server.
func serve(t testing.TB, p echo, opts ...grpc.ServerOption) (addr string, srv *grpc.Server) {
	l := fake.Listen(t)
	srv = grpc.NewServer(opts...)
	srv.RegisterService(&echoDesc, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return l.Addr().String(), srv
}

// say makes one unary call.
func say(t testing.TB, cc grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := new(wrapperspb.StringValue)
	err := cc.Invoke(ctx, sayMethod, wrapperspb.String("hello"), out, opts...)
	return out.Value, err
}

func wantSay(t testing.TB, cc grpc.ClientConnInterface, want string) {
	t.Helper()
	if got, err := say(t, cc); err != nil || got != want {
		t.Fatalf("answered by %q, %v; want %q", got, err, want)
	}
}

// speech is an open stream.
type speech struct {
	grpc.ClientStream
	end context.CancelFunc
}

func open(t testing.TB, cc *grpc.ClientConn) *speech {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	s, err := cc.NewStream(ctx, &echoDesc.Streams[0], talkMethod)
	if err != nil {
		t.Fatal(err)
	}
	return &speech{s, cancel}
}

func (s *speech) say(text string) (string, error) {
	if err := s.SendMsg(wrapperspb.String(text)); err != nil && err != io.EOF {
		return "", err
	}
	out := new(wrapperspb.StringValue)
	err := s.RecvMsg(out)
	return out.Value, err
}
