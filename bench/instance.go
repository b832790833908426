package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/eiderhq/eider/registry"
)

// What an instance's process is told.
const (
	serviceVariable = "EIDER_BENCH_SERVICE"
	idVariable      = "EIDER_BENCH_ID"
)

// serveInstance is an instance's process: an HTTP server that answers hello, and its listing.
func serveInstance() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	})}
	serving := make(chan error, 1)
	go func() { serving <- srv.Serve(ln) }()
	reg := registry.Open(registry.Config{Caller: "instance", Logger: quiet()})
	l, err := reg.Register(registry.Registration{
		Service: os.Getenv(serviceVariable), ID: os.Getenv(idVariable), Address: ln.Addr().String()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for s := range l.Watch(ctx) {
		if s.Listed {
			break
		}
	}
	fmt.Fprintln(os.Stderr, "ready "+ln.Addr().String())
	waitForEnd()
	err = errors.Join(reg.Close(), srv.Close())
	<-serving
	return err
}

func startInstance(n *node, service, id string) (*process, error) {
	return self("instance", "EIDER_ADDR="+n.grpc, serviceVariable+"="+service, idVariable+"="+id)
}

// others are instances that only make the node larger.
func others(i int) registry.Registration {
	return registry.Registration{Service: "others", ID: strconv.Itoa(i), Address: "127.0.0.1:9"}
}
