package check

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/internal/fake"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func parse(t *testing.T, text string) Check {
	t.Helper()
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// once asks with the limit; what must be answered gets a long one, what hangs a short one.
func once(t *testing.T, c Check, limit time.Duration) error {
	t.Helper()
	return Config{Timeout: limit}.once(t.Context(), c)
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%v, want it to be well", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%v, want %q", err, want)
	}
}

func TestHTTPAnswers(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/well", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/ill", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/well", http.StatusFound) })
	mux.HandleFunc("/unchanged", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotModified) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusEarlyHints) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "10") })
	mux.HandleFunc("/who", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("User-Agent") != agent || r.Method != http.MethodGet || r.URL.RawQuery != "deep=1" || !strings.HasPrefix(r.Host, "localhost:") {
			http.Error(w, "", http.StatusTeapot)
		}
	})
	for _, tls := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(mux)
		scheme := "http"
		if tls {
			srv.StartTLS()
			scheme = "https"
		} else {
			srv.Start()
		}
		_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
		for path, want := range map[string]string{"well": "", "ill": "it answered 503, not 2xx", "none": "it answered 404, not 2xx", "unchanged": "it answered 304, not 2xx",
			"moved":   `it answered 302, a redirect to "/well", which is not followed: name the path that answers 2xx itself`,
			"endless": "", "early": "", "cut": "the rest of the answer didn't come", "who?deep=1": ""} {
			t.Run(scheme+"/"+path, func(t *testing.T) {
				expect(t, once(t, parse(t, scheme+"://:"+port+"/"+path), time.Minute), want)
			})
		}
		srv.Close()
	}
}

// raw answers each connection with what say writes.
func raw(t *testing.T, say func(net.Conn)) (port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			say(nc)
			nc.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port
}

// until the other side has gone.
func untilGone(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) }

func TestChecksOfWhatIsNoServer(t *testing.T) {
	drip := func(nc net.Conn, head string) {
		// A byte at a time for ever: what counts is when the answer is whole, not that something comes.
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for _, b := range []byte(head + strings.Repeat("x", 1000)) {
			<-tick.C
			if _, err := nc.Write([]byte{b}); err != nil {
				return
			}
		}
	}
	const short, long = 300 * time.Millisecond, time.Minute
	for name, row := range map[string]struct {
		say        func(net.Conn)
		limit      time.Duration
		http, grpc string
	}{
		"hangs":       {untilGone, short, "isn't answered within 300ms", "isn't answered within 300ms"},
		"closes":      {func(nc net.Conn) {}, long, "it closed the connection before it had answered", "Unavailable"},
		"garbage":     {func(nc net.Conn) { _, _ = nc.Write([]byte("\x1b[2Jgarbage\n\n")); untilGone(nc) }, long, "malformed HTTP", "Unavailable"},
		"slowly":      {func(nc net.Conn) { drip(nc, "HTTP/1.1 200 OK\r\nX-Long: ") }, short, "isn't answered within 300ms", ""},
		"half a head": {func(nc net.Conn) { _, _ = nc.Write([]byte("HTTP/1.1 200 OK\r\nContent-")); untilGone(nc) }, short, "isn't answered within 300ms", ""},
		"half a body": {func(nc net.Conn) {
			_, _ = nc.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"))
			untilGone(nc)
		}, short, "isn't answered within 300ms", ""},
		"endless head": {func(nc net.Conn) {
			_, _ = nc.Write([]byte("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1<<16)))
			untilGone(nc)
		}, long, "the headers of its answer don't end within 64 KiB", ""},
		"long garbage": {func(nc net.Conn) { _, _ = nc.Write([]byte(strings.Repeat("z", 60<<10) + "\n\n")); untilGone(nc) }, long, "malformed HTTP", ""},
	} {
		t.Run(name, func(t *testing.T) {
			port := raw(t, row.say)
			expect(t, once(t, parse(t, "tcp://:"+port), long), "") // all of them accept
			err := once(t, parse(t, "http://:"+port+"/healthz"), row.limit)
			expect(t, err, row.http)
			if s := err.Error(); len(s) > 500 || strings.ContainsAny(s, "\x1b\n") {
				t.Errorf("its fault reads %d bytes: %.200q", len(s), s)
			}
			if row.grpc != "" {
				expect(t, once(t, parse(t, "grpc://:"+port), row.limit), row.grpc)
			}
		})
	}
}

func TestChecksOfAPortThatIsClosed(t *testing.T) {
	nc, err := net.Dial("tcp", fake.Listen(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close() // meanwhile nobody else gets the port that it goes out from
	_, port, _ := net.SplitHostPort(nc.LocalAddr().String())
	for _, text := range []string{"tcp://:" + port, "http://:" + port + "/", "grpc://:" + port} {
		expect(t, once(t, parse(t, text), time.Minute), "refused")
	}
}

// onlySix listens on a port that nobody else gets on the other loopback meanwhile: a connection goes out from there.
func onlySix(t *testing.T) net.Listener {
	t.Helper()
	if six, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6 loopback")
	} else {
		six.Close()
	}
	to := fake.Listen(t)
	for range 100 {
		nc, err := net.Dial("tcp", to.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		_, port, _ := net.SplitHostPort(nc.LocalAddr().String())
		if ln, err := net.Listen("tcp", "[::1]:"+port); err == nil {
			return ln
		}
	}
	t.Fatal("no port is free on both addresses of the loopback")
	return nil
}

func TestLoopbackHasTwoAddresses(t *testing.T) {
	ln := onlySix(t)
	srv := &http.Server{Handler: http.NotFoundHandler()}
	go srv.Serve(ln)
	defer srv.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	expect(t, once(t, parse(t, "tcp://:"+port), time.Minute), "")
	expect(t, once(t, parse(t, "http://:"+port+"/"), time.Minute), "404")
}

func TestGRPCHealth(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, states := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(srv, states)
	states.SetServingStatus("ill", healthpb.HealthCheckResponse_NOT_SERVING)
	go srv.Serve(ln)
	defer srv.Stop()
	at := "grpc://" + ln.Addr().String()
	expect(t, once(t, parse(t, at), time.Minute), "")
	expect(t, once(t, parse(t, at+"/ill"), time.Minute), "it says of itself NOT_SERVING")
	expect(t, once(t, parse(t, at+"/none"), time.Minute), `doesn't know the service "none"`)

	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	without := grpc.NewServer()
	go without.Serve(bare)
	defer without.Stop()
	expect(t, once(t, parse(t, "grpc://"+bare.Addr().String()), time.Minute), "doesn't serve grpc.health.v1.Health")
}

func TestExec(t *testing.T) {
	expect(t, once(t, parse(t, "exec:true"), time.Minute), "")
	expect(t, once(t, parse(t, "exec:false"), time.Minute), "exit status 1")
	expect(t, once(t, parse(t, "exec:/no/such/probe"), time.Minute), "no such file")
	expect(t, once(t, parse(t, "exec:sleep 1000"), 100*time.Millisecond), "isn't answered within 100ms")

	var words []string
	c := Config{Ready: parse(t, "exec:a b"), Exec: func(ctx context.Context, w []string) error { words = w; return errors.New("not now") }}.resolve()
	expect(t, c.once(t.Context(), c.Live), "exec:a b: not now")
	if len(words) != 2 || words[1] != "b" {
		t.Errorf("run as %q", words)
	}
}
