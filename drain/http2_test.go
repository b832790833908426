package drain

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// h2peer speaks just enough HTTP/2 to see every frame.
type h2peer struct {
	t *testing.T
	net.Conn
	r    *bufio.Reader
	next uint32
}

// The frames, and the flags of theirs that matter here.
const (
	fData, fHeaders, fReset, fSettings, fPing, fGoAway = 0, 1, 3, 4, 6, 7
	endStream, endHeaders                              = 1, 4
)

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (r *run) dialH2(overTLS bool) *h2peer {
	r.t.Helper()
	var nc net.Conn = r.dial().Conn
	if overTLS {
		tc := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err := tc.Handshake(); err != nil {
			r.t.Fatal(err)
		}
		nc = tc
	}
	p := &h2peer{t: r.t, Conn: nc, r: bufio.NewReader(nc), next: 1}
	io.WriteString(nc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	p.write(frame{kind: fSettings})
	p.ping() // it is served, and idle
	return p
}

func (p *h2peer) write(f frame) {
	p.t.Helper()
	b := binary.BigEndian.AppendUint32(nil, uint32(len(f.payload))<<8|uint32(f.kind))
	b = append(b, f.flags)
	b = binary.BigEndian.AppendUint32(b, f.stream)
	if _, err := p.Write(append(b, f.payload...)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *h2peer) read() (frame, error) {
	head := make([]byte, 9)
	if _, err := io.ReadFull(p.r, head); err != nil {
		return frame{}, err
	}
	f := frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:]),
		payload: make([]byte, uint32(head[0])<<16|uint32(head[1])<<8|uint32(head[2]))}
	_, err := io.ReadFull(p.r, f.payload)
	return f, err
}

// until reads up to a frame of the kind on the stream, and returns the kinds it has seen before.
func (p *h2peer) until(kind byte, stream uint32) (f frame, seen []byte) {
	p.t.Helper()
	for {
		f, err := p.read()
		if err != nil {
			p.t.Fatalf("no frame of kind %d on stream %d, but %v after %v", kind, stream, err, seen)
		}
		if f.kind == kind && f.stream == stream && (kind != fPing || f.flags == 1) {
			return f, seen
		}
		seen = append(seen, f.kind)
	}
}

// ping returns once the server has handled all that was sent, with the kinds of frames seen meanwhile.
func (p *h2peer) ping() []byte {
	p.t.Helper()
	p.write(frame{kind: fPing, payload: make([]byte, 8)})
	_, seen := p.until(fPing, 0)
	return seen
}

// get opens a stream: GET on the path.
func (p *h2peer) get(path string) uint32 {
	p.t.Helper()
	id := p.next
	p.next += 2
	block := []byte{0x82, 0x86} // :method GET, :scheme http
	block = append(block, 0x04, byte(len(path)))
	block = append(block, path...)
	block = append(block, 0x01, 6)
	block = append(block, "orders"...)
	p.write(frame{kind: fHeaders, flags: endStream | endHeaders, stream: id, payload: block})
	return id
}

// ended reads to the end of the stream and returns the kinds of frames seen.
func (p *h2peer) ended(stream uint32) (seen []byte) {
	p.t.Helper()
	for {
		f, err := p.read()
		if err != nil {
			p.t.Fatalf("stream %d doesn't end: %v after %v", stream, err, seen)
		}
		seen = append(seen, f.kind)
		if f.stream == stream && (f.kind == fReset || (f.kind == fData || f.kind == fHeaders) && f.flags&endStream != 0) {
			return seen
		}
	}
}

// bothH2 runs a test over TLS and without.
func bothH2(t *testing.T, test func(t *testing.T, overTLS bool, tune func(*http.Server, *Config))) {
	t.Run("tls", func(t *testing.T) {
		ts := httptest.NewUnstartedServer(nil)
		ts.StartTLS()
		certs := ts.TLS.Certificates
		ts.Close()
		test(t, true, func(srv *http.Server, _ *Config) { srv.TLSConfig = &tls.Config{Certificates: certs} })
	})
	t.Run("h2c", func(t *testing.T) {
		test(t, false, func(srv *http.Server, _ *Config) {
			srv.Protocols = new(http.Protocols)
			srv.Protocols.SetHTTP1(true)
			srv.Protocols.SetUnencryptedHTTP2(true)
		})
	})
}

// Frames that cross a GOAWAY are lost: there is none before the barrier. After it, an idle connection
// gets one at once, although something else is still in flight.
func TestD2HTTP2GoAwayComesAfterTheBarrier(t *testing.T) {
	bothH2(t, func(t *testing.T, overTLS bool, tune func(*http.Server, *Config)) {
		h := newHeld()
		r := begin(t, h.ServeHTTP, func(srv *http.Server, c *Config) { tune(srv, c); c.Silent = patience })
		busy, idle := r.dialH2(overTLS), r.dialH2(overTLS)
		held := busy.get("/held")
		soon(t, h.in, "the held request")
		r.leave()
		for range 2 {
			if seen := idle.ended(idle.get("/free")); slices.Contains(seen, fGoAway) {
				t.Fatal("GOAWAY before the barrier")
			}
		}
		if seen := idle.ping(); slices.Contains(seen, fGoAway) {
			t.Fatal("GOAWAY before the barrier")
		}
		r.barrier()
		idle.until(fGoAway, 0)
		close(h.release)
		busy.ended(held)
		idle.Close()
		busy.Close()
		if rep := r.end(); rep.Exit != ExitClean || rep.ServedAfterLeave != 2 {
			t.Errorf("%+v", rep)
		}
	})
}

// An HTTP/2 answer tells of the leave, and Go's own client goes on using the connection.
func TestHTTP2AnswersTell(t *testing.T) {
	bothH2(t, func(t *testing.T, overTLS bool, tune func(*http.Server, *Config)) {
		r := begin(t, hello, tune)
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP2(true)
		tr.Protocols.SetUnencryptedHTTP2(true)
		defer tr.CloseIdleConnections()
		url := "http://" + r.addr
		if overTLS {
			url = "https://" + r.addr
		}
		post := func() *http.Response {
			resp, err := (&http.Client{Transport: tr}).Post(url, "", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return resp
		}
		if resp := post(); resp.ProtoMajor != 2 || resp.Header.Get("Eider-Leaving") != "" {
			t.Errorf("before the leave: %v", resp)
		}
		r.leave()
		if resp := post(); resp.ProtoMajor != 2 || resp.Header.Get("Eider-Leaving") != me.String() {
			t.Errorf("after the leave: %v", resp)
		}
		tr.CloseIdleConnections() // as Eider's callers do before they let go; else net/http lingers 1 s after its GOAWAY
		r.barrier()
		r.end()
	})
}

// A request that comes on an HTTP/2 connection after the barrier, before its client has read GOAWAY, is
// the one that Go's server ignores; one on a connection that became HTTP/2 after the barrier is served.
func TestD3HTTP2ThatBeginsAfterTheBarrierIsServed(t *testing.T) {
	bothH2(t, func(t *testing.T, overTLS bool, tune func(*http.Server, *Config)) {
		h := newHeld()
		r := begin(t, h.ServeHTTP, func(srv *http.Server, c *Config) { tune(srv, c); c.Silent = patience })
		silent, busy := r.dial(), r.dialH2(overTLS)
		held := busy.get("/held")
		soon(t, h.in, "the held request")
		r.leave()
		r.barrier()
		busy.until(fGoAway, 0)
		p := upgrade(t, silent, overTLS)
		for range 20 { // time for the drain to see that it is HTTP/2 now, and idle
			if seen := p.ping(); slices.Contains(seen, fGoAway) {
				t.Fatal("GOAWAY before the first request")
			}
		}
		seen := p.ended(p.get("/free"))
		if !slices.Contains(seen, fGoAway) {
			p.until(fGoAway, 0)
		}
		p.Close()
		close(h.release)
		busy.ended(held)
		busy.Close()
		if rep := r.end(); rep.Exit != ExitClean {
			t.Errorf("%+v", rep)
		}
	})
}

// upgrade begins HTTP/2 on a connection that was silent so far.
func upgrade(t *testing.T, p *peer, overTLS bool) *h2peer {
	t.Helper()
	nc := p.Conn
	if overTLS {
		tc := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err := tc.Handshake(); err != nil {
			t.Fatal(err)
		}
		nc = tc
	}
	h := &h2peer{t: t, Conn: nc, r: bufio.NewReader(nc), next: 1}
	io.WriteString(nc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	h.write(frame{kind: fSettings})
	return h
}

// A stream is told at the leave; one that doesn't heed it is reset after its budget, and the others on
// its connection live on.
func TestD9StreamIsToldThenCutAlone(t *testing.T) {
	bothH2(t, func(t *testing.T, overTLS bool, tune func(*http.Server, *Config)) {
		open, toldOf, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
		h := newHeld()
		r := begin(t, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != "/stream" {
				h.ServeHTTP(w, req)
				return
			}
			w.(http.Flusher).Flush()
			close(open)
			<-Started(req.Context())
			close(toldOf)
			<-req.Context().Done() // it doesn't end by itself
			close(over)
		}, func(srv *http.Server, c *Config) { tune(srv, c); c.Streams = 50 * time.Millisecond })
		p := r.dialH2(overTLS)
		held, stream := p.get("/held"), p.get("/stream")
		soon(t, h.in, "the held request")
		soon(t, open, "the stream")
		r.leave()
		soon(t, toldOf, "Started")
		r.barrier()
		if _, seen := p.until(fReset, stream); !slices.Contains(seen, fGoAway) {
			p.until(fGoAway, 0) // a busy machine turns them round
		}
		soon(t, over, "the stream's end")
		close(h.release)
		p.ended(held)
		p.Close()
		rep := r.end()
		if rep.CutCount != 1 || rep.Cut[0].Path != "/stream" || !rep.Cut[0].Stream || rep.Exit != ExitLoss || rep.UnansweredCount != 0 {
			t.Errorf("%+v", rep)
		}
	})
}

// A stream whose handler panicked leaves the books, though its connection lives on.
func TestHTTP2PanicKeepsTheCount(t *testing.T) {
	bothH2(t, func(t *testing.T, overTLS bool, tune func(*http.Server, *Config)) {
		h := newHeld()
		r := begin(t, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/panic" {
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, req)
		}, func(srv *http.Server, c *Config) { tune(srv, c); c.InFlight = 50 * time.Millisecond })
		p := r.dialH2(overTLS)
		p.until(fReset, p.get("/panic"))
		p.get("/held")
		soon(t, h.in, "the held request")
		r.leave()
		r.barrier()
		rep := r.end()
		close(h.release)
		if rep.OverranCount != 1 || rep.Overran[0].Path != "/held" {
			t.Errorf("%+v", rep)
		}
	})
}

// An HTTP/2 that the user configured gets its GOAWAY from the server's own Shutdown, once no HTTP/1
// request can be dropped by it.
func TestHTTP2OfTheUsersOwn(t *testing.T) {
	var shutdown = make(chan struct{})
	r := begin(t, hello, func(srv *http.Server, _ *Config) {
		srv.Protocols = new(http.Protocols)
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetUnencryptedHTTP2(true)
		other := &http.Server{Protocols: srv.Protocols}
		other.Serve(noListener{})
		srv.TLSNextProto = other.TLSNextProto
		srv.RegisterOnShutdown(func() { close(shutdown); other.Shutdown(t.Context()) })
	})
	p := r.dialH2(false)
	r.leave()
	p.ended(p.get("/free"))
	r.barrier()
	soon(t, shutdown, "Shutdown")
	p.until(fGoAway, 0)
	p.Close()
	if rep := r.end(); rep.Exit != ExitClean {
		t.Errorf("%+v", rep)
	}
}
