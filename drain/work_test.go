package drain

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// work returns what the instance has counted, once it is what is wanted or has had time to become it.
func (r *run) work(want eider.Work) eider.Work {
	r.t.Helper()
	r.reg.mu.Lock()
	counts := r.reg.registered[0].Work
	r.reg.mu.Unlock()
	for begun := time.Now(); ; <-time.After(time.Millisecond) {
		got := counts.Read()
		got.Slowest = 0
		if got == want || time.Since(begun) > 5*time.Second {
			return got
		}
	}
}

func (r *run) counts(what string, want eider.Work) {
	r.t.Helper()
	if got := r.work(want); got != want {
		r.t.Errorf("%s: it counts %+v, want %+v", what, got, want)
	}
}

// mine are the headers of a caller who says who he is, and whom he means.
func mine() []string { return []string{"Eider-To: 1@" + me.String(), "Eider-Caller: checkout@b2"} }

// U3: a request arrives, and completes when its answer is wholly written.
func TestWorkIsCounted(t *testing.T) {
	h := newHeld()
	r := begin(t, h.ServeHTTP, nil)
	p := r.dial()
	p.send("/held", mine()...)
	soon(t, h.in, "the request")
	r.counts("in its handler", eider.Work{Arrived: 1})
	close(h.release)
	p.answer()
	r.counts("answered", eider.Work{Arrived: 1, Completed: 1, Ended: 1})
	p.send("/free", mine()...)
	p.answer()
	p.Close()
	r.counts("answered again", eider.Work{Arrived: 2, Completed: 2, Ended: 2})
	closing := r.dial()
	closing.send("/free", append(mine(), "Connection: close")...)
	closing.answer()
	closing.closed()
	r.counts("the last of its connection", eider.Work{Arrived: 3, Completed: 3, Ended: 3})
	r.leave()
	r.barrier()
	r.end()
}

// What ends without an answer that somebody got doesn't complete.
func TestWorkThatDoesNotComplete(t *testing.T) {
	big := make([]byte, 8<<20)
	in := make(chan struct{}, 1)
	for _, tt := range []struct {
		name   string
		handle http.HandlerFunc
		client func(*peer)
	}{
		{"the client hangs up while it runs", func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			in <- struct{}{}
			<-r.Context().Done()
		}, func(p *peer) { soon(p.t, in, "the request"); p.Close() }},
		{"a panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, func(p *peer) { p.closed() }},
		{"the client is gone when it is written", func(w http.ResponseWriter, _ *http.Request) {
			in <- struct{}{}
			w.Write(big)
		}, func(p *peer) {
			soon(p.t, in, "the request")
			p.Conn.(*net.TCPConn).SetLinger(0)
			p.Close()
		}},
		{"its last bytes can't be written", func(w http.ResponseWriter, r *http.Request) {
			r.Context().Value(connKey{}).(*conn).Conn.(*net.TCPConn).CloseWrite()
			io.WriteString(w, "hello") // into net/http's buffer
		}, func(p *peer) { p.closed() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := begin(t, tt.handle, nil)
			p := r.dial()
			p.send("/pay", mine()...)
			tt.client(p)
			r.counts("then", eider.Work{Arrived: 1, Ended: 1})
			r.leave()
			r.barrier()
			r.end()
		})
	}
}

// What says nothing about the work isn't counted: streams that say so, probes, requests that mean somebody else.
func TestWorkThatIsNone(t *testing.T) {
	r := begin(t, hello, nil)
	p := r.dial()
	for _, headers := range [][]string{
		append(mine(), "Accept: text/event-stream"),
		append(mine(), "Connection: upgrade", "Upgrade: websocket"),
		{"Eider-To: 2@7-000000000000beef"},
		{"User-Agent: kube-probe/1.31"},
		{"User-Agent: GoogleHC/1.0"},
	} {
		p.send("/work", headers...)
		p.answer()
	}
	for _, path := range []string{"/healthz", "/livez/ping", "/metrics"} {
		p.send(path)
		p.answer()
	}
	r.counts("at the end", eider.Work{})
	p.send("/healthzone", mine()...)
	p.answer()
	r.counts("and then", eider.Work{Arrived: 1, Completed: 1, Ended: 1})
	r.leave()
	r.barrier()
	r.end()
}

// A stream that didn't say so has completed with its beginning, a hijacked connection with its being taken.
func TestWorkOfStreams(t *testing.T) {
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hijack" {
			nc, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			io.Copy(io.Discard, nc)
			return
		}
		w.(http.Flusher).Flush()
		<-Started(req.Context())
	}, nil)
	stream, hijacked := r.dial(), r.dial()
	stream.send("/stream", mine()...)
	stream.head()
	r.counts("with a stream", eider.Work{Arrived: 1, Completed: 1, Ended: 1})
	hijacked.send("/hijack", mine()...)
	r.counts("and a hijacked connection", eider.Work{Arrived: 2, Completed: 2, Ended: 2})
	hijacked.Close()
	r.leave()
	r.barrier()
	r.end()
	r.counts("at the end", eider.Work{Arrived: 2, Completed: 2, Ended: 2})
}

func TestWorkOverHTTP2(t *testing.T) {
	in, cert := make(chan struct{}, 1), httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/cancelled" {
			in <- struct{}{}
			<-req.Context().Done()
			return
		}
		hello(w, req)
	}, func(s *http.Server, _ *Config) { s.TLSConfig = &tls.Config{Certificates: cert.TLS.Certificates} })
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	ask := func(path string, cancel <-chan struct{}) {
		req, _ := http.NewRequest("GET", "https://"+r.addr+path, nil)
		req.Header.Set("Eider-To", "1@"+me.String())
		req.Header.Set("Eider-Caller", "checkout@b2")
		req.Cancel = cancel //lint:ignore SA1019 whoever still sets it is counted rightly
		if resp, err := tr.RoundTrip(req); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	ask("/free", nil)
	r.counts("answered", eider.Work{Arrived: 1, Completed: 1, Ended: 1})
	ask("/cancelled", in)
	r.counts("cancelled", eider.Work{Arrived: 2, Completed: 1, Ended: 2})
	tr.CloseIdleConnections()
	r.leave()
	r.barrier()
	r.end()
}
