package roster_test

import (
	"context"
	"net"

	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
)

// A caller that dials by itself.
func ExampleRoster_Pick() {
	reg := registry.Open(registry.Config{})
	defer reg.Close()
	orders := roster.Follow(reg, "orders")
	defer orders.Close()

	dial := func(ctx context.Context) (_ net.Conn, err error) {
		in, done, err := orders.Pick(ctx)
		if err != nil {
			return nil, err // it says who is there, and why not
		}
		defer done(&err)
		return new(net.Dialer).DialContext(ctx, "tcp", in.Address)
	}
	_ = dial
}
