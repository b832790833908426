package console

import (
	"errors"
	"net/http"

	"github.com/eiderhq/eider/server/internal/outlook"
)

// window answers with the windows of one service: what is known of it now, and what its departures took.
func (c *console) window(w http.ResponseWriter, r *http.Request) {
	p, err := read(r, "service")
	if err == nil && p.service == "" {
		err = invalid(errors.New("service: say of which service, as in ?service=orders"))
	}
	if err != nil {
		failWith(w, err)
		return
	}
	timing, known := c.reg.Timing(p.service)
	sum, listed := c.reg.Summary(p.service)
	if !known || !listed {
		failWith(w, c.noService(p.service))
		return
	}
	writeJSON(w, http.StatusOK, outlook.OfService(outlook.Known{Timing: timing, Node: c.reg.Node(), Instances: sum.Up + sum.Suspect + sum.Starting + sum.Down + sum.Draining,
		Callers: c.reg.Callers(p.service), Drains: c.reg.Drains(p.service)}))
}
