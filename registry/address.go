package registry

import (
	"net"
	"net/netip"
	"strings"

	"github.com/eiderhq/eider"
)

// advertise returns the address that callers shall use: the one that was set, else with the local
// address of the registry connection, which is one that others on that network can reach.
func advertise(address string, ends *connEnd) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", eider.Errorf(eider.Invalid, "", "address: %q must be host:port, or :port for the address of the registry connection", address)
	}
	if unnamed(host) {
		at, ok := ipOf(ends, func(e *connEnd) net.Addr { return e.local })
		if !ok {
			return "", eider.Errorf(eider.Invalid, "", "address: %q names no host, and the registry connection has no IP address to lend; set Registration.Address to host:port", address)
		}
		host = at.String()
	}
	if remote, ok := ipOf(ends, func(e *connEnd) net.Addr { return e.remote }); ok && isLoopback(host) && !remote.IsLoopback() {
		return "", eider.Errorf(eider.Invalid, "",
			"address: %q is a loopback address, but the registry at %s is on the network, where callers can't reach it; set Registration.Address to one that they can", address, remote)
	}
	return net.JoinHostPort(host, port), nil
}

// unnamed tells whether a host says only "here".
func unnamed(host string) bool {
	if host == "" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// ipOf returns one end's IP address, without a zone, which means nothing on another host.
func ipOf(ends *connEnd, which func(*connEnd) net.Addr) (netip.Addr, bool) {
	if ends == nil || which(ends) == nil {
		return netip.Addr{}, false
	}
	at, err := netip.ParseAddrPort(which(ends).String())
	if err != nil {
		return netip.Addr{}, false
	}
	return at.Addr().Unmap().WithZone(""), true
}

// drafted returns the address with a host in place of one that isn't known yet, to check the rest of a registration.
func drafted(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && unnamed(host) {
		return net.JoinHostPort("here", port)
	}
	return address
}
