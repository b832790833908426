package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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

// startInstance starts an instance and waits until it is listed.
func startInstance(t *testing.T, grpc, service, id string, h http.Handler, options ...option) *instance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in := &instance{t: t, id: id, addr: l.Addr().String(), listed: make(chan struct{}), ended: make(chan struct{})}
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
	srv := &http.Server{Handler: h}
	for _, o := range options {
		o(srv, &cfg)
	}
	in.addr = cfg.Listener.Addr().String()
	go func() {
		defer close(in.ended)
		in.report, in.err = drain.Serve(ctx, srv, cfg)
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

// load is closed loops of POSTs, each a caller of its own.
type load struct {
	t       *testing.T
	service string
	callers []*caller
	stop    context.CancelFunc
	wg      sync.WaitGroup

	requests atomic.Int64
	mu       sync.Mutex
	failures []failure
	by       map[string]int64     // answers by instance
	last     map[string]time.Time // latest answer by instance
	progress chan struct{}        // closed and replaced at each answer
}

type failure struct {
	id    string
	err   error
	began time.Time
}

// startLoad starts the loops and waits until each has had an answer.
func startLoad(t *testing.T, grpc, service string, n int, think time.Duration, base *http.Transport) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &load{t: t, service: service, stop: stop, by: map[string]int64{}, last: map[string]time.Time{}, progress: make(chan struct{})}
	var first sync.WaitGroup
	for i := range n {
		c := newCaller(t, grpc, fmt.Sprintf("caller%d", i), base)
		l.callers = append(l.callers, c)
		first.Add(1)
		l.wg.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				l.once(c, fmt.Sprintf("%d-%d", i, k))
				if k == 0 {
					first.Done()
				}
				select {
				case <-time.After(rand.N(think + 1)):
				case <-ctx.Done():
				}
			}
		})
	}
	first.Wait()
	return l
}

func (l *load) once(c *caller, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	who, err := c.post(ctx, l.service, id)
	l.requests.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, failure{id, err, began})
	}
	l.by[who]++
	l.last[who] = time.Now()
	close(l.progress)
	l.progress = make(chan struct{})
}

// until waits until a condition on the answers holds.
func (l *load) until(what string, ok func() bool) {
	l.t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		done, next := ok(), l.progress
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-next:
		case <-late:
			l.t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// more waits for so many more answers of an instance.
func (l *load) more(who string, n int64) {
	l.t.Helper()
	l.mu.Lock()
	from := l.by[who]
	l.mu.Unlock()
	l.until(fmt.Sprintf("%d more answers of %s", n, who), func() bool { return l.by[who] >= from+n })
}

// rest stops the loops; the callers stay callers.
func (l *load) rest() {
	l.stop()
	l.wg.Wait()
}

// end stops the loops, says goodbye, and tells what failed.
func (l *load) end(book *ledgerOf) {
	l.t.Helper()
	l.rest()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures[:min(5, len(l.failures))] {
		l.t.Errorf("failed: %s: %v", f.id, f.err)
	}
	if n := len(l.failures); n > 0 {
		l.t.Errorf("%d of %d requests failed", n, l.requests.Load())
	}
	if twice := book.twice(); len(twice) > 0 {
		l.t.Errorf("%d requests were worked on more than once: %.5v", len(twice), twice)
	}
	for _, c := range l.callers {
		c.close() // else the last instances would wait for callers without an alternative
		if n := c.tr.Faults(); len(n) > 0 {
			l.t.Logf("faults that were retried: %v", n)
		}
	}
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
