package eiderhttp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/retry"
	"github.com/eiderhq/eider/roster"
)

// Transport is an http.RoundTripper that calls services by name. Only Registry must be set. It must not be copied
// or changed after its first use; its methods may be called from any goroutine.
type Transport struct {
	// Registry tells who serves what. It must stay open while the Transport is in use, and is not closed by it.
	Registry *registry.Registry

	// Base is the pattern of every instance's own http.Transport, cloned at the first request: TLS, HTTP/2, sizes,
	// dialers. nil means HTTP/1 and, over TLS, HTTP/2, with 90s of IdleConnTimeout. Its Proxy isn't used:
	// instances are called directly. MaxIdleConnsPerHost 0 means 100, since a pool here is one instance's.
	Base *http.Transport

	// Wrap is put around the http.Transport of each instance, hence around each try: tracing, metrics. It must not
	// retry, and must hand on the request's context. nil means none.
	Wrap func(http.RoundTripper) http.RoundTripper

	// TracerProvider makes an OpenTelemetry client span for each request, from the pick to the end of the answer's
	// body, with an event for each try. nil means none, at no cost. A tracing Wrap makes spans below it.
	TracerProvider trace.TracerProvider

	// Propagator writes the request's trace into the header of each try, as traceparent. nil means that nothing is
	// written. It needs no TracerProvider: then it hands on what the request's context has.
	Propagator propagation.TextMapPropagator

	ConnectTimeout time.Duration // 0 means 1s; below 0 none. Bounds the dial, and TLS unless Base.TLSHandshakeTimeout does
	HeaderTimeout  time.Duration // 0 means Base.ResponseHeaderTimeout, else 30s; below 0 none. From the request written to the answer's header
	TryTimeout     time.Duration // 0 means none. Bounds one try from the pick to the answer's header, whatever else does
	ViewTimeout    time.Duration // 0 means 10s; below 0 none. How long a request waits for the first view of its service
	Tries          int           // 0 means 3; 1 means no retries. In all, per request; up to 16 refused dials don't count

	// Hedge is how long a request's first try is waited for alone. 0 means for as long as it takes: no hedging. A request that
	// may be sent again (Repeatable, with no body or with GetBody) and whose answer's header hasn't come after so long is sent
	// to a second instance as well, at most once, if one is there that nothing speaks against; the first answer wins, whatever
	// its status, and the other try is cancelled. It takes two Tries, and one of the retries that RetryRatio allows; long polls
	// (Waits) and trials aren't hedged.
	//
	// It shortens the longest waits, for a price: instances do some work twice, and for nobody, most of it when they are slow
	// already, so set it to what one request in twenty takes, not to what is usual; an HTTP/1 connection is lost with each try
	// that is cancelled; every request that may be hedged costs a goroutine. And who loses shows nothing, so that the breaker of an
	// instance that hangs opens by those requests alone that were not hedged.
	Hedge time.Duration

	// Slow is how long an instance may take before somebody else's opinion of its silence counts: the caller's deadline
	// counts against it if it had at least Slow; a trial of a hung one is given three times as long; and an answer's
	// header that takes ten times Slow, and 10s at least, is slow although nobody has given up (Breaker.SlowLimit says
	// otherwise). 0 means 1s: a service whose reports take 3s opens no breaker, a caller that gives them 2s does. Below 0:
	// any deadline counts.
	Slow time.Duration

	// Breaker has the rules of the circuit breaker that each instance has in this Transport; the zero value is the house's,
	// as roster.Config.Breaker says. What counts is the answer's header: how long it takes, and whether Failed says that
	// it is a failure. A body may take as long as it likes, and counts as a failure if it breaks off.
	Breaker breaker.Config

	// Bulkhead bounds the requests to each instance that wait for the header of their answer; the zero Config sizes itself.
	// nil means none: see roster.Config.Bulkhead.
	Bulkhead *bulkhead.Config

	// NoBreakers leaves out no instance for what its answers have shown. It saves half a microsecond a request.
	NoBreakers bool

	// NoFloor lets breakers leave out every instance, so that requests fail at once: see roster.Config.NoFloor.
	NoFloor bool

	// Fleet is the one circuit breaker that each service has for all its callers, wherever they run: when enough of them see
	// that it fails, or is slow, wherever it is asked, all of them leave it alone, and one request at a time tries it. nil means
	// none: what a caller finds out stays with it, which is right as long as not all fail together. Store nil means the
	// registry itself, Key is put before the service's name, Caller "" means the Registry's. A request is asked for once,
	// before an instance is picked; who is turned away gets eider.Unavailable around a *breaker.Rejected, and no instance
	// hears of it.
	//
	// What counts is what comes of the request when its tries are over, by the same rules as for an instance: a retry that
	// goes well is a success. That nobody can be called says nothing, nor does what a bulkhead or an instance's breaker turns
	// away. Fleet.Local has the rules of this caller's own breaker of the service, which decides while the fleet's is closed
	// and while the store is away; its SlowLimit 0 means ten times Slow, and 10s at least. A trial isn't hedged, and isn't sent
	// again unless it surely cost nobody anything. It costs a request two looks at the clock more, and each service a stream to
	// the store.
	Fleet *fleet.Config

	// Failed tells which answers count against the instance. It doesn't change what is sent again: an answer is the
	// caller's, whatever its status. nil means 502, 503 and 504, by which a server or what stands before it says that it
	// can't serve. 500 isn't among them, as it may be the request's fault, and 429 says something of the caller.
	Failed func(*http.Response) bool

	// Waits tells which requests are meant to wait for their answer: long polls. However long they do, the instance isn't
	// slow, and their deadline says nothing. nil means those with a wait preference (RFC 7240): Prefer: wait=30.
	Waits func(*http.Request) bool

	// RetryRatio is the share of first attempts of the last 10 s, per service, that may be retried where the table
	// above says so. 0 means 0.2, and 10 a second in any case; below 0 means none.
	RetryRatio float64

	// Repeatable tells which requests may be sent again after a failure that may have been processed. nil means
	// idempotent by RFC 9110 or with an Idempotency-Key.
	Repeatable func(*http.Request) bool

	// Services tells which hosts are services. nil means every host that can be one; if Unknown is set, every one
	// without a dot.
	Services func(host string) bool

	// Unknown takes the requests whose host is no service, as they are, as http.DefaultTransport would. nil makes
	// them fail with a sentence, the safe choice: what is meant for a service that isn't there never goes to
	// whoever has the name in DNS.
	Unknown http.RoundTripper

	once     sync.Once
	pattern  *http.Transport // of every instance's transport
	caller   []string        // the Eider-Caller header
	traceKey any             // of httptrace in contexts
	wait     time.Duration   // for the answer's header
	counts   [causes]atomic.Uint64

	mu       sync.Mutex                          // guards closed, and writing services
	services atomic.Pointer[map[string]*service] // copied on write
	closed   bool

	instancesMu sync.Mutex
	instances   map[*instance]struct{}
}

// MaxServices bounds the services that one Transport follows: each is a subscription that drains wait for. Whoever
// builds hosts from a stranger's words must bound them by Services.
const MaxServices = 1000

var errNoRegistry = errors.New("Transport.Registry is nil: set it to registry.Open(registry.Config{})")

// RoundTrip sends the request to an instance of the service that its host names. Its errors are of the kind
// eider.Invalid (the host), eider.NoInstance (nobody of it can be called), eider.Unavailable (who was tried
// failed; the error names them all), eider.Limited ([MaxServices]) or eider.Closed, and wrap their cause.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := t.route(req)
	if err != nil {
		return nil, abandon(req, err)
	}
	if to == (target{}) {
		return t.Unknown.RoundTrip(req)
	}
	svc, err := t.service(to.service)
	if err != nil {
		return nil, abandon(req, err)
	}
	if t.TracerProvider != nil {
		return svc.traced(req, to.port)
	}
	return svc.admit(req, to.port, nil)
}

// route returns the service that a request is for, the zero target if it is for Unknown.
func (t *Transport) route(req *http.Request) (target, error) {
	if req.URL == nil {
		return target{}, &eider.Error{Kind: eider.Invalid, Err: errors.New("the request has no URL")}
	}
	to, why := parseTarget(req.URL.Scheme, req.URL.Host)
	switch {
	case why == nil && t.isService(to.service):
		return to, nil
	case t.Unknown != nil:
		return target{}, nil
	case why == nil:
		why = errors.New("Transport.Services says that it is no service, and Transport.Unknown is not set")
	}
	return target{}, &eider.Error{Kind: eider.Invalid, Err: why}
}

func (t *Transport) isService(name string) bool {
	if t.Services != nil {
		return t.Services(name)
	}
	return t.Unknown == nil || !dotted(name)
}

// service returns the followed service, following it from now on if it is new.
func (t *Transport) service(name string) (*service, error) {
	if all := t.services.Load(); all != nil {
		if svc := (*all)[name]; svc != nil {
			return svc, nil
		}
	}
	if t.Registry == nil {
		return nil, &eider.Error{Kind: eider.Invalid, Err: errNoRegistry}
	}
	t.once.Do(func() {
		t.pattern, t.wait = t.newPattern(), t.headerTimeout()
		t.caller, t.traceKey = []string{t.Registry.Caller()}, keyOfTrace()
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, &eider.Error{Kind: eider.Closed, Err: errors.New("the Transport is closed")}
	}
	next := make(map[string]*service)
	if all := t.services.Load(); all != nil {
		for known, svc := range *all {
			next[known] = svc
		}
	}
	if svc := next[name]; svc != nil {
		return svc, nil
	}
	if len(next) >= MaxServices {
		return nil, eider.Errorf(eider.Limited, "", "this Transport already follows %d services, the most it does; bound its hosts by Transport.Services", MaxServices)
	}
	svc := &service{t: t, name: name, unrepeatable: roster.Excluded{Unrepeatable: true}, waiting: roster.Excluded{Unrepeatable: true, NoTrial: true, Waits: true},
		untried: roster.Excluded{Unrepeatable: true, NoTrial: true}, budget: retry.Budget{Ratio: t.RetryRatio, MinPerSecond: min(t.RetryRatio, 0)}}
	var err error
	if svc.gate, err = t.gate(name); err != nil {
		return nil, err
	}
	svc.counts = t.Registry.Meter().Service(name)
	svc.roster = t.following(svc.companion).Follow(t.Registry, name)
	next[name] = svc
	t.services.Store(&next)
	return svc, nil
}

// CloseIdleConnections closes the idle connections to all instances, and Unknown's if it can. http.Client has a
// method of the same name that calls it.
func (t *Transport) CloseIdleConnections() {
	for _, in := range t.live() {
		in.closeIdle()
	}
	if u, ok := t.Unknown.(interface{ CloseIdleConnections() }); ok {
		u.CloseIdleConnections()
	}
}

// Close ends the following of all services: drains no longer wait for this Transport. Calls in flight end by
// themselves, new ones fail. It returns when all that it started has ended.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	all := t.services.Swap(nil)
	t.mu.Unlock()
	if all == nil {
		return nil
	}
	var errs []error
	var ending sync.WaitGroup // each gate waits for its store
	for _, svc := range *all {
		errs = append(errs, svc.roster.Close())
		ending.Go(svc.gate.Close)
	}
	ending.Wait()
	return errors.Join(errs...)
}

// Faults returns how many tries have failed since the Transport's start, by cause.
func (t *Transport) Faults() map[Cause]uint64 {
	out := make(map[Cause]uint64, causes)
	for c := range t.counts {
		if n := t.counts[c].Load(); n > 0 {
			out[Cause(c)] = n
		}
	}
	return out
}

func (t *Transport) live() []*instance {
	t.instancesMu.Lock()
	defer t.instancesMu.Unlock()
	out := make([]*instance, 0, len(t.instances))
	for in := range t.instances {
		out = append(out, in)
	}
	return out
}

func (t *Transport) tries() int {
	if t.Tries > 0 {
		return t.Tries
	}
	return 3
}

// orDefault returns d, the default if d is 0, and 0 (none) if d is below.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}

// bounded is context.WithTimeout for a timeout that may be none.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}
