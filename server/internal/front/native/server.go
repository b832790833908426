// Package native is the gRPC front: it speaks eider.v1 to processes, and words to a replica.
//
// Each stream has two goroutines. The receiver reads what the process says and hands it to the
// replica; the handler waits for the replica's news and sends them. Whoever learns first that the
// stream is over says why, once; see [stream].
package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/access"
	"github.com/eiderhq/eider/server/internal/panel"
	"github.com/eiderhq/eider/server/internal/replica"
)

// The clocks of a stream. None is a setting: clients count on them.
const (
	helloTimeout   = 5 * time.Second  // from the first byte of a connection or stream to its Hello
	pingAfter      = 5 * time.Second  // without a byte from a connection
	pingTimeout    = 10 * time.Second // without an answer: the connection is dropped
	sendTimeout    = 10 * time.Second // blocked by the other side's flow control: the stream is dropped
	idleConnection = helloTimeout     // a connection without a stream is told to go; dialling again is cheap
)

// Buffers of one connection. A registry's connections are many and mostly idle: what they hold while
// nothing happens is the node's memory.
const (
	readBuffer  = 4 << 10
	writeBuffer = 16 << 10 // held only while writing
	window      = 64 << 10 // fixed, so that nobody can make it grow; more per connection is bounded by its streams
	headerList  = 8 << 10
)

// Config sets the front up.
type Config struct {
	Beat   time.Duration // what processes are told to beat at; 0 means 2s
	Lease  time.Duration // the node's default lease, told to who follows: how long an absent instance is doubted; 0 means 20s
	Logger *slog.Logger  // nil means slog.Default()
	Limits Limits

	Guard *access.Guard // who is let in; nil asks nobody
	Certs *access.Certs // for TLS; nil speaks in clear text
	Audit *access.Audit // hears of refusals; nil means nobody

	Panel *panel.Panel // of fleet breakers; nil keeps none, as a node that is older than they are
}

// Server is the front. Serve it on a listener, then Stop it.
type Server struct {
	pb.UnimplementedRegistryServer
	pb.UnimplementedFleetServer
	cfg Config
	reg replica.Registry
	log *slog.Logger
	rpc *grpc.Server
	own func() eider.Node // what this node says of itself in Welcome: asked once

	register, reattach, watch *admission
	follow, fleet             *admission
	origins                   *origins
	shares                    *shares

	connections, open, turnedAway, limited, dropped atomic.Int64
	loud                                            loud

	receivers sync.WaitGroup
	mu        sync.Mutex
	streams   map[*stream]struct{}
	stopping  bool
}

// New returns a front of the registry. It starts nothing.
func New(reg replica.Registry, cfg Config) *Server {
	if cfg.Beat <= 0 {
		cfg.Beat = 2 * time.Second
	}
	if cfg.Lease <= 0 {
		cfg.Lease = 20 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Server{
		cfg: cfg, reg: reg, log: cfg.Logger, own: sync.OnceValue(reg.Node), streams: make(map[*stream]struct{}),
		register: newAdmission(cfg.Limits.Register),
		reattach: newAdmission(cfg.Limits.Reattach),
		watch:    newAdmission(cfg.Limits.Watch),
		follow:   newAdmission(cfg.Limits.Watch),
		fleet:    newAdmission(cfg.Limits.Fleet),
		origins:  newOrigins(cfg.Limits.OriginFleet),
		shares:   newShares(cfg.Limits),
	}
	s.rpc = grpc.NewServer(append(s.access(),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.InTapHandle(tapStream),
		grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(helloTimeout),
		grpc.MaxRecvMsgSize(cfg.Limits.Message),
		grpc.MaxConcurrentStreams(uint32(cfg.Limits.StreamsPerConnection)),
		grpc.MaxHeaderListSize(headerList),
		grpc.WriteBufferSize(writeBuffer), grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout, MaxConnectionIdle: idleConnection}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)...)
	pb.RegisterRegistryServer(s.rpc, s)
	if cfg.Panel != nil {
		pb.RegisterFleetServer(s.rpc, s)
	}
	return s
}

// access are the options by which strangers are kept out, if they are.
func (s *Server) access() (options []grpc.ServerOption) {
	if s.cfg.Certs != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.cfg.Certs.Config("h2"))))
	}
	if s.cfg.Guard != nil {
		options = append(options, grpc.StreamInterceptor(s.identified), grpc.UnaryInterceptor(s.identifiedOnce))
	}
	return options
}

// Serve answers on the listener, which it closes, until Stop, also one that came first: who starts it in a goroutine
// doesn't know.
func (s *Server) Serve(lis net.Listener) error {
	if err := s.rpc.Serve(limited{lis, s}); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop tells every stream that the node stops, waits until they have ended or ctx has, then drops what
// is left. When it returns, nothing that the front has started is running.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	streams := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		streams = append(streams, st)
	}
	s.mu.Unlock()
	for _, st := range streams {
		st.end(stopped())
	}
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.rpc.GracefulStop()
	}()
	select {
	case <-graceful:
	case <-ctx.Done():
	}
	s.rpc.Stop()
	<-graceful
	s.receivers.Wait()
}

// Stats count what the front holds and has refused.
type Stats struct {
	Connections, Streams int64 // open now
	TurnedAway           int64 // connections over the limit, ever
	Limited              int64 // streams and registrations told to come back later, ever
	Dropped              int64 // streams whose process didn't read, ever
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	return Stats{s.connections.Load(), s.open.Load(), s.turnedAway.Load(), s.limited.Load(), s.dropped.Load()}
}

// complain logs what a client did wrong; seldom, since some do it again and again.
func (s *Server) complain(what, caller string, err error) {
	if s.loud.allow(time.Now()) {
		s.log.Warn(what, "caller", caller, "err", err)
	}
}

// enter counts a stream in; the error says why it may not be.
func (s *Server) enter(st *stream) *ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return stopped()
	case len(s.streams) >= s.cfg.Limits.Streams:
		s.limited.Add(1)
		return failed(&eider.Error{Kind: eider.Limited, RetryAfter: jitter(time.Second),
			Err: fmt.Errorf("this node serves %d streams and takes no more; come back later or use another node", s.cfg.Limits.Streams)})
	}
	s.streams[st] = struct{}{}
	s.open.Store(int64(len(s.streams)))
	return nil
}

func (s *Server) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	s.open.Store(int64(len(s.streams)))
}
