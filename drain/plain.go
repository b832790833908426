package drain

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
)

// ServeListener serves any protocol over lis as [Serve] serves HTTP: it accepts, registers, and when ctx ends it
// leaves, goes on accepting until the barrier, empties the accept queue, closes lis, and gives the connections
// cfg.Streams to end. serve gets each of them in a goroutine of its own; the connection is closed when it returns.
//
// serve's context ends when its connection is cut. It hears of the drain by [Started] and [Ending], and can have
// [Goodbye] say the protocol's last word. Let it end an idle connection when Ending says so, and a busy one after the
// answer that it is about to give.
//
// cfg is as for Serve, but that cfg.Listener is lis, that a connection doesn't say whose it is, and that its requests
// can't be counted: cfg.Unknown is waited for if it is above 0 and anybody has connected within the last five minutes,
// else not at all, and Silent, Round and Probes say nothing. Callers that pick with a roster close their connections before they let go
// (roster.Config.LetGo).
func ServeListener(ctx context.Context, lis net.Listener, serve func(context.Context, net.Conn), cfg Config) (Report, error) {
	var reg registrar
	if cfg.Registry != nil {
		reg = handle{cfg.Registry}
	}
	return serveListener(ctx, lis, serve, cfg, reg)
}

func serveListener(ctx context.Context, lis net.Listener, serveConn func(context.Context, net.Conn), cfg Config, reg registrar) (Report, error) {
	var faults []error
	if lis == nil {
		faults = append(faults, errors.New("lis: it is nil; listen first, as with net.Listen"))
	}
	if serveConn == nil {
		faults = append(faults, errors.New("serve: it is nil; pass what shall serve a connection"))
	}
	if cfg.Listener != nil && cfg.Listener != lis {
		faults = append(faults, errors.New("cfg.Listener: it isn't lis; leave it nil"))
	}
	if err := errors.Join(faults...); err != nil {
		if lis != nil {
			lis.Close()
		}
		return Report{}, &eider.Error{Op: "drain " + cfg.Service, Kind: eider.Invalid, Err: err}
	}
	if cfg.Listener = lis; cfg.Unknown == 0 {
		cfg.Unknown = -1
	}
	srv := &http.Server{} // without a listener: nothing of it but its Close is used
	set, err := cfg.resolve(srv)
	if err != nil {
		lis.Close()
		return Report{}, err
	}
	d := newDrainer(set, reg)
	d.srv, d.handle = srv, serveConn
	return d.live(ctx)
}

// accept is the accept loop of a plain listener.
func (d *drainer) accept() error {
	defer d.ln.Close() // once its queue is empty: whoever comes now is refused
	wait := time.Duration(0)
	for {
		nc, err := d.ln.Accept()
		if err != nil {
			if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() && !passing(err) {
				return err
			}
			wait = min(max(2*wait, 5*time.Millisecond), time.Second) // out of files, say: no loop
			d.log.Error("a connection can't be accepted; it is tried again", "service", d.set.Service, "in", wait, "err", err)
			<-time.After(wait)
			continue
		}
		wait = 0
		d.attend(nc.(*conn))
	}
}

// attend has one connection handled.
func (d *drainer) attend(c *conn) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), connKey{}, c))
	x := &exchange{conn: c, ctx: ctx, cancel: cancel, remote: c.RemoteAddr().String()}
	d.work.Unknown()
	if d.leave.Load() != nil {
		x.began = d.now()
		d.tally.arrived(x)
		d.since.met(x, false)
	}
	c.running = x
	d.book.take(c)
	go func() {
		defer cancel()
		defer c.Close() // also when it panics
		d.handle(ctx, c)
	}()
}

// passing tells whether an Accept may succeed a little later.
func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) ||
		errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ECONNABORTED)
}
