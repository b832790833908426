package eidergrpc

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unary makes one call, in as many tries as it takes and may have.
func (cl *client) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c := cl.newCall(ctx, method, false)
	c.spares = cl.tries() > 1 && cl.mayRepeat(method)
	if cl.set.Fleet != nil {
		defer c.broken()
	}
	for first := true; ; first = false {
		var err error
		if first && c.spares && cl.trialWaits() {
			err = c.trying(func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) })
		} else {
			err = invoke(c, method, req, reply, cc, opts...)
		}
		if err == nil {
			c.end(nil)
			return nil
		}
		// No interceptor of the user's is below this one, so this is gRPC's word, of a write into a stream that had ended:
		// the message never went out.
		if err == io.EOF {
			err = status.Error(codes.Unavailable, saysUnwritten)
		}
		c.ended(err)
		if !c.again(err) {
			err = c.explain(err)
			c.end(err)
			return err
		}
	}
}
