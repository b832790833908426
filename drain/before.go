package drain

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eiderhq/eider"
)

// toldAtLeast is how long a program may take to end that stands behind a server whose requests took all of the in-flight
// deadline: of the margin, so that it hears of its end.
const toldAtLeast = 500 * time.Millisecond

// Before is [Serve] for a server that stands before a program of another process and passes everything on to it: what is
// in flight is counted and told here, so that nothing of it has to be waited for blindly, as with [Beside]. The program
// is finished once nothing is in flight any more, and it may end by itself, as there: with a crash the server's
// connections are closed and nothing is left, and if it was planned the pause is over, since there is nobody to answer.
//
// cfg.Ready must tell when the program serves. What Finish has is what is left of the in-flight deadline, at least half
// a second.
func Before(ctx context.Context, srv *http.Server, cfg Config, p Program) (Report, error) {
	var reg registrar
	if cfg.Registry != nil {
		reg = handle{cfg.Registry}
	}
	return before(ctx, srv, cfg, p, reg)
}

func before(ctx context.Context, srv *http.Server, cfg Config, p Program, reg registrar) (Report, error) {
	set, err := cfg.resolve(srv)
	if p.Finish == nil {
		err = errors.Join(err, eider.Errorf(eider.Invalid, "drain "+cfg.Service, "program.Finish: it is nil; set what ends the program"))
	}
	if err != nil {
		if cfg.Listener != nil {
			cfg.Listener.Close()
		}
		return Report{}, err
	}
	d := newDrainer(set, reg)
	d.srv, d.before = srv, &p
	return d.live(ctx)
}

// lost yields when the program behind the server has ended by itself.
func (d *drainer) lost() <-chan error {
	if d.before == nil || d.gone {
		return nil
	}
	return d.before.Ended
}
