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
	"google.golang.org/grpc/codes"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/retry"
)

// Config sets a client up. The zero value works.
type Config struct {
	ConnectTimeout time.Duration // 0 means 1s. Bounds the dial and the handshakes of one connection
	ViewTimeout    time.Duration // 0 means 10s; below 0 none. How long calls wait for the first view; those that wait for ready wait on
	Tries          int           // 0 means 3; 1 means no retries. In all, per call; up to 16 refused dials don't count

	// Slow is how long an instance may take before somebody else's opinion of its silence counts: the caller's deadline
	// counts against it if it had at least Slow; a trial of a hung one is given three times as long; and a unary call that
	// takes ten times Slow, and 10s at least, is slow although nobody has given up (Breaker.SlowLimit says otherwise). 0
	// means 1s; below 0: any deadline counts.
	Slow time.Duration

	// Breaker has the rules of the circuit breaker that each instance has in this channel; the zero value is the house's,
	// as roster.Config.Breaker says. Streams are never slow, however long they are silent.
	Breaker breaker.Config

	// Bulkhead bounds the unary calls in flight to each instance; the zero Config sizes itself. nil means none: see
	// roster.Config.Bulkhead.
	Bulkhead *bulkhead.Config

	// NoBreakers leaves out no instance for what its answers have shown. It saves half a microsecond a call.
	NoBreakers bool

	// NoFloor lets breakers leave out every instance, so that calls fail at once: see roster.Config.NoFloor.
	NoFloor bool

	// Fleet is the one circuit breaker that the service has for all its callers, wherever they run: when enough of them see that
	// it fails, or is slow, wherever it is asked, all of them leave it alone, and one call at a time tries it. nil means none:
	// what a caller finds out stays with it, which is right as long as not all fail together. Store nil means the registry
	// itself, Key is put before the service's name, Caller "" means the handle's. A call is asked for once, before an instance
	// is picked; who is turned away gets UNAVAILABLE around a *breaker.Rejected at once, waiting for ready or not.
	//
	// What counts is what comes of the call when its tries are over, by the same rules as for an instance. That nobody can be
	// called says nothing, nor does what a bulkhead or an instance's breaker turns away. Fleet.Local has the rules of this
	// channel's own breaker of the service, which decides while the fleet's is closed and while the store is away; its SlowLimit 0
	// means ten times Slow, and 10s at least. A trial isn't tried again unless it surely cost nobody anything; a stream that is
	// one has gone well with its first answer, or when it hasn't failed for as long as Slow. It costs a call two looks at the clock
	// more, and each channel a stream to the store.
	Fleet *fleet.Config

	// Failed tells which statuses that an instance has sent count against it. It doesn't change what is tried again. nil
	// means UNAVAILABLE, by which a server or a proxy says that it can't serve, and DEADLINE_EXCEEDED if the call has taken
	// at least Slow, since a server gives up at the same time as its caller. INTERNAL and UNKNOWN aren't among them: in Go
	// they are whatever error a handler returns. Nor is RESOURCE_EXHAUSTED, which says something of the caller.
	Failed func(codes.Code) bool

	// Waits names the unary methods, as Idempotent does, that are meant to wait for their answer: long polls. However long
	// they do, the instance isn't slow, and their deadline says nothing. nil means none.
	Waits []string

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
	return c.client(reg).dial(target, opts)
}

// client is what the calls of a channel share, to be dialled with once.
func (c Config) client(reg *registry.Registry) *client {
	cl := &client{reg: reg, set: c, budget: retry.Budget{Ratio: c.RetryRatio, MinPerSecond: min(c.RetryRatio, 0)}, repeatable: map[string]bool{}, waiting: map[string]bool{}, metaKey: keyOfMetadata()}
	for _, method := range c.Idempotent {
		cl.repeatable[method] = true
	}
	for _, method := range c.Waits {
		cl.waiting[method] = true
	}
	return cl
}

func (cl *client) dial(target string, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	all := append([]grpc.DialOption{}, opts...)
	all = append(all,
		grpc.WithResolvers(&resolverBuilder{cl}),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+policy+`":{}}]}`),
		grpc.WithConnectParams(cl.connecting()),
		grpc.WithChainUnaryInterceptor(cl.unary), // the last of the chain: the user's are around it
		grpc.WithChainStreamInterceptor(cl.stream),
	)
	if cl.set.Fleet != nil {
		if err := cl.gate("its-service").Validate(); err != nil {
			return nil, &eider.Error{Op: "dial " + target, Kind: eider.Invalid, Err: err}
		}
	}
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
	waiting    map[string]bool // likewise
	metaKey    any             // of outgoing metadata in contexts
	counts     [causes]atomic.Uint64
	follows    atomic.Pointer[policyOf] // nil before the channel's first call
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
func (cl *client) mayRepeat(method string) bool { return names(cl.repeatable, method) }

// names tells whether a method, or its service, is among those.
func names(those map[string]bool, method string) bool {
	if len(those) == 0 {
		return false
	}
	return those[method] || those[method[:strings.LastIndexByte(method, '/')+1]]
}

// orDefault returns d, the default if d is 0, and 0 (none) if d is below.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}
