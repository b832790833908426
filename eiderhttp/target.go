package eiderhttp

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/eiderhq/eider"
)

// target is what a URL's host names: a service and one of its ports, "" being the main one.
type target struct{ service, port string }

// parseTarget reads the host of a URL. The error says why it can be no service.
func parseTarget(scheme, host string) (target, error) {
	own := ""
	switch {
	case strings.EqualFold(scheme, "http"):
		own = "80"
	case strings.EqualFold(scheme, "https"):
		own = "443"
	default:
		return target{}, fmt.Errorf("scheme %.20q: a service is called by http or https", scheme)
	}
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		if port := host[i+1:]; port != "" && port != own {
			return target{}, fmt.Errorf("host %.140q has a port number, and a service's address comes from the registry: leave the port out, write http://_NAME.SERVICE/ for a named one, or set Transport.Unknown for other hosts", host)
		}
		name = host[:i]
	}
	name = eider.FoldService(name)
	var to target
	if label, rest, ok := strings.Cut(name, "."); ok && len(label) > 1 && label[0] == '_' {
		to.port, name = label[1:], rest
	}
	to.service = name
	if err := eider.CheckService(name); err != nil {
		return target{}, err
	}
	if name == "localhost" || isAddress(name) {
		return target{}, errors.New("an address or localhost is no service; set Transport.Unknown for other hosts")
	}
	return to, nil
}

// isAddress tells whether a name is an IPv4 address; an IPv6 one has no form that a name may have.
func isAddress(name string) bool {
	if c := name[0]; c < '0' || c > '9' {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

func dotted(name string) bool { return strings.IndexByte(name, '.') >= 0 }
