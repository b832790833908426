package eiderhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = fake.Patience

// world is a node that says what the test wants, and a Transport over a handle on it.
type world struct {
	*fake.Node
	t  testing.TB
	tr *Transport
	hc *http.Client
}

func newWorld(t testing.TB, tr *Transport) *world {
	w := &world{Node: fake.New(t, registry.Config{}), t: t, tr: tr, hc: &http.Client{Transport: tr}}
	tr.Registry = w.Handle
	if tr.ConnectTimeout == 0 {
		tr.ConnectTimeout = patience // on a busy machine a connection may take more than the default's second
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("Transport.Close: %v", err)
		}
	})
	return w
}

// server is a real net/http server that keeps what it got.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []seen
}

type seen struct {
	method, host, path, body, key string
	header                        http.Header
	proto                         int
}

// serve starts a server; handle may be nil, and then it answers its name.
func serve(t testing.TB, name string, handle http.HandlerFunc, options ...func(*httptest.Server)) *server {
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.seen = append(s.seen, seen{r.Method, r.Host, r.URL.Path, string(body), r.Header.Get("Idempotency-Key"), r.Header.Clone(), r.ProtoMajor})
		s.mu.Unlock()
		if handle != nil {
			handle(w, r)
			return
		}
		io.WriteString(w, name)
	}))
	for _, o := range options {
		o(s.Server)
	}
	if s.TLS == nil {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *server) addr() string { return s.Listener.Addr().String() }

func (s *server) got() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.seen...)
}

func h2c(s *httptest.Server) {
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
}

func h2cBase() *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: p}
}

// fetch sends a request and returns the answer's body, as "status body".
func (w *world) fetch(method, url, body string, header ...string) (string, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return w.do(req)
}

func (w *world) do(req *http.Request) (string, error) {
	resp, err := w.hc.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && req.Context().Err() != nil {
			w.t.Logf("the test's own patience ended: %v", err)
		}
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, got), err
}

func (w *world) want(want, method, url, body string, header ...string) {
	w.t.Helper()
	got, err := w.fetch(method, url, body, header...)
	if err != nil || got != want {
		w.t.Fatalf("%s %s: %q, %v; want %q", method, url, got, err, want)
	}
}
