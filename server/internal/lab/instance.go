package lab

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/registry"
)

// playInstance serves POSTs until it is told to leave, and leaves in its way.
func playInstance(ctx context.Context, r role, tell *teller, log *slog.Logger) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	reg := registry.Open(registry.Config{Addr: r.GRPC, Caller: r.Service + "@" + r.ID, Logger: log})
	defer reg.Close()
	tell.tell(line{Kind: "serving", Address: ln.Addr().String()})
	srv := &http.Server{Handler: r.handler()}
	if r.Way == wayEider {
		return r.serveEider(ctx, srv, ln, reg, tell)
	}
	return r.serveUsual(ctx, srv, ln, reg, tell)
}

func (r role) handler() http.Handler {
	var hangs gate
	hangs.listen()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		hangs.pass()
		<-time.After(r.Work)
		w.Header().Set("Demo-Instance", r.ID)
		_, _ = io.WriteString(w, "paid\n")
	})
}

// serveEider is what a user of Eider writes: one call.
func (r role) serveEider(ctx context.Context, srv *http.Server, ln net.Listener, reg *registry.Registry, tell *teller) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	report, err := drain.Serve(ctx, srv, drain.Config{
		Registry: reg, Service: r.Service, ID: r.ID, Listener: ln,
		Listed: func(s registry.State) {
			if s.Listed {
				tell.tell(line{Kind: "up", Address: ln.Addr().String(), Bound: s.Bound, To: nameOf(r.ID, s.In)})
			}
		},
		Progress: func(d eider.Drain) {
			tell.tell(line{Kind: "draining", Bound: d.Bound, Text: waitingFor(d)})
		},
	})
	tell.tell(line{Kind: "exit", Pause: report.Pause, Bound: report.Bound, Text: report.String(), Left: departed(report, time.Now())})
	return err
}

func waitingFor(d eider.Drain) string {
	if d.Reached || d.Open == 0 {
		return "everybody has let go"
	}
	text := fmt.Sprintf("waiting for %d of %d", d.Open, d.Total)
	if len(d.Members) > 0 && !d.Members[0].State.Settled() {
		text += ": " + d.Members[0].String()
	}
	return text
}

// serveUsual is what people write without Eider's drain.
func (r role) serveUsual(ctx context.Context, srv *http.Server, ln net.Listener, reg *registry.Registry, tell *teller) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	listing, err := reg.Register(registry.Registration{Service: r.Service, ID: r.ID, Address: ln.Addr().String()})
	if err != nil {
		return err
	}
	for s := range listing.Watch(ctx) {
		if s.Listed {
			break
		}
	}
	tell.tell(line{Kind: "up", Address: ln.Addr().String()})
	if r.Way == wayPlain {
		signal.Reset(syscall.SIGTERM) // what the command line listens for: Go's default is that the process ends
		return <-failed
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	began := time.Now()
	listing.Leave()
	if r.Way == waySleep {
		<-time.After(usualPause)
	}
	pause := time.Since(began)
	bounded, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = srv.Shutdown(bounded)
	_ = listing.Left(bounded)
	tell.tell(line{Kind: "exit", Pause: pause})
	return err
}
