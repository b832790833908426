package drain

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/eiderhq/eider/registry"
)

// mute is a ResponseWriter that costs nothing.
type mute struct{ h http.Header }

func (m mute) Header() http.Header         { return m.h }
func (m mute) WriteHeader(int)             {}
func (m mute) Write(b []byte) (int, error) { return len(b), nil }

// What stands before the user's handler costs one allocation, and two readings of the clock, since the work is
// counted. An ordinary request carries Eider-To and Eider-Caller.
func BenchmarkMiddleware(b *testing.B) {
	answer := []byte("hello")
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(answer) })
	for _, drained := range []bool{false, true} {
		name := "bare"
		if drained {
			name = "drained"
		}
		b.Run(name, func(b *testing.B) {
			var h http.Handler = handler
			ctx, c := context.Background(), &conn{}
			if drained {
				s := newScript()
				d := &drainer{next: handler, reg: s, listing: s}
				d.book.d, d.tally.d = d, d
				d.work = registry.NewWork()
				d.learn()
				c.book = &d.book
				h, ctx = d, context.WithValue(ctx, connKey{}, c)
			}
			r, _ := http.NewRequestWithContext(ctx, "POST", "/pay", http.NoBody)
			r.Header["Eider-To"] = []string{"1@" + me.String()}
			r.Header["Eider-Caller"] = []string{"checkout@b2"}
			w := mute{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
				if drained {
					c.settle() // as when net/http has written the answer
				}
			}
		})
	}
}

// TestMiddlewareAllocatesOnce gates what the benchmark shows.
func TestMiddlewareAllocatesOnce(t *testing.T) {
	s := newScript()
	d := &drainer{next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), reg: s, listing: s}
	d.book.d, d.tally.d = d, d
	d.work = registry.NewWork()
	d.learn()
	r, _ := http.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, &conn{book: &d.book}), "POST", "/pay", http.NoBody)
	r.Header["Eider-To"] = []string{"1@" + me.String()}
	w := mute{make(http.Header)}
	if n := testing.AllocsPerRun(100, func() { d.ServeHTTP(w, r) }); n > 1 {
		t.Errorf("%g allocations a request", n)
	}
}

// The whole way over loopback, one keep-alive connection: net/http alone, and under Serve.
func BenchmarkServe(b *testing.B) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "hello")
	})
	loop := func(b *testing.B, addr string) {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		r := bufio.NewReader(nc)
		buf := make([]byte, 4096)
		post := []byte("POST /pay HTTP/1.1\r\nHost: orders\r\nEider-To: 1@" + me.String() + "\r\nEider-Caller: checkout@b2\r\nContent-Length: 2\r\n\r\nhi")
		b.ReportAllocs()
		for b.Loop() {
			nc.Write(post)
			if _, err := r.Read(buf); err != nil { // a small answer comes in one piece
				b.Fatal(err)
			}
		}
	}
	b.Run("bare", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		srv := &http.Server{Handler: handler}
		done := make(chan error)
		go func() { done <- srv.Serve(ln) }()
		loop(b, ln.Addr().String())
		srv.Close()
		<-done
	})
	b.Run("drained", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		reg, ctx, stop, done := newScript(), context.Context(nil), context.CancelFunc(nil), make(chan Report)
		ctx, stop = context.WithCancel(b.Context())
		go func() {
			rep, _ := serve(ctx, &http.Server{Handler: handler}, Config{Service: "orders", Listener: ln, Silent: -1, Round: -1, Logger: slog.New(slog.DiscardHandler)}, reg)
			done <- rep
		}()
		<-reg.known
		loop(b, ln.Addr().String())
		close(reg.barrier)
		stop()
		<-done
	})
}

// From the last answer, read by its client, to Serve's return. Shutdown's own polling takes up to 519 ms
// (docs: facts A); ms/exit is what it takes here.
func BenchmarkExitAfterTheLastAnswer(b *testing.B) {
	var total time.Duration
	for b.Loop() {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		h := newHeld()
		reg, done := newScript(), make(chan struct{})
		ctx, stop := context.WithCancel(b.Context())
		go func() {
			defer close(done)
			serve(ctx, &http.Server{Handler: h}, Config{Service: "orders", Listener: ln, Silent: -1, Round: -1, Logger: slog.New(slog.DiscardHandler)}, reg)
		}()
		<-reg.known
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		io.WriteString(nc, "POST /held HTTP/1.1\r\nHost: orders\r\nContent-Length: 0\r\n\r\n")
		<-h.in
		close(reg.barrier)
		stop()
		<-reg.leave
		for { // until the port refuses: from here on it only waits for the answer
			probe, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				break
			}
			probe.Close()
		}
		<-time.After(20 * time.Millisecond) // Shutdown would be polling by now
		close(h.release)
		if _, err := nc.Read(make([]byte, 4096)); err != nil {
			b.Fatal(err)
		}
		answered := time.Now()
		<-done
		total += time.Since(answered)
		nc.Close()
	}
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/exit")
}
