package drain

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/eiderhq/eider/registry"
)

// The real handle, and a registry behind it that is away or hangs: it serves, leaves, tells in band, and
// ends. The handle says at once that nobody can have heard of the instance.
func TestD15TheRegistryIsAway(t *testing.T) {
	for name, dial := range map[string]func(t *testing.T) (net.Conn, error){
		"away": func(*testing.T) (net.Conn, error) { return nil, errors.New("away") },
		"hung": func(t *testing.T) (net.Conn, error) {
			here, there := net.Pipe() // takes nothing, says nothing
			t.Cleanup(func() { there.Close() })
			return here, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dialled := make(chan struct{}, 1)
			reg := registry.Open(registry.Config{Logger: slog.New(slog.DiscardHandler), Dial: func(context.Context, string) (net.Conn, error) {
				select {
				case dialled <- struct{}{}:
				default:
				}
				return dial(t)
			}})
			defer reg.Close()
			serveUnlisted(t, reg, dialled)
		})
	}
}

func serveUnlisted(t *testing.T, reg *registry.Registry, dialled chan struct{}) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	started, done := make(chan struct{}), make(chan result, 1)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-Started(r.Context())
		close(started)
		io.WriteString(w, "hello")
	})}
	go func() {
		rep, err := Serve(ctx, srv, Config{Registry: reg, Service: "orders", Listener: ln, Logger: slog.New(slog.DiscardHandler)})
		done <- result{rep, err}
	}()
	soon(t, dialled, "a dial to the registry")
	p := (&run{t: t, addr: ln.Addr().String()}).dial()
	p.send("/")
	stop()
	soon(t, started, "Started")
	resp, _ := p.answer()
	if in := resp.Header.Get("Eider-Leaving"); !resp.Close || len(in) != 16 {
		t.Errorf("it tells %q, close %v", in, resp.Close)
	}
	res := soon(t, done, "Serve's return")
	rep := res.report
	if res.err != nil || rep.EndedBy != NeverListed || rep.Heard || rep.Exit != ExitClean || rep.Incarnation.Nonce == 0 || rep.Incarnation.Number != 0 {
		t.Errorf("%v, %+v", res.err, rep)
	}
}
