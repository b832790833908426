package drain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/eiderhq/eider"
)

// Program is one that another process serves, for [Beside].
type Program struct {
	// Ended yields once when the program has ended by itself, before anybody called Finish: nil if that was planned,
	// else how it crashed. nil means that nobody can tell.
	Ended <-chan error

	// Finish is called once, when the pause is over, also if the program has ended by itself by then: it ends the
	// program, and returns when nothing of it runs any more. ctx ends at the in-flight deadline, or with a second
	// SIGINT: kill it then. It isn't waited for longer than a second after that.
	Finish func(ctx context.Context)

	// Paused is called when the pause is over, with the report as it stands then. nil means that nobody wants to know.
	Paused func(Report)

	// Others is called before Finish, and returns when the pauses of the program's other services are over too: they
	// share one end. ctx ends where the longest pause would. nil means that there are none.
	Others func(ctx context.Context)
}

// Beside is [Serve] for a program that another process serves at cfg.Address, and that knows nothing of Eider: it
// registers it, and when ctx ends it leaves, lets the program serve until the barrier, and has it finished. cfg.Address
// is host:port; without a host it is the local one of the registry connection. The program must serve by the time
// Beside is called, or cfg.Ready tell when it does.
//
// Its requests can't be counted, so cfg.Unknown is waited for at every leave, 8s unless set; negative says that all of
// its callers are Eider's. cfg.Listener must be nil, and Streams, Silent, Round and Probes say nothing.
//
// A program that ends by itself leaves at once if that was planned, without a pause: nobody serves any more. If it has
// crashed, Beside returns how, and doesn't leave: close the registry handle, and the registry finds the port shut, and
// says DEAD at once. Finish isn't called then, nor after any other error. ctx may end before or during start: then the
// program never registers, and is finished.
//
// A program of several services has one Beside each, side by side, over one registry handle, and [Program.Others].
func Beside(ctx context.Context, cfg Config, p Program) (Report, error) {
	var reg registrar
	if cfg.Registry != nil {
		reg = handle{cfg.Registry}
	}
	return beside(ctx, cfg, p, reg)
}

func beside(ctx context.Context, cfg Config, p Program, reg registrar) (Report, error) {
	var faults []error
	if p.Finish == nil {
		faults = append(faults, errors.New("program.Finish: it is nil; set what ends the program"))
	}
	if cfg.Listener != nil {
		faults = append(faults, errors.New("cfg.Listener: it is set, but another process serves; set cfg.Address alone"))
	}
	if err := dialable(cfg.Address); err != nil {
		faults = append(faults, err)
	}
	set, err := cfg.resolve(&http.Server{})
	if e, ok := errors.AsType[*eider.Error](err); ok {
		err = e.Err // whose drain it is, is said once
	}
	if err = errors.Join(append(faults, err)...); err != nil {
		return Report{}, &eider.Error{Op: "drain " + cfg.Service, Kind: eider.Invalid, Err: err}
	}
	d := newDrainer(set, reg)
	d.beside = &p
	if set.Unknown > 0 {
		d.work.Uncounted()
		d.since.blind()
	}
	return d.live(ctx)
}

// dialable tells whether an address says at which port others find the program.
func dialable(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		if n, bad := strconv.ParseUint(port, 10, 16); bad != nil || n == 0 {
			err = fmt.Errorf("port %q is none", port)
		}
	}
	if err != nil {
		return fmt.Errorf("cfg.Address: %.100q: %w; set it to the host:port where the program serves, as in :8080", address, err)
	}
	return nil
}

// over judges a program that ended by itself: an error is a crash, unless it is to leave anyway.
func (d *drainer) over(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		d.log.Info("the program has ended by itself", "service", d.set.Service, "err", err)
		return nil
	}
	return eider.Errorf(eider.Unavailable, d.op("serve"), "the program ended by itself: %w", err)
}

// crashed is the report of a departure that was none.
func (d *drainer) crashed() Report {
	r := Report{Service: d.set.Service, EndedBy: ByServer, Exit: ExitLoss}
	if d.listing != nil {
		r.ID, r.Incarnation = d.learn().id, d.listing.State().In
	}
	return r
}

// finishProgram has the program end.
func (d *drainer) finishProgram(p *Program, barrier time.Duration, enough <-chan struct{}) {
	if p.Others != nil {
		begun := d.now()
		d.during(d.leave.Load().at+d.set.room.Worst(), enough, p.Others)
		barrier += d.now() - begun
	}
	until := barrier + d.set.InFlight
	if d.before != nil {
		until = max(until, d.now()+toldAtLeast)
	}
	if d.during(until, enough, p.Finish) {
		return
	}
	d.tally.killed()
	d.log.Error("the program hadn't ended in time: what it had in flight is lost", "service", d.set.Service, "in_flight", d.set.InFlight)
}

// during calls f, whose context ends at a time of the drain's clock, or when it is enough, and tells whether f was done
// by then. What goes on in spite of that is left alone after a second.
func (d *drainer) during(until time.Duration, enough <-chan struct{}, f func(context.Context)) (inTime bool) {
	ctx, cancel := context.WithDeadline(context.Background(), d.base.Add(until))
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-enough:
		cancel()
	}
	await(done, time.Second)
	return false
}
