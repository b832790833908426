package eiderhttp

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/eiderhq/eider/internal/fake"
)

// requests reads HTTP/1 requests from a connection, each with its body, until one can't be read.
func requests(c net.Conn, each func(n int, r *http.Request, body string) (goOn bool)) {
	br := bufio.NewReader(c)
	for n := 0; ; n++ {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !each(n, r, string(body)) {
			return
		}
	}
}

const answerOK = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"

// frames is an HTTP/2 server by hand, to send what no decent one does. It settles the connection, then tells of
// each request once it is wholly there.
func frames(c net.Conn, each func(n int, stream uint32) (goOn bool)) {
	io.CopyN(io.Discard, c, 24) // the client's preface
	frame(c, 4, 0, 0)
	for n := 0; ; {
		head := make([]byte, 9)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == 4 && flags&1 == 0: // SETTINGS
			frame(c, 4, 1, 0)
		case kind == 6 && flags&1 == 0: // PING
			frame(c, 6, 1, 0, payload...)
		case (kind == 0 || kind == 1) && flags&1 != 0: // END_STREAM
			if !each(n, stream) {
				return
			}
			n++
		}
	}
}

func frame(c net.Conn, kind, flags byte, stream uint32, payload ...byte) {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	c.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
}

func answerHTTP2(c net.Conn, stream uint32) { frame(c, 1, 4|1, stream, 0x88) } // HEADERS: :status 200

func resetStream(c net.Conn, stream, code uint32) {
	frame(c, 3, 0, stream, binary.BigEndian.AppendUint32(nil, code)...)
}

func goAway(c net.Conn, last, code uint32, debug string) {
	p := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code)
	frame(c, 7, 0, 0, append(p, debug...)...)
}

// brokenDialer dials connections of which, once armed, the next write fails with not one byte written.
type brokenDialer struct {
	armed  atomic.Bool
	broken atomic.Int64
}

func (d *brokenDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &brokenConn{Conn: c, d: d}, nil
}

type brokenConn struct {
	net.Conn
	d *brokenDialer
}

func (c *brokenConn) Write(p []byte) (int, error) {
	if c.d.armed.CompareAndSwap(true, false) {
		c.d.broken.Add(1)
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(p)
}

// tally counts the requests that an instance has wholly read, by their bodies or paths.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (y *tally) add(what string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.n == nil {
		y.n = map[string]int{}
	}
	y.n[what]++
}

func (y *tally) sum() (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, k := range y.n {
		n += k
	}
	return n
}

func TestScriptsSpeakHTTP(t *testing.T) {
	l := fake.Script(t, func(_ int, c net.Conn) {
		frames(c, func(_ int, stream uint32) bool { answerHTTP2(c, stream); return true })
	})
	tr := h2cBase()
	defer tr.CloseIdleConnections()
	for range 2 {
		resp, err := (&http.Client{Transport: tr}).Get("http://" + l.Addr().String())
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
			t.Fatalf("%+v, %v", resp, err)
		}
		resp.Body.Close()
	}
}
