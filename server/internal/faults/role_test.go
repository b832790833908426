//go:build linux

package faults

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// registry plays a node until a signal ends it.
func (o order) registry(ctx context.Context, say *speaker, words <-chan string) (int, error) {
	if o.SlowStart {
		say.say(line{Kind: "starting"})
		<-words
	}
	n, err := node.New(node.Config{Settings: o.Settings, Logger: slog.New(slog.NewTextHandler(say, nil))})
	if err != nil {
		return 1, err
	}
	go func() {
		<-n.Ready()
		say.say(line{Kind: "ready", GRPC: n.Addrs().GRPC.String(), HTTP: n.Addrs().HTTP.String()})
	}()
	if err := n.Run(ctx); err != nil {
		return 1, err
	}
	return 0, nil
}

// instance plays a process of a service until a signal has it leave.
func (o order) instance(ctx context.Context, say *speaker, words <-chan string, log *slog.Logger) (int, error) {
	if o.SlowStart {
		say.say(line{Kind: "starting"})
		<-words
	}
	ln, err := net.Listen("tcp", cmp.Or(o.Listen, "127.0.0.1:0"))
	if err != nil {
		return 1, err
	}
	say.say(line{Kind: "serving", Addr: ln.Addr().String()})
	reg := registry.Open(registry.Config{Addr: o.GRPC, Caller: o.Service + "-" + o.ID, Logger: log})
	defer reg.Close()
	report, err := drain.Serve(ctx, &http.Server{Handler: o.handler()}, drain.Config{
		Registry: reg, Service: o.Service, ID: o.ID, Listener: ln, InFlight: o.InFlight, Streams: o.Streams, Unknown: o.Unknown, Logger: log,
		Listed: func(s registry.State) {
			kind := "unlisted"
			if s.Listed {
				kind = "listed"
			}
			say.say(line{Kind: kind, Addr: ln.Addr().String(), Text: s.String() + " " + s.In.String()})
		},
		Progress: func(d eider.Drain) { say.say(line{Kind: "progress", Drain: &d}) },
	})
	if err != nil {
		return 1, err
	}
	say.say(line{Kind: "report", Report: &report})
	return report.Exit, nil
}

// handler answers POSTs by its name; /events is a stream that ends when told, /deaf one that doesn't, /stuck an
// answer that never comes.
func (o order) handler() http.Handler {
	name := o.Service + "/" + o.ID
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-time.After(2 * time.Millisecond)
		io.WriteString(w, name)
	})
	stream := func(w http.ResponseWriter, r *http.Request, told <-chan struct{}) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			fmt.Fprintf(w, "data: %s\n\n", name)
			w.(http.Flusher).Flush()
			select {
			case <-told:
				io.WriteString(w, "data: bye\n\n")
				return
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { stream(w, r, drain.Started(r.Context())) })
	mux.HandleFunc("GET /deaf", func(w http.ResponseWriter, r *http.Request) { stream(w, r, nil) })
	mux.HandleFunc("POST /stuck", func(http.ResponseWriter, *http.Request) { select {} })
	return mux
}

// caller plays a process that calls a service, in one closed loop, until it is told "end". Told "tally" it says
// how it went so far.
func (o order) caller(ctx context.Context, say *speaker, words <-chan string, log *slog.Logger) (int, error) {
	reg := registry.Open(registry.Config{Addr: o.GRPC, Caller: "caller", Logger: log})
	defer reg.Close()
	if o.Base {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 1, err
		}
		defer ln.Close()
		listing, err := reg.Register(registry.Registration{Service: o.ID, ID: "1", Address: ln.Addr().String()})
		if err != nil {
			return 1, err
		}
		for s := range listing.Watch(ctx) {
			if s.Listed {
				break
			}
		}
	}
	l := newLoop(reg, o.Service)
	say.say(line{Kind: "ready", Text: reg.Caller()})
	l.start()
	defer l.close()
	for {
		select {
		case <-ctx.Done():
			return 0, nil
		case word := <-words:
			switch word {
			case "tally":
				t := l.tally()
				say.say(line{Kind: "tally", Tally: &t})
			case "end":
				return 0, nil
			}
		}
	}
}
