// Command stream is a service of event streams that end with a word when it leaves, so that clients come back elsewhere.
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
	"time"

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

	srv := &http.Server{Addr: *addr, Handler: http.HandlerFunc(ticks)}
	report, err := drain.Serve(ctx, srv, drain.Config{Registry: reg, Service: "ticks"})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(report)
}

// ticks tells the time until the client has enough or the pause of the drain has ended: whoever comes back then is
// sent to another instance.
func ticks(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		fmt.Fprintf(w, "data: %s\n\n", time.Now().Format(time.TimeOnly))
		if out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-drain.Ending(r.Context()):
			fmt.Fprint(w, "event: bye\ndata: come back in a moment\nretry: 100\n\n")
			return
		}
	}
}
