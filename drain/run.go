package drain

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider"
)

// Server is a server of another kind than net/http's, for [Run]. Its methods are called one after another, in this
// order, but that Serve goes on beside the others.
type Server interface {
	// Serve accepts connections until the listener fails, and returns; what it has accepted lives on. It closes
	// each connection that it is done with.
	Serve(net.Listener) error

	// Leave is told at the leave: it goes on serving, and says of itself that it leaves, wherever others than
	// Eider's callers look. It must return soon.
	Leave()

	// Finish is told once the pause has ended, the accept queue is empty and each connection speaks: has carried
	// something, and isn't under the deadline (its SetDeadline) that the server may have set for its first words. It
	// tells its peers that no new requests are taken, and closes their connections as they fall idle. It must not wait
	// for that.
	Finish()

	// Close ends at once what hasn't ended. It may wait for handlers; it isn't waited for longer than a second.
	Close()
}

// Run is Serve for a server of another kind: what start returns is served until ctx ends, and then drained, with the
// same protocol, the same settings and the same report. cfg.Listener must be set. The Instance is how the server
// learns of the drain, and says what it does; see eidergrpc.
//
// A connection that carries nothing is closed after cfg.Silent, one that falls silent in its first words likewise;
// cfg.Round isn't used.
func Run(ctx context.Context, cfg Config, start func(*Instance) Server) (Report, error) {
	var reg registrar
	if cfg.Registry != nil {
		reg = handle{cfg.Registry}
	}
	return runWith(ctx, cfg, reg, start)
}

func runWith(ctx context.Context, cfg Config, reg registrar, start func(*Instance) Server) (Report, error) {
	if cfg.Listener == nil {
		return Report{}, eider.Errorf(eider.Invalid, "drain "+cfg.Service, "Listener: it is nil; set it to net.Listen's for the address to serve at")
	}
	set, err := cfg.resolve(&http.Server{})
	if err != nil {
		cfg.Listener.Close()
		return Report{}, err
	}
	d := newDrainer(set, reg)
	self := &Instance{d: d}
	for i := range self.lanes {
		self.lanes[i].book = &d.book
		self.lanes[i].h2.Store(true)
	}
	d.other, d.self = start(self), self
	return d.live(ctx)
}

// Instance is this process in a [Run], as its server sees it. Its methods may be called from any goroutine.
type Instance struct {
	d     *drainer
	lanes [8]conn // the requests in progress, spread so that they don't wait for each other
}

// Leaving returns the incarnation that is leaving, "" without a registry, and whether it is.
func (i *Instance) Leaving() (incarnation string, leaving bool) {
	if l := i.d.leave.Load(); l != nil {
		return l.incarnation, true
	}
	return "", false
}

// Incoming is what a server says of a request that has arrived.
type Incoming struct {
	Method, Path string   // for the report
	Remote       net.Addr // likewise; nil if it isn't known
	Caller       string   // what it says in eider-caller; "" if nothing
	To           []string // what it says in eider-to; nil if nothing
	Probe        bool     // it only looks whether this process is well: it makes no unknown caller, and its end is no loss
	Cut          func()   // not nil for a stream, whose end nobody knows: ends it from outside, its context with it. It must return soon
}

// Call is a request in progress. It is the context for its handler, in which [Started] finds the drain.
type Call struct {
	context.Context
	x    exchange
	over atomic.Bool
	self *Instance
}

type callKey struct{}

// Value finds the call.
func (c *Call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Begin takes a request in, whose context is ctx. A nil Call means that it is for somebody else, whose address this
// process has taken over: answer that nothing was done, and who is here instead.
func (i *Instance) Begin(ctx context.Context, in Incoming) (c *Call, here string) {
	d := i.d
	named := len(in.To) > 0
	if named && !d.meant(in.To) {
		d.tally.misdirect()
		return nil, d.here()
	}
	c = &Call{Context: ctx, self: i}
	x := &c.x
	x.conn, x.ctx, x.cutter = &i.lanes[rand.N(len(i.lanes))], ctx, in.Cut
	x.method, x.path, x.peer, x.caller = in.Method, in.Path, in.Remote, in.Caller
	x.stream.Store(in.Cut != nil)
	x.probe = in.Probe
	x.conn.begin(x)
	d.took(x, in.Caller != "", named, in.Cut != nil)
	if in.Probe && in.Cut != nil && d.barred.Load() {
		x.cut() // it comes too late for endWatches
	}
	return c, ""
}

// End tells that the request's handler has returned, answered if it did so by itself. Only the first call counts, so
// that it may be deferred as well.
func (c *Call) End(answered bool) {
	if c.over.Swap(true) {
		return
	}
	c.x.returned = answered
	c.x.end()
}

// runOther accepts until the listener ends.
func (d *drainer) runOther() error {
	err := d.other.Serve(d.ln)
	if err == nil {
		err = errors.New("its Serve has returned")
	}
	return err
}

// finishOther is the last part of finish for a [Server]: it tells the peers, and lets what is in flight end under its
// deadline.
func (d *drainer) finishOther(barrier time.Duration, enough <-chan struct{}) {
	defer d.closeOther()
	deadline, streams := barrier+d.set.InFlight, barrier+d.set.Streams
	for told := false; ; {
		due, silent, all := d.book.sweepOther(barrier)
		if silent == 0 && !told { // else it might wait for their first byte before it tells anybody
			told = true
			d.other.Finish()
			d.endWatches()
		}
		if all == 0 {
			return
		}
		now := d.now()
		if streams != 0 && now >= streams {
			streams = 0
			d.cutStreams()
		}
		if now >= deadline {
			d.force("the in-flight deadline", &d.tally.r.OverranCount, &d.tally.r.Overran)
			return
		}
		t := time.NewTimer(earliest(deadline, due, streams) - now)
		select {
		case <-d.book.changed:
		case <-t.C:
		case <-enough:
			t.Stop()
			d.force("a second SIGINT", &d.tally.r.CutCount, &d.tally.r.Cut)
			return
		}
		t.Stop()
	}
}

// sweepOther closes the connections that don't speak in time: they have no request under way, and gRPC tells nobody that
// the server leaves before each speaks or has ended. It returns when the next one's time is over (0: no one's), how many
// there are of them, and how many connections in all.
func (b *book) sweepOther(barrier time.Duration) (next time.Duration, silent, all int) {
	now := b.d.now()
	for _, c := range b.all() {
		all++
		begun := c.phase.Load() != quiet
		if begun && !c.greet.Load() {
			continue
		}
		heard := max(barrier, time.Duration(c.sign.Load()))
		due := heard + b.d.set.Silent
		if begun { // a word at a time holds everybody up no longer than two silences
			patience := max(b.d.set.Silent, arriving)
			due = min(heard+patience, max(barrier, c.came)+2*patience)
		}
		if due <= now {
			if begun {
				c.kill() // whoever has its last word in this instant misses his answer, and is named
				b.d.tally.closed(http.StateNew)
				continue
			}
			if c.closeIfQuiet() {
				b.d.tally.closed(http.StateNew)
				continue
			}
			due = now + time.Millisecond // its first byte came this instant: look again
		}
		silent++
		if next == 0 || due < next {
			next = due
		}
	}
	return next, silent, all
}

// closeOther has the server end, and doesn't wait for handlers that won't.
func (d *drainer) closeOther() {
	done := make(chan struct{})
	go func() { defer close(done); d.other.Close() }()
	if !await(done, time.Second) {
		d.log.Warn("the server doesn't end: a handler goes on although its call was cut", "service", d.set.Service)
	}
}

// Close takes the connection of a [Server] out of the book, and one that a handler has taken over out of the register;
// net/http's ConnState does that for its own.
func (c *conn) Close() error {
	err := c.Conn.Close()
	switch {
	case c.book.d.other != nil:
		c.book.forget(c)
	case c.taken.Load() != nil:
		c.book.release(c)
	}
	return err
}
