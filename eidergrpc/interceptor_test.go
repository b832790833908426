package eidergrpc

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider/internal/fake"
)

// An io.EOF of the user's own interceptor isn't gRPC's, of a message that was never written: it is his, and the call, which
// has been answered, isn't made again. None of his is below the channel's own, however it was given.
func TestTheEOFOfAnInterceptorIsTheUsersOwn(t *testing.T) {
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
			return err
		}
		return io.EOF
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		cs, err := open(ctx, desc, cc, method, opts...)
		return shortOf{cs}, err
	}
	for name, row := range map[string]struct {
		opt    grpc.DialOption
		stream bool
	}{
		"one":                 {grpc.WithUnaryInterceptor(unary), false},
		"of a chain":          {grpc.WithChainUnaryInterceptor(unary), false},
		"of streams":          {grpc.WithStreamInterceptor(stream), true},
		"of a chain for them": {grpc.WithChainStreamInterceptor(stream), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := &parrot{name: "a"}
			addr, _ := serve(t, p)
			other, _ := serve(t, p)
			w.Set("orders", fake.Up("orders", "a", addr), fake.Up("orders", "b", other))
			cc := w.client(Config{Idempotent: []string{"/test.Echo/"}}, "orders", row.opt)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			call := func() error { return cc.Invoke(ctx, sayMethod, wrapperspb.String(""), new(wrapperspb.StringValue)) }
			if row.stream {
				call = func() error { // of a stream with one message each way
					s, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "Say"}, sayMethod)
					if err != nil {
						return err
					}
					if err := s.SendMsg(wrapperspb.String("")); err != nil {
						return err
					}
					s.CloseSend()
					return s.RecvMsg(new(wrapperspb.StringValue))
				}
			}
			if err := call(); err != io.EOF {
				t.Errorf("the user gets %v, and his interceptor has said io.EOF", err)
			}
			if n := p.times(); n != 1 {
				t.Errorf("the call was made %d times", n)
			}
		})
	}
}

// shortOf is a stream that keeps its answers to itself.
type shortOf struct{ grpc.ClientStream }

func (s shortOf) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	return io.EOF
}
