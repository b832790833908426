// Package node is one registry server: settings in, rooms wired, started and stopped in order.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/server/internal/front/console"
	"github.com/eiderhq/eider/server/internal/front/native"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/panel"
	"github.com/eiderhq/eider/server/internal/replica"
	"github.com/eiderhq/eider/server/internal/replica/solo"
)

// Grace is how long a stop waits for streams and requests that don't end when told to; then it cuts them.
const Grace = 2 * time.Second

// Config sets a node up. The zero value works.
type Config struct {
	Settings Settings
	Version  string       // shown on pages and in metrics
	Logger   *slog.Logger // nil means one by the settings, on standard error

	// Listen and Dial replace the network; nil means TCP. For tests.
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) error
}

// Addrs are where a node is served. Metrics is nil unless they have an address of their own.
type Addrs struct{ GRPC, HTTP, Metrics net.Addr }

// Node is one registry server. It runs once.
type Node struct {
	cfg     Config
	log     *slog.Logger
	replica replica.Registry
	panel   *panel.Panel
	native  *native.Server
	console console.Console
	gate    gate
	doors   [2]*door // of the HTTP port, and of the metrics' if they have one of their own

	ran     atomic.Bool
	pending atomic.Pointer[string] // what the node waits for before it is ready; nil once it is
	ready   chan struct{}
	addrs   Addrs // set before ready is closed
}

// New returns a node; it listens nowhere and starts nothing. The error names every setting that can't be.
func New(cfg Config) (*Node, error) {
	if err := cfg.Settings.Check(); err != nil {
		return nil, err
	}
	cfg.Settings = cfg.Settings.withDefaults()
	s := &cfg.Settings
	if s.Node == "" {
		s.Node = hostName()
	}
	if cfg.Logger == nil {
		cfg.Logger = s.Logger(os.Stderr)
	}
	if cfg.Listen == nil {
		cfg.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	n := &Node{cfg: cfg, log: cfg.Logger, ready: make(chan struct{}), gate: newGate(s, cfg.Logger)}
	n.waitFor("it hasn't started yet")
	one := solo.New(solo.Config{
		Node: s.Node, Version: cfg.Version, Fresh: s.Fresh, Data: s.Data, Logger: n.log, Dial: cfg.Dial,
		Ledger: ledger.Config{Lease: s.Lease, Beat: s.Beat, Cap: s.Cap, Networks: s.networks(),
			MaxInstances: s.MaxInstances, MaxServices: s.MaxServices, MaxCallers: s.MaxCallers, MaxHolds: s.MaxHolds},
		MaxWatchers: s.MaxStreams,
	})
	n.replica = one
	rate := func(perSecond int) native.Rate {
		return native.Rate{PerSecond: float64(perSecond), Burst: 2 * perSecond}
	}
	n.gate.tellTo(n.replica)
	n.panel = panel.New(fleet.NewMemory(s.MaxFleetKeys), n.gate.audit.Tell)
	n.native = native.New(n.replica, native.Config{Beat: s.Beat, Lease: s.Lease, Logger: n.log, Guard: n.gate.guard, Certs: n.gate.certs, Audit: n.gate.audit, Panel: n.panel, Limits: native.Limits{
		Connections: s.MaxConnections, Streams: s.MaxStreams, Instances: s.MaxStreamInstances, Subscriptions: s.MaxStreamServices,
		Register: rate(s.RegisterRate), Reattach: rate(s.ReattachRate), Watch: rate(s.WatchRate), Fleet: rate(s.FleetRate), OriginFleet: rate(max(1, s.FleetRate/4)),
		IdentityStreams: s.MaxIdentityStreams, IdentityCallers: s.MaxIdentityCallers, IdentityInstances: s.MaxIdentityInstances, IdentityRegister: rate(s.IdentityRate),
	}})
	n.doors = [2]*door{newDoor(s.MaxHTTPConnections, n.log), newDoor(s.MaxHTTPConnections, n.log)}
	n.console = console.Both(n.replica, console.Config{Version: cfg.Version, Pending: n.waitsFor, Logger: n.log, MaxStreams: s.MaxHTTPStreams,
		Collectors: slices.Concat(collectors(n.native, &n.gate), panelCollectors(n.panel), doorCollectors(n.doors[:]), diskCollectors(one)),
		Guard:      n.gate.guard, Certs: n.gate.certs, Audit: n.gate.audit, Panel: n.panel, Hosts: words(s.Host), Elsewhere: s.Metrics != ""})
	return n, nil
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil || eider.CheckID(name) != nil {
		return "eider"
	}
	return name
}

func (n *Node) waitFor(what string) { n.pending.Store(&what) }

func (n *Node) waitsFor() []string {
	if what := n.pending.Load(); what != nil {
		return []string{*what}
	}
	return nil
}

// Ready is closed once the node answers.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Addrs returns where the node is served, once it is ready.
func (n *Node) Addrs() Addrs {
	<-n.ready
	return n.addrs
}

// Run serves until ctx ends, then stops in order: not ready any more, streams told to attach elsewhere,
// pages closed, the replica last. It returns when all that it started has ended; the error is nil after
// an orderly stop.
func (n *Node) Run(ctx context.Context) error {
	if n.ran.Swap(true) {
		return eider.Errorf(eider.Closed, "run node", "this node has run already; make a new one")
	}
	if err := n.gate.open(); err != nil {
		return err
	}
	lis, err := n.listen()
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	defer running.Wait()

	replicaCtx, stopReplica := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReplica()
	pagesCtx, stopPages := context.WithCancel(context.WithoutCancel(ctx))
	pages := []*http.Server{n.pages(pagesCtx, n.console.Handler, n.doors[0]), n.pages(pagesCtx, n.console.Metrics, n.doors[1])}
	defer n.stop(pages, stopPages)

	start := func(what string, run func() error) {
		running.Go(func() {
			if err := run(); err != nil && !errors.Is(err, http.ErrServerClosed) {
				fail(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	start("replica", func() error { return n.replica.Run(replicaCtx) })
	start("access", func() error { return n.gate.watch(replicaCtx, n.native.Recheck) })
	start("grpc", func() error { return n.native.Serve(lis.grpc) })
	start("http", func() error { return pages[0].Serve(n.gate.secured(n.doors[0].at(lis.http))) })
	n.addrs = Addrs{GRPC: lis.grpc.Addr(), HTTP: lis.http.Addr()}
	if lis.metrics != nil {
		start("metrics", func() error { return pages[1].Serve(n.gate.secured(n.doors[1].at(lis.metrics))) })
		n.addrs.Metrics = lis.metrics.Addr()
	}

	if n.awaitReplica(ctx) {
		n.pending.Store(nil)
		n.log.Info(fmt.Sprintf("eider: ready, grpc %s http %s", n.addrs.GRPC, n.addrs.HTTP)) // programs read this line
		close(n.ready)
		<-ctx.Done()
	}
	n.waitFor("it is stopping")
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// awaitReplica waits until the replica answers; false if ctx ended first.
func (n *Node) awaitReplica(ctx context.Context) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !n.replica.Node().Ready {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// listeners are a node's; metrics is nil unless they have an address of their own.
type listeners struct{ grpc, http, metrics net.Listener }

// listen takes all addresses, or none.
func (n *Node) listen() (lis listeners, err error) {
	s := &n.cfg.Settings
	var faults []error
	var taken []net.Listener
	take := func(setting, address string) net.Listener {
		l, err := n.cfg.Listen(address)
		if err != nil {
			faults = append(faults, n.explain(setting, address, err))
			return nil
		}
		taken = append(taken, l)
		return l
	}
	lis.grpc, lis.http = take("grpc", s.GRPC), take("http", s.HTTP)
	if s.Metrics != "" {
		lis.metrics = take("metrics", s.Metrics)
	}
	if len(faults) == 0 {
		return lis, nil
	}
	for _, l := range taken {
		l.Close()
	}
	return listeners{}, errors.Join(faults...)
}

func (n *Node) explain(setting, address string, err error) error {
	op, kind := "listen for "+setting, eider.Unavailable
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return eider.Errorf(eider.Conflict, op, "%s is taken, perhaps by another eider server; end that one or choose another port: --%s 127.0.0.1:0 takes any free one (%w)", address, setting, err)
	case errors.Is(err, syscall.EACCES):
		return eider.Errorf(kind, op, "%s may not be used by this user; choose a port above 1023 with --%s (%w)", address, setting, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return eider.Errorf(kind, op, "this machine has no address %s; choose another with --%s, as in 127.0.0.1:0 (%w)", strings.TrimSuffix(address, ":0"), setting, err)
	}
	return &eider.Error{Op: op, Kind: kind, Err: err}
}

func (n *Node) pages(ctx context.Context, handler http.Handler, at *door) *http.Server {
	return &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState:         at.changed,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      answerWithin,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
}

// stop stops both fronts, each within the Grace.
func (n *Node) stop(pages []*http.Server, stopPages context.CancelFunc) {
	n.waitFor("it is stopping")
	ctx, cancel := context.WithTimeout(context.Background(), Grace)
	defer cancel()
	n.native.Stop(ctx)
	stopPages() // ends event streams, which Shutdown would wait for
	for _, one := range pages {
		if err := one.Shutdown(ctx); err != nil {
			one.Close()
		}
	}
	n.log.Info("eider: stopped", "node", cmp.Or(n.cfg.Settings.Node, "eider"))
}
