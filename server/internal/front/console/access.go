package console

import (
	"context"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/access"
)

// role is what a route asks of who comes.
type role uint8

const (
	anybody  role = iota // probes, which carry nothing
	reader               // read
	operator             // operate
)

// foreign tells why a request must not come in whoever sends it, "" if it may: browsers carry requests of pages that
// their user didn't mean to.
func (c *console) foreign(r *http.Request) (reason, sentence string) {
	switch {
	case !c.known(r):
		return "host", fmt.Sprintf("this node doesn't answer to %.80q: ask for it as localhost or by its loopback address, as in http://127.0.0.1:8761/, or name what it is called with --host", r.Host)
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
		return "cross-site", "a page of another site asked: only programs and pages of this node may"
	case !sameOrigin(r):
		return "origin", "a page of another origin asked: only programs and pages of this node may"
	}
	return "", ""
}

// sameOrigin tells whether a request that says which page it comes from comes from this node's.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Values("Origin")
	if len(origin) == 0 {
		return true
	}
	u, err := url.Parse(origin[0])
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return err == nil && len(origin) == 1 && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// known tells whether a request may name this node so. A browser that was led here by a stranger's name
// (DNS rebinding) names the stranger's; no name at all is no browser. An address can't be led elsewhere, so the one
// that the connection came to is known too, and a name that the certificate proves.
func (c *console) known(r *http.Request) bool {
	host := r.Host
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	} else if name, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(name, "]"); !ok {
			return false
		}
	}
	if host == "" || c.hosts[strings.ToLower(host)] {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return r.TLS != nil && c.cfg.Certs.Names(host)
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return addr.Unmap().IsLoopback() || ok && addrOf(local.String()) == addr.Unmap()
}

// addrOf returns the IP of an address, the zero one if it has none.
func addrOf(text string) netip.Addr {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// from is where a request comes from, for people.
func from(r *http.Request) string {
	if addr := addrOf(r.RemoteAddr); addr.IsValid() {
		return addr.String()
	}
	return "somewhere"
}

// asked is the key under which a request's context carries who asks.
type asked struct{}

// whoAsks returns who sends a request; nil where nobody is asked who he is.
func whoAsks(r *http.Request) *access.Identity {
	who, _ := r.Context().Value(asked{}).(*access.Identity)
	return who
}

// allowed lets those through who have the role.
func (c *console) allowed(need role, serve http.HandlerFunc) http.HandlerFunc {
	if c.cfg.Guard == nil || need == anybody {
		return serve
	}
	return func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		what := r.Method + " " + r.URL.Path
		who, err := c.cfg.Guard.Identify(token, c.cfg.Certs.Verified(r.TLS))
		if err != nil {
			c.cfg.Audit.Denied(nil, from(r), what, err)
			c.metrics.refuse("unknown")
			w.Header().Set("WWW-Authenticate", `Bearer realm="eider"`)
			fail(w, http.StatusUnauthorized, eider.Denied, err.Error())
			return
		}
		name, has := "read", who.MayRead()
		if need == operator {
			name, has = "operate", who.MayOperate()
		}
		if !has {
			err = access.Denial("", who, name)
			c.cfg.Audit.Denied(who, from(r), what, err)
			c.metrics.refuse("role")
			failWith(w, err)
			return
		}
		serve(w, r.WithContext(context.WithValue(r.Context(), asked{}, who)))
	}
}

// writes is what every route that changes something stands behind: who has the role operate, as a program or as a
// page of this node. A form of another page can't send JSON, and can't hide its origin.
func (c *console) writes(serve http.HandlerFunc) http.HandlerFunc {
	return c.allowed(operator, func(w http.ResponseWriter, r *http.Request) {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/json" {
			c.metrics.refuse("type")
			fail(w, http.StatusUnsupportedMediaType, eider.Invalid, "what changes something is sent as JSON: set Content-Type to application/json")
			return
		}
		serve(w, r)
	})
}

// operated tells of an operator's act.
func (c *console) operated(r *http.Request, what string, key eider.Key) {
	c.cfg.Audit.Operated(whoAsks(r), from(r), what, key)
}

// still tells whether who asks for something that stays is still let in.
func (c *console) still(r *http.Request) bool {
	return c.cfg.Guard == nil || c.cfg.Guard.Still(whoAsks(r))
}
