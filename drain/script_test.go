package drain

import (
	"bufio"
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// patience bounds every wait of a test: what takes longer is stuck.
const patience = 20 * time.Second

// script is a registry that does what its test says.
type script struct {
	mu         sync.Mutex
	refuse     error // Register's answer
	state      registry.State
	registered []registry.Registration
	statuses   []eider.Status
	left       int
	leftHangs  bool
	drain      eider.Drain
	heard      bool
	bound      time.Duration
	changed    chan struct{}
	barrier    chan struct{}
	leave      chan struct{} // closed by Leave
	news       chan struct{} // closed when state changes
	known      chan struct{} // of 1: it is registered, or refused
}

var me = eider.Incarnation{Number: 3, Nonce: 0xabc}

func newScript() *script {
	return &script{bound: 8 * time.Second, changed: make(chan struct{}), barrier: make(chan struct{}),
		leave: make(chan struct{}), news: make(chan struct{}), known: make(chan struct{}, 1),
		state: registry.State{As: eider.Key{Service: "orders", ID: "1"}, In: me, Bound: 8 * time.Second}}
}

func (s *script) register(r registry.Registration) (listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registered = append(s.registered, r)
	if s.refuse != nil {
		s.known <- struct{}{}
		return nil, s.refuse
	}
	return s, nil
}

func (s *script) State() registry.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *script) Watch(ctx context.Context) iter.Seq[registry.State] {
	s.known <- struct{}{} // only now: the drain has learned who it is
	return func(yield func(registry.State) bool) {
		for {
			s.mu.Lock()
			state, news := s.state, s.news
			s.mu.Unlock()
			if !yield(state) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-news:
			}
		}
	}
}

func (s *script) SetStatus(st eider.Status) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, st)
	return nil
}

func (s *script) Leave() leaving {
	close(s.leave)
	return scriptLeaving{s}
}

func (s *script) Left(ctx context.Context) error {
	s.mu.Lock()
	s.left++
	hangs := s.leftHangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// says changes the script's drain, as a node's push would.
func (s *script) says(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// becomes changes the script's state.
func (s *script) becomes(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.news)
	s.news = make(chan struct{})
}

// scriptLeaving has Drain beside the listing's methods.
type scriptLeaving struct{ s *script }

func (l scriptLeaving) Barrier() <-chan struct{} { return l.s.barrier }

func (l scriptLeaving) Drain() (eider.Drain, bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.drain, l.s.heard
}

func (l scriptLeaving) Changed() <-chan struct{} {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.changed
}

func (l scriptLeaving) Bound() time.Duration {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.bound
}

// run is one Serve under test.
type run struct {
	t      *testing.T
	addr   string
	reg    *script
	stop   context.CancelFunc // ends Serve's context: the leave
	result chan result
}

type result struct {
	report Report
	err    error
}

// begin serves handler with a scripted registry; tune may change both configurations.
func begin(t *testing.T, handler http.HandlerFunc, tune func(*http.Server, *Config)) *run {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: handler}
	cfg := Config{Service: "orders", ID: "1", Listener: ln, Logger: slog.New(slog.DiscardHandler), Silent: -1, Round: -1, Unknown: -1}
	if tune != nil {
		tune(srv, &cfg)
	}
	ctx, stop := context.WithCancel(t.Context())
	reg := newScript()
	r := &run{t: t, addr: ln.Addr().String(), reg: reg, stop: stop, result: make(chan result, 1)}
	go func() {
		report, err := serve(ctx, srv, cfg, reg)
		r.result <- result{report, err}
	}()
	t.Cleanup(stop)
	soon(t, reg.known, "the registration")
	return r
}

// leave ends the context and returns once the registry has heard of the leave.
func (r *run) leave() {
	r.t.Helper()
	r.stop()
	soon(r.t, r.reg.leave, "the leave")
}

// barrier is reached.
func (r *run) barrier() { close(r.reg.barrier) }

// end waits for Serve's return.
func (r *run) end() Report {
	r.t.Helper()
	res := soon(r.t, r.result, "Serve's return")
	if res.err != nil {
		r.t.Fatal(res.err)
	}
	return res.report
}

// unlistened returns once the port refuses.
func (r *run) unlistened() {
	r.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; {
		nc, err := net.Dial("tcp", r.addr)
		if err != nil {
			return
		}
		nc.Close()
	}
	r.t.Fatal("the listener never closes")
}

// soon receives, within the test's patience.
func soon[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Fatalf("%s doesn't come", what)
	}
	return v
}

// peer is a client that shows every byte: no retries, no pool.
type peer struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (r *run) dial() *peer {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &peer{r.t, nc, bufio.NewReader(nc)}
}

// send writes a POST.
func (p *peer) send(path string, headers ...string) {
	p.t.Helper()
	var more strings.Builder
	for _, h := range headers {
		more.WriteString(h + "\r\n")
	}
	if _, err := io.WriteString(p, "POST "+path+" HTTP/1.1\r\nHost: orders\r\nContent-Length: 2\r\n"+more.String()+"\r\nhi"); err != nil {
		p.t.Fatalf("send %s: %v", path, err)
	}
}

// head reads the headers of an answer, which the test has to read on.
func (p *peer) head() *http.Response {
	p.t.Helper()
	resp, err := http.ReadResponse(p.r, nil)
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	return resp
}

// answer reads a whole answer.
func (p *peer) answer() (*http.Response, string) {
	p.t.Helper()
	resp := p.head()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("the answer breaks off: %v", err)
	}
	return resp, string(body)
}

// told holds an HTTP/1 answer from after the leave to what it must say.
func told(t *testing.T, resp *http.Response) {
	t.Helper()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	if got := resp.Header.Get("Eider-Leaving"); got != me.String() {
		t.Errorf("Eider-Leaving is %q, want %q", got, me)
	}
	if !resp.Close {
		t.Error("it doesn't say Connection: close")
	}
}

// closed waits for the server's end of the connection.
func (p *peer) closed() {
	p.t.Helper()
	if b, err := p.r.ReadByte(); err == nil {
		p.t.Errorf("the connection isn't closed: it yields %q", b)
	}
}

func hello(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, "hello")
}
