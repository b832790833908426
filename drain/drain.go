package drain

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// Serve serves srv until ctx ends, and then drains it. It returns when nothing is in flight any more
// and the registry knows, or at the latest Grace − 1s after ctx has ended.
//
// It listens, serves, registers, in this order, so that nobody is sent to a closed port. ctx may end at any
// time, also during start: an instance that hasn't registered by then never will. The usual ctx is that
// of signal.NotifyContext. From then on Serve hears signals itself: a further SIGTERM changes nothing, a
// second SIGINT ends it at once.
//
// srv is Serve's until it returns: its Handler, ConnState, ConnContext and TLSNextProto are wrapped, its
// RegisterOnShutdown functions run at the end. It serves TLS if srv.TLSConfig has certificates. Don't call
// its Shutdown; end ctx.
//
// An HTTP/2 client that keeps its idle connection in spite of GOAWAY delays the return by a second, which is
// net/http's own wait; Eider's callers close theirs before they let go. Streams and connections that handlers have
// hijacked are told, see [Started], [Ending] and [Goodbye], and have Config.Streams to end.
//
// The error is for what kept it from serving: a Config that doesn't hold (eider.Invalid, every fault at
// once), a port that is taken, a registration that breaks a bound, a listener that failed. Losses while
// leaving aren't errors: they are in the [Report], whose Exit is meant for os.Exit.
func Serve(ctx context.Context, srv *http.Server, cfg Config) (Report, error) {
	var reg registrar
	if cfg.Registry != nil {
		reg = handle{cfg.Registry}
	}
	return serve(ctx, srv, cfg, reg)
}

// drainer is one run of Serve.
type drainer struct {
	set    settings
	srv    *http.Server
	next   http.Handler                    // the user's
	handle func(context.Context, net.Conn) // instead, on a plain listener
	log    *slog.Logger
	base   time.Time
	book   book
	tally  tally
	ln     *listener
	goaway *http.Server // see shadow
	other  Server       // served instead of srv, by Run
	beside *Program     // another process serves, see Beside
	hooked *hooked      // nil: there are no hooks
	before *Program     // and this one stands before it, see Before
	self   *Instance    // what it is told and asked by
	reg    registrar    // nil: none

	work    *registry.Work // nil without a registry: nobody would read it
	since   strangers
	listing listing // nil until registered; written before ident
	ident   atomic.Pointer[identity]
	up      bool // the registry was told UP
	unborn  bool // the stop came before the start, so that nobody knows of this process, nor will (D14)

	leave   atomic.Pointer[leave]
	started chan struct{} // closed at the leave
	barred  atomic.Bool   // the pause has ended
	ending  chan struct{} // closed then

	served chan error // the server's accept loop has ended
	ended  bool       // and it has been heard
	gone   bool       // the program behind the server has ended by itself
}

// leave is the moment of the leave.
type leave struct {
	at          time.Duration // by the drain's clock
	incarnation string        // "" without a registry
}

func serve(ctx context.Context, srv *http.Server, cfg Config, reg registrar) (Report, error) {
	set, err := cfg.resolve(srv)
	if err != nil {
		if cfg.Listener != nil {
			cfg.Listener.Close()
		}
		return Report{}, err
	}
	d := newDrainer(set, reg)
	d.srv = srv
	return d.live(ctx)
}

func newDrainer(set settings, reg registrar) *drainer {
	d := &drainer{set: set, reg: reg, log: set.Logger, base: time.Now(),
		started: make(chan struct{}), ending: make(chan struct{}), served: make(chan error, 1)}
	d.book = book{d: d, conns: make(map[*conn]struct{}), taken: make(map[*conn]*exchange), changed: make(chan struct{}, 1)}
	d.tally.d = d
	if reg != nil {
		d.work = registry.NewWork()
	}
	return d
}

// through serves and leaves, and hears of no hook.
func (d *drainer) through(ctx context.Context) (Report, error) {
	d.unborn = ctx.Err() != nil
	if d.unborn && d.beside == nil && d.before == nil {
		if d.set.Listener != nil {
			d.set.Listener.Close()
		}
		return Report{Service: d.set.Service, EndedBy: ByNoCallers}, nil
	}
	if err := d.open(); err != nil {
		return Report{}, err
	}
	if err := d.register(ctx); err != nil {
		d.abandon()
		return Report{}, err
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); d.watch(watching) }()
	defer func() { stop(); await(watched, time.Second) }()
	err := d.stay(ctx)
	if err != nil && (d.beside != nil || d.gone) { // no leave of the living: who is found dead is waited for by nobody
		d.abandon()
		return d.crashed(), err
	}
	return d.depart(ctx), err
}

func (d *drainer) op(what string) string {
	return strings.TrimSpace("drain " + d.set.Service + ": " + what)
}

// open begins to serve.
func (d *drainer) open() error {
	if d.beside != nil {
		return nil
	}
	if d.unborn {
		d.ended = true // before it has begun
		if d.set.Listener != nil {
			d.set.Listener.Close()
		}
		return nil
	}
	if err := d.listen(); err != nil {
		return err
	}
	d.takeOver()
	go func() { d.served <- d.run() }()
	return nil
}

func (d *drainer) listen() error {
	ln := d.set.Listener
	if ln == nil {
		addr := d.srv.Addr
		if addr == "" {
			addr = ":http"
			if d.set.tls {
				addr = ":https"
			}
		}
		var err error
		if ln, err = net.Listen("tcp", addr); err != nil {
			return unheard(d.op("listen"), err)
		}
	}
	d.ln = &listener{Listener: ln, book: &d.book}
	return nil
}

// takeOver puts the drain around the server's hooks.
func (d *drainer) takeOver() {
	if d.other != nil || d.handle != nil {
		return
	}
	srv := d.srv
	if d.next = srv.Handler; d.next == nil {
		d.next = http.DefaultServeMux
	}
	srv.Handler = d
	noted := srv.ConnState
	srv.ConnState = func(nc net.Conn, s http.ConnState) {
		d.book.note(nc, s)
		if noted != nil {
			noted(shown(nc), s)
		}
	}
	inner := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if inner != nil {
			ctx = inner(ctx, shown(nc))
		}
		if c, ok := below(nc); ok {
			ctx = context.WithValue(ctx, connKey{}, c)
		}
		return ctx
	}
	d.goaway = shadow(srv)
}

// shown is the connection as the user's hooks know it: as the listener gave it, or TLS upon that.
func shown(nc net.Conn) net.Conn {
	if c, ok := nc.(*conn); ok {
		return c.Conn
	}
	return nc
}

func (d *drainer) run() error {
	switch {
	case d.other != nil:
		return d.runOther()
	case d.handle != nil:
		return d.accept()
	case d.set.tls:
		return d.srv.ServeTLS(d.ln, "", "")
	}
	return d.srv.Serve(d.ln)
}

// register lists the instance, unless ctx has ended: a stop forbids it (D14).
func (d *drainer) register(ctx context.Context) error {
	if d.reg == nil || ctx.Err() != nil {
		return nil
	}
	r := registry.Registration{Service: d.set.Service, ID: d.set.ID, Address: d.address(),
		Ports: d.set.Ports, Zone: d.set.Zone, Metadata: d.set.Metadata, Status: eider.Up,
		Work: d.work, Unknown: d.set.Unknown}
	if r.Unknown == 0 {
		r.Unknown = -1 // here 0 is none
	}
	if d.set.Ready != nil {
		r.Status = eider.Starting
	}
	l, err := d.reg.register(r)
	if err != nil {
		return err
	}
	d.listing, d.up = l, r.Status == eider.Up
	d.learn()
	return nil
}

// stay serves until ctx ends or the server does, which is an error.
func (d *drainer) stay(ctx context.Context) error {
	ready := d.set.Ready
	if d.up {
		ready = nil
	}
	var ill error // as Health said last
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.unserved():
			d.ended = true
			if d.beside != nil {
				return d.over(ctx, err)
			}
			return eider.Errorf(eider.Unavailable, d.op("serve"), "the server stopped serving by itself: %w", err)
		case err := <-d.lost():
			d.gone = true
			return d.over(ctx, err)
		case <-ready:
			if ready = nil; d.listing == nil || ctx.Err() != nil {
				continue
			}
			d.up = true
			d.say(ill)
		case sick := <-d.set.Health:
			if ill = sick; d.up && ctx.Err() == nil {
				d.say(ill)
			}
		}
	}
}

// say tells the registry whether this instance can serve.
func (d *drainer) say(ill error) {
	status, log := eider.Up, d.log
	if ill != nil {
		status, log = eider.Down, log.With("why", ill)
	}
	log.Info("this instance says of itself that it is "+status.String(), "service", d.set.Service)
	if err := d.listing.SetStatus(status); err != nil {
		d.log.Error("the registry can't be told what this instance says of itself", "service", d.set.Service, "status", status, "err", err)
	}
}

// watch follows the listing: who this process is, and whether a drain would fit into the grace.
func (d *drainer) watch(ctx context.Context) {
	if d.listing == nil {
		return
	}
	var warned time.Duration
	for s := range d.listing.Watch(ctx) {
		d.learn()
		if room := d.set.room.Worst(); s.Bound > room && s.Bound != warned {
			warned = s.Bound
			d.log.Warn("a drain begun now may be cut short: callers may need longer to let go than the grace allows",
				"service", d.set.Service, "id", s.As.ID, "bound", s.Bound, "room", d.set.room.String())
		}
		if d.set.Listed != nil {
			d.set.Listed(s)
		}
	}
}

// abandon takes down what nobody was told of.
func (d *drainer) abandon() {
	switch {
	case d.beside != nil:
		return // its owner's
	case d.other != nil:
		d.ln.Close()
		d.closeOther()
	case d.handle != nil:
		d.ln.Close()
	default:
		d.srv.Close()
	}
	if !d.ended {
		await(d.served, time.Second)
	}
	for _, c := range d.book.upgraded() {
		c.kill()
	}
}

// await waits for what should be over in no time, but not for ever.
func await[T any](done <-chan T, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// errNoListener is what the shadow's listener answers.
var errNoListener = errors.New("drain: no listener")

// shadow gives the server's HTTP/2 connections a GOAWAY switch of their own. Shutdown alone sends GOAWAY
// to idle ones, but it also makes net/http drop requests that arrive on HTTP/1 connections (D1). Its
// HTTP/2 side listens to the Shutdown of the server that it was set up for, so it is set up for another
// server, which never serves, and handed to the real one: the other's Shutdown is the switch. nil when
// the user brought an HTTP/2 of their own, or none: then the real Shutdown does it, last of all.
func shadow(srv *http.Server) *http.Server {
	if _, own := srv.TLSNextProto["h2"]; own || srv.TLSNextProto != nil && srv.Protocols == nil {
		return nil
	}
	s := &http.Server{Protocols: srv.Protocols, HTTP2: srv.HTTP2, ReadTimeout: srv.ReadTimeout, IdleTimeout: srv.IdleTimeout, ErrorLog: srv.ErrorLog}
	if srv.TLSConfig != nil {
		s.TLSConfig = srv.TLSConfig.Clone()
		s.TLSConfig.NextProtos = append([]string{"h2"}, s.TLSConfig.NextProtos...) // else it isn't set up at all
	}
	if err := s.Serve(noListener{}); !errors.Is(err, errNoListener) || len(s.TLSNextProto) == 0 {
		return nil // the real server will say what is wrong
	}
	maps.Copy(s.TLSNextProto, srv.TLSNextProto) // protocols of the user's own
	srv.TLSNextProto = s.TLSNextProto
	return s
}

// noListener never accepts.
type noListener struct{}

func (noListener) Accept() (net.Conn, error) { return nil, errNoListener }
func (noListener) Close() error              { return nil }
func (noListener) Addr() net.Addr            { return &net.TCPAddr{} }
