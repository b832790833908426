package drain

import (
	"errors"
	"net"
	"syscall"

	"github.com/eiderhq/eider"
)

// unheard explains why nothing can be listened to at the server's Addr.
func unheard(op string, err error) error {
	var address *net.AddrError
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return eider.Errorf(eider.Conflict, op, "%w; is another process serving there? Set the server's Addr, or Config.Listener", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return eider.Errorf(eider.Invalid, op, "%w; this machine hasn't got that address: set the server's Addr to one that it has, or to :PORT for all of them", err)
	case errors.Is(err, syscall.EACCES):
		return eider.Errorf(eider.Invalid, op, "%w; this user may not listen there: set the server's Addr to a port above 1023", err)
	case errors.As(err, &address), errors.As(err, &dns):
		return eider.Errorf(eider.Invalid, op, "%w; the server's Addr must be host:port or :port, as in 127.0.0.1:8080", err)
	}
	return eider.Errorf(eider.Unavailable, op, "%w; set the server's Addr, or Config.Listener", err)
}
