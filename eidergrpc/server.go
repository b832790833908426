package eidergrpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider/drain"
)

// Server is a *grpc.Server that leaves without losing a call. Register services with it as with any other, and hand it to
// [Serve].
type Server struct {
	*grpc.Server

	// Health is the health service that NewServer has registered: SERVING for "" until the leave, NOT_SERVING from
	// then on, though calls are still served. Set the status of further services with it.
	Health *health.Server

	self     atomic.Pointer[drain.Instance] // set by Serve
	graceful sync.WaitGroup                 // GracefulStop
}

// handshakeWithin is how long a connection may take until it speaks HTTP/2, unless the options say otherwise. GracefulStop
// waits for each that doesn't yet, before it tells any other that the server leaves; at the barrier the drain closes
// them sooner.
const handshakeWithin = 5 * time.Second

// NewServer makes a server with grpc's own options. Chained interceptors among them see what Eider's let
// through; one given by grpc.UnaryInterceptor or grpc.StreamInterceptor stands before them, as gRPC has it.
func NewServer(opts ...grpc.ServerOption) *Server {
	s := &Server{Health: health.NewServer()}
	all := append([]grpc.ServerOption{grpc.ConnectionTimeout(handshakeWithin), grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream)}, opts...)
	s.Server = grpc.NewServer(all...)
	grpc_health_v1.RegisterHealthServer(s.Server, s.Health)
	return s
}

// Serve serves s until ctx ends, and then drains it, as drain.Serve does an *http.Server: cfg, the report and the
// error are that function's, and so is what is said there of signals. Listener must be set: a *grpc.Server has no
// address. s is Serve's until it returns: don't call its Stop or GracefulStop; end ctx.
//
// At the leave the health service turns to NOT_SERVING and every answer says eider-leaving, while calls are served as
// before. At the barrier connections get GOAWAY, streams have cfg.Streams from then on (drain.Started tells their
// handlers at the leave) and calls cfg.InFlight. What overruns that is cut and named, whether or not its handler
// returns: neither GracefulStop nor Stop is ever waited for without a bound.
func Serve(ctx context.Context, s *Server, cfg drain.Config) (drain.Report, error) {
	return drain.Run(ctx, cfg, func(self *drain.Instance) drain.Server {
		s.self.Store(self)
		return (*served)(s)
	})
}

// served is the Server as a drain sees it.
type served Server

// Serve accepts until the listener ends.
func (s *served) Serve(l net.Listener) error { return s.Server.Serve(l) }

// Leave turns away whoever looks at health rather than at the registry: Kubernetes, and other load balancers.
func (s *served) Leave() { s.Health.Shutdown() }

// Finish has gRPC send GOAWAY and wait for the calls in flight. It has no deadline of its own; the drain closes what
// it waits for.
func (s *served) Finish() { s.graceful.Go(s.GracefulStop) }

// Close returns when gRPC has ended. It may never do so: handlers that heed nothing keep GracefulStop.
func (s *served) Close() {
	s.Stop()
	s.graceful.Wait()
}

// unary stands before the handler of a unary call.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	self := s.self.Load()
	if self == nil { // served by the user's own hands, not by Serve
		return handle(ctx, req)
	}
	call, other := self.Begin(ctx, incoming(ctx, info.FullMethod, nil))
	if call == nil {
		return nil, misdirected(other, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
	}
	defer call.End(false) // on panic and Goexit
	answer, err := handle(call, req)
	if leaving, ok := self.Leaving(); ok {
		_ = grpc.SetTrailer(ctx, metadata.MD{keyLeaving: {leaving}}) // it fails only if there is nobody to hear it
	}
	call.End(true)
	return answer, err
}

// stream stands before the handler of a stream.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	self := s.self.Load()
	if self == nil {
		return handle(srv, ss)
	}
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	in := incoming(ctx, info.FullMethod, func() {
		cutOff(ss.Context())
		cancel()
	})
	call, other := self.Begin(ctx, in)
	if call == nil {
		return misdirected(other, ss.SetTrailer)
	}
	defer call.End(false)
	if leaving, ok := self.Leaving(); ok {
		_ = ss.SetHeader(metadata.MD{keyLeaving: {leaving}})
	}
	err := handle(srv, &serverStream{ss, call})
	if leaving, ok := self.Leaving(); ok {
		ss.SetTrailer(metadata.MD{keyLeaving: {leaving}})
	}
	call.End(true)
	return err
}

// serverStream is a stream whose context knows of the drain.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }

// incoming says what a drain has to know of a call.
func incoming(ctx context.Context, method string, cut func()) drain.Incoming {
	in := drain.Incoming{Method: "GRPC", Path: method, To: metadata.ValueFromIncomingContext(ctx, keyTo), Cut: cut,
		Probe: isProbe(ctx, method)}
	if caller := metadata.ValueFromIncomingContext(ctx, keyCaller); len(caller) > 0 {
		in.Caller = caller[0]
	}
	if p, ok := peer.FromContext(ctx); ok {
		in.Remote = p.Addr
	}
	return in
}

// isProbe tells whether a call only looks whether this process is well, or what it is.
func isProbe(ctx context.Context, method string) bool {
	switch method {
	case grpc_health_v1.Health_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName, grpc_health_v1.Health_List_FullMethodName:
		return true
	}
	agent := metadata.ValueFromIncomingContext(ctx, "user-agent")
	return len(agent) > 0 && drain.IsProbe(agent[0])
}

// misdirected answers a call that means somebody else, whose address this process has taken over. The code is the one
// that gRPC's own retry policies repeat; the trailer says that nothing was done, so that it may be sent elsewhere,
// whatever its method.
func misdirected(me string, trailer func(metadata.MD)) error {
	trailer(metadata.MD{keyMisdirected: {me}})
	return status.Errorf(codes.Unavailable, "eider: this is %s, and the call is for somebody else: the address has changed hands. Nothing was done; ask the registry again and call another instance", me)
}

// cutOff ends a stream from outside its handler, whose context then ends, and RecvMsg and SendMsg with it. gRPC has
// no method for that; its stream, which it puts into the context, has one, and allows it to be called at any time
// since a stream may be reset at any time.
func cutOff(ctx context.Context) {
	if s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ WriteStatus(*status.Status) error }); ok {
		_ = s.WriteStatus(status.New(codes.Unavailable, "eider: this instance leaves, and the time of its streams is over; call again"))
	}
}
