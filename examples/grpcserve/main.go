// Command grpcserve is a gRPC service that leaves without losing a call.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/eidergrpc"
	"github.com/eiderhq/eider/registry"
)

func main() {
	addr := flag.String("addr", ":9090", "where to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reg := registry.Open(registry.Config{}) // EIDER_ADDR, else 127.0.0.1:8762
	defer reg.Close()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}

	srv := eidergrpc.NewServer() // a *grpc.Server with the health service; register your own as usual
	report, err := eidergrpc.Serve(ctx, srv, drain.Config{Registry: reg, Service: "tills", Listener: l})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(report)
}
