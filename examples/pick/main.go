// Command pick chooses an instance for a client of one's own, and tells how the call went.
package main

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
)

func main() {
	reg := registry.Open(registry.Config{}) // EIDER_ADDR, else 127.0.0.1:8762
	defer reg.Close()

	r := roster.Follow(reg, "orders")
	defer r.Close()
	if err := call(context.Background(), r); err != nil {
		log.Fatal(err)
	}
}

func call(ctx context.Context, r *roster.Roster) (err error) {
	inst, done, err := r.Pick(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", inst.Address)
	if err != nil {
		return err
	}
	fmt.Println("connected to", inst.Key, "at", conn.RemoteAddr())
	return conn.Close()
}
