package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/access"
	"github.com/eiderhq/eider/server/internal/replica"
)

// lookEvery is how often the files of access are looked at; a token that was revoked is let in no longer than that.
const lookEvery = time.Second

// gate is who is let in, on every port: what the settings say of it, read from their files and read again.
type gate struct {
	certs  *access.Certs // nil without TLS
	keeper *access.Keeper
	guard  *access.Guard // nil asks nobody
	audit  *access.Audit
	log    *slog.Logger
}

func newGate(s *Settings, log *slog.Logger) gate {
	g := gate{log: log, audit: &access.Audit{Log: log}}
	if s.Cert != "" {
		audit := g.audit
		g.certs = access.NewCerts(s.Cert, s.Key, s.ClientCA)
		g.certs.Refused = func(from net.Addr, err error) {
			host, _, _ := net.SplitHostPort(from.String())
			audit.Denied(nil, host, "show a certificate", err)
		}
	}
	if s.Tokens != "" {
		g.keeper = access.NewKeeper(s.Tokens)
		g.guard = &access.Guard{Keeper: g.keeper}
	}
	return g
}

// tellTo makes a replica hear of refusals and operators.
func (g *gate) tellTo(reg replica.Registry) {
	if a, ok := reg.(replica.Auditor); ok {
		g.audit.Tell = a.Audit
	}
}

// open reads the files for the first time; without them the node doesn't start.
func (g *gate) open() error {
	var faults []error
	if g.certs != nil {
		_, err := g.certs.Reload()
		faults = append(faults, err)
	}
	if g.keeper != nil {
		_, err := g.keeper.Reload()
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return &eider.Error{Op: "read who is let in", Kind: eider.Invalid, Err: err}
	}
	return nil
}

// watch reads the files again when they change, until ctx ends. What can't be read leaves what was read before, and
// says so. recheck is called when somebody may no longer be who he was.
func (g *gate) watch(ctx context.Context, recheck func()) error {
	if g.certs == nil && g.keeper == nil {
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var expires time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if g.certs != nil {
			changed, err := g.certs.Reload()
			g.tell("certificates", changed, err)
		}
		if g.keeper == nil {
			continue
		}
		changed, err := g.keeper.Reload()
		g.tell("tokens", changed, err)
		now := time.Now()
		if changed || !expires.IsZero() && !now.Before(expires) {
			recheck()
		}
		expires = g.keeper.Expires(now)
	}
}

func (g *gate) tell(what string, changed bool, err error) {
	switch {
	case err != nil:
		g.log.Error("eider: a changed file of "+what+" can't be read: the old one holds until it can", "err", err)
	case changed:
		g.log.Info("eider: read the changed file of " + what)
	}
}

// Reach says who can reach this node, and who is let in.
func (n *Node) Reach() string {
	s := &n.cfg.Settings
	what := "reachable from this machine only (loopback)"
	for _, address := range []string{s.GRPC, s.HTTP, s.Metrics} {
		if address != "" && checkLoopback(address, "") != nil {
			what = "reachable from other machines"
		}
	}
	switch {
	case n.gate.guard != nil:
		return fmt.Sprintf("%s, where %d tokens and certificates are let in", what, n.gate.keeper.Book().Len())
	case strings.Contains(what, "other"):
		return what + ", where EVERYBODY may do everything, since --insecure-… says so"
	}
	return what
}

// secured speaks TLS on a listener, if the node has a certificate.
func (g *gate) secured(lis net.Listener) net.Listener {
	if g.certs == nil {
		return lis
	}
	return tls.NewListener(lis, g.certs.Config("h2", "http/1.1"))
}
