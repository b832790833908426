package lab

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
)

// frontPool is how many requests a front works on at a time; what comes on top is turned away.
const frontPool = 200

// front is a service that calls another one. Its pool is shared by what needs that one (/pay) and what needs nobody
// (/stock), the innocent.
type front struct {
	pool   chan struct{}
	client *http.Client
	tell   *teller
}

func playFront(ctx context.Context, r role, tell *teller, log *slog.Logger) error {
	reg := registry.Open(registry.Config{Addr: r.GRPC, Caller: "front", Logger: log})
	defer reg.Close()
	transport, err := r.guarded(reg)
	if err != nil {
		return err
	}
	defer transport.Close()
	f := &front{pool: make(chan struct{}, frontPool), tell: tell, client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/pay", f.pay)
	mux.HandleFunc("/stock", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "12 in stock\n") })
	srv := &http.Server{Handler: f.pooled(mux)}
	tell.tell(line{Kind: "serving", Address: ln.Addr().String()})
	go func() { // the conductor ends this process when it has seen enough; who still waits then isn't counted
		<-ctx.Done()
		srv.Close()
	}()
	if err := srv.Serve(ln); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// pooled gives each request a place in the pool for as long as it takes.
func (f *front) pooled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case f.pool <- struct{}{}:
		default:
			http.Error(w, fmt.Sprintf("all %d places are taken", frontPool), http.StatusServiceUnavailable)
			return
		}
		defer func() { <-f.pool }()
		if len(f.pool) == frontPool {
			f.tell.tell(line{Kind: "full", At: time.Now().UnixNano()})
		}
		next.ServeHTTP(w, req)
	})
}

// pay calls the service that the scene is about.
func (f *front) pay(w http.ResponseWriter, req *http.Request) {
	out, err := http.NewRequestWithContext(req.Context(), http.MethodPost, "http://"+service+"/pay", http.NoBody)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	resp, err := f.client.Do(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// guarded returns the transport that guards its calls in a way.
func (r role) guarded(reg *registry.Registry) (*eiderhttp.Transport, error) {
	t := &eiderhttp.Transport{Registry: reg, Breaker: breaker.Config{SlowLimit: -1}}
	switch r.Way {
	case wayErrors:
	case waySlow:
		t.Breaker = breaker.Config{SlowLimit: 3 * r.Work}
	case wayBulkhead:
		t.Bulkhead = &bulkhead.Config{}
	default:
		return nil, fmt.Errorf("demo child: no front guards its calls by %q", r.Way)
	}
	return t, nil
}
