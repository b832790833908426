package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second // how long a test waits for what must come

var quiet = slog.New(slog.DiscardHandler)

// run is one run of a node.
type run struct {
	t    *testing.T
	grpc string
	http string
	end  context.CancelFunc
	done chan error
}

// startNode starts a node where the settings say; nothing in them means any free port, and nobody came before.
func startNode(t *testing.T, s node.Settings) *run {
	t.Helper()
	if s.GRPC == "" {
		s.GRPC = "127.0.0.1:0"
	}
	s.HTTP, s.Fresh = "127.0.0.1:0", true
	n, err := node.New(node.Config{Settings: s, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	r := &run{t: t, end: end, done: make(chan error, 1)}
	go func() { r.done <- n.Run(ctx) }()
	select {
	case <-n.Ready():
	case err := <-r.done:
		t.Fatalf("the node ended: %v", err)
	}
	r.grpc, r.http = n.Addrs().GRPC.String(), n.Addrs().HTTP.String()
	t.Cleanup(r.stop)
	return r
}

// stop ends the node, once.
func (r *run) stop() {
	r.end()
	if err, ok := <-r.done; ok {
		if err != nil {
			r.t.Errorf("node: %v", err)
		}
		close(r.done)
	}
}

// instance is one process of a service: a handle on the registry of its own, and a server that drains.
type instance struct {
	t      *testing.T
	id     string
	addr   string
	leave  context.CancelFunc
	listed chan struct{} // closed once it has been listed
	ended  chan struct{}
	report drain.Report
	err    error
}

type option func(*http.Server, *drain.Config)

// startInstance starts an instance that serves HTTP, and waits until it is listed.
func startInstance(t *testing.T, grpc, service, id string, h http.Handler, options ...option) *instance {
	t.Helper()
	srv := &http.Server{Handler: h}
	return startServing(t, grpc, service, id, func(cfg *drain.Config) {
		for _, o := range options {
			o(srv, cfg)
		}
	}, func(ctx context.Context, cfg drain.Config) (drain.Report, error) { return drain.Serve(ctx, srv, cfg) })
}

// startServing starts an instance of whatever kind, and waits until it is listed.
func startServing(t *testing.T, grpc, service, id string, configure func(*drain.Config), serve func(context.Context, drain.Config) (drain.Report, error)) *instance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in := &instance{t: t, id: id, listed: make(chan struct{}), ended: make(chan struct{})}
	reg := registry.Open(registry.Config{Addr: grpc, Caller: service + "-" + id, Logger: quiet})
	ctx, leave := context.WithCancel(context.Background())
	in.leave = leave
	var once sync.Once
	cfg := drain.Config{Registry: reg, Service: service, ID: id, Listener: l, Logger: quiet,
		Listed: func(s registry.State) {
			if s.Listed {
				once.Do(func() { close(in.listed) })
			}
		}}
	configure(&cfg)
	in.addr = cfg.Listener.Addr().String()
	go func() {
		defer close(in.ended)
		in.report, in.err = serve(ctx, cfg)
		reg.Close()
	}()
	t.Cleanup(func() { in.finish() })
	in.await("listing", in.listed)
	return in
}

func (in *instance) await(what string, done <-chan struct{}) {
	in.t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		in.t.Fatalf("%s: no %s within %v", in.id, what, patience)
	}
}

// finish has the instance leave, and returns its report.
func (in *instance) finish() drain.Report {
	in.t.Helper()
	in.leave()
	in.await("exit", in.ended)
	if in.err != nil {
		in.t.Errorf("%s: %v", in.id, in.err)
	}
	return in.report
}

// ledgerOf counts how often each request was worked on, by any instance.
type ledgerOf struct {
	mu   sync.Mutex
	runs map[string]int
}

// handler answers its name after a while, and books the request.
func (l *ledgerOf) handler(name string, takes time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		l.mu.Lock()
		if l.runs == nil {
			l.runs = map[string]int{}
		}
		l.runs[r.Header.Get("Request-Id")]++
		l.mu.Unlock()
		<-time.After(takes)
		io.WriteString(w, name)
	})
}

// twice returns the requests that were worked on more than once.
func (l *ledgerOf) twice() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.runs {
		if n > 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// caller is one calling process: a handle on the registry and a Transport of its own.
type caller struct {
	reg *registry.Registry
	tr  *eiderhttp.Transport
	hc  *http.Client
}

func newCaller(t *testing.T, grpc, name string, base *http.Transport) *caller {
	c := &caller{reg: registry.Open(registry.Config{Addr: grpc, Caller: name, Logger: quiet})}
	c.tr = &eiderhttp.Transport{Registry: c.reg, Base: base}
	c.hc = &http.Client{Transport: c.tr}
	t.Cleanup(c.close)
	return c
}

func (c *caller) close() {
	c.tr.Close()
	c.reg.Close()
}

// post sends one POST and returns who answered.
func (c *caller) post(ctx context.Context, service, id string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+service+"/pay", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Request-Id", id)
	resp, err := c.hc.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// startLoad starts loops of POSTs.
func startLoad(t *testing.T, grpc, service string, n int, think time.Duration, base *http.Transport) *load[*caller] {
	t.Helper()
	return startLoadOver(t, grpc, service, n, think, func(int) *http.Transport { return base })
}

// startLoadOver does, each loop over a base of its own.
func startLoadOver(t *testing.T, grpc, service string, n int, think time.Duration, base func(i int) *http.Transport) *load[*caller] {
	t.Helper()
	l := newLoad[*caller](t, "requests")
	l.start(n, think, func(i int) *caller { return newCaller(t, grpc, fmt.Sprintf("caller%d", i), base(i)) },
		func(ctx context.Context, c *caller, id string) error {
			who, err := c.post(ctx, service, id)
			if err == nil {
				l.answered(who)
			}
			return err
		})
	t.Cleanup(func() {
		for _, c := range l.callers {
			if n := c.tr.Faults(); len(n) > 0 {
				t.Logf("faults that were retried: %v", n)
			}
		}
	})
	return l
}

// at has an instance listen at an address that was another's.
func at(t *testing.T, addr string) option {
	return func(_ *http.Server, cfg *drain.Config) {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listener.Close()
		cfg.Listener = l
	}
}
