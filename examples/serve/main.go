// Command serve is a service that leaves without losing a request.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/registry"
)

func main() {
	addr := flag.String("addr", ":8080", "where to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reg := registry.Open(registry.Config{}) // EIDER_ADDR, else 127.0.0.1:8762
	defer reg.Close()

	srv := &http.Server{Addr: *addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "paid")
	})}
	report, err := drain.Serve(ctx, srv, drain.Config{Registry: reg, Service: "orders"}) // srv is an *http.Server
	if err != nil {
		log.Fatal(err)
	}
	log.Print(report)
}
