package check

import (
	"context"
	"errors"
	"net"
)

// dial connects. Without a host it tries both of the loopback's addresses, by number: a root file system without
// /etc/hosts knows no localhost, and programs that bind it may have got the one or the other.
func (a address) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	if a.host != "" {
		return d.DialContext(ctx, "tcp", a.String())
	}
	nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", a.port))
	if err == nil || ctx.Err() != nil {
		return nc, err
	}
	if six, err6 := d.DialContext(ctx, "tcp", net.JoinHostPort("::1", a.port)); err6 == nil {
		return six, nil
	}
	return nil, err
}

// plainly says why a connection failed, without the layers around it.
func plainly(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return op
	}
	return err
}
