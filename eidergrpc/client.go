package eidergrpc

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/retry"
	"github.com/eiderhq/eider/roster"
)

// Config sets a client up. The zero value works.
type Config struct {
	ConnectTimeout time.Duration // 0 means 1s. Bounds the dial and the handshakes of one connection
	ViewTimeout    time.Duration // 0 means 10s; below 0 none. How long calls wait for the first view; those that wait for ready wait on
	Tries          int           // 0 means 3; 1 means no retries. In all, per call; up to 16 refused dials don't count
	Slow           time.Duration // 0 means 1s. The caller's deadline counts against an instance that had at least this; a trial of a hung one is given three times as long

	// RetryRatio is the share of first attempts of the last 10 s that may be retried where the package's table says
	// so. 0 means 0.2, and 10 a second in any case; below 0 means none.
	RetryRatio float64

	// Idempotent names the methods that may be sent again after a failure that may have been processed:
	// "/shop.Orders/Get", or "/shop.Orders/" for all of a service. nil means none: gRPC has no method that says so
	// of itself. Unary ones among them also try out, when the registry asks for it, an instance that hung.
	Idempotent []string

	// TracerProvider makes an OpenTelemetry client span for each call, over all its tries, with an event for each of
	// them. nil means none, at no cost. A tracing stats handler among the dial options makes spans below it.
	TracerProvider trace.TracerProvider

	// Propagator writes the call's trace into its metadata, as traceparent. nil means that nothing is written. It
	// needs no TracerProvider: then it hands on what the call's context has.
	Propagator propagation.TextMapPropagator
}

// NewClient returns a channel to a service with the default configuration; see [Config.NewClient].
func NewClient(target string, reg *registry.Registry, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return Config{}.NewClient(target, reg, opts...)
}

// NewClient returns a channel to a service, eider:///orders, or to a named port of its instances,
// eider:///_admin.orders. Like grpc.NewClient it does no I/O. With TLS the instance's certificate must be for
// "orders".
//
// opts are grpc's own: transport credentials are required, the user's interceptors see each call once, whatever is
// tried below them; stats handlers see each try. The load balancing policy, the connect parameters and the default service
// config are Eider's and rule over opts.
//
// reg must stay open while the channel is in use, and is not closed by it. Closing the channel, or its falling idle
// (grpc.WithIdleTimeout, 30 minutes), ends the following: drains no longer wait for it.
func (c Config) NewClient(target string, reg *registry.Registry, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	if reg == nil {
		return nil, &eider.Error{Op: "dial " + target, Kind: eider.Invalid, Err: errors.New("the registry is nil: pass registry.Open(registry.Config{})")}
	}
	if !strings.Contains(target, "://") {
		target = scheme + ":///" + target
	}
	cl := &client{reg: reg, set: c, budget: retry.Budget{Ratio: c.RetryRatio, MinPerSecond: min(c.RetryRatio, 0)}, repeatable: map[string]bool{}, metaKey: keyOfMetadata()}
	for _, method := range c.Idempotent {
		cl.repeatable[method] = true
	}
	all := append([]grpc.DialOption{}, opts...)
	all = append(all,
		grpc.WithResolvers(&resolverBuilder{cl}),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+policy+`":{}}]}`),
		grpc.WithConnectParams(cl.connecting()),
		grpc.WithChainUnaryInterceptor(cl.unary), // the last of the chain: the user's are around it
		grpc.WithChainStreamInterceptor(cl.stream),
	)
	cc, err := grpc.NewClient(target, all...)
	if err != nil {
		return nil, &eider.Error{Op: "dial " + target, Kind: eider.Invalid, Err: err}
	}
	return cc, nil
}

// client is what a channel's calls share.
type client struct {
	reg        *registry.Registry
	set        Config
	budget     retry.Budget
	repeatable map[string]bool // methods, and services with a slash at the end
	metaKey    any             // of outgoing metadata in contexts
	counts     [causes]atomic.Uint64
	follows    atomic.Pointer[roster.Roster] // nil before the channel's first call
}

// connecting is how a connection is made. Who is dialled when is the roster's to say, which sets aside whoever
// refuses, so gRPC's own pauses between dials are short: they would show a stale failure to a trial.
func (cl *client) connecting() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 200 * time.Millisecond},
		MinConnectTimeout: orDefault(cl.set.ConnectTimeout, time.Second),
	}
}

func (cl *client) tries() int {
	if cl.set.Tries > 0 {
		return cl.set.Tries
	}
	return 3
}

func (cl *client) slow() time.Duration { return orDefault(cl.set.Slow, time.Second) }

// mayRepeat tells whether a method was declared idempotent.
func (cl *client) mayRepeat(method string) bool {
	if len(cl.repeatable) == 0 {
		return false
	}
	return cl.repeatable[method] || cl.repeatable[method[:strings.LastIndexByte(method, '/')+1]]
}

// orDefault returns d, the default if d is 0, and 0 (none) if d is below.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}
