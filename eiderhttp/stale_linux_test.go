package eiderhttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider/internal/fake"
)

func TestStalenessIsSeenWithoutReading(t *testing.T) {
	l := fake.Listen(t)
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var s staleness
	s.watch(client)
	see := func(silent, want bool) {
		t.Helper()
		for end := time.Now().Add(patience); s.stale(silent) != want; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("stale(%v) stays %v", silent, !want)
			}
		}
	}
	see(true, false)
	see(false, false)
	server.Write([]byte("HTTP/1.1 408 Request Timeout\r\n\r\n"))
	see(true, true)
	see(false, false)
	if n, err := io.ReadFull(client, make([]byte, 32)); n != 32 || err != nil {
		t.Fatalf("the look has eaten something: %d, %v", n, err)
	}
	server.Close()
	see(true, true)
	see(false, true)
}

// blindDialer dials connections whose reader doesn't hear of the end until told, as on a machine that is too busy.
type blindDialer struct{ hear chan struct{} }

func (d *blindDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &blindConn{c.(*net.TCPConn), d}, nil
}

type blindConn struct {
	*net.TCPConn
	d *blindDialer
}

func (c *blindConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if err != nil {
		<-c.d.hear
	}
	return n, err
}

func (c *blindConn) SyscallConn() (syscall.RawConn, error) { return c.TCPConn.SyscallConn() }

// The keep-alive race: the server ends an idle connection as the client reuses it. A POST isn't lost to it.
func TestS10EndedIdleConnectionIsNotWrittenTo(t *testing.T) {
	d := &blindDialer{hear: make(chan struct{})}
	w := newWorld(t, &Transport{Base: &http.Transport{DialContext: d.DialContext}})
	defer close(d.hear)
	ended := make(chan struct{})
	l := fake.Script(t, func(_ int, c net.Conn) {
		requests(c, func(n int, r *http.Request, _ string) bool {
			io.WriteString(c, answerOK)
			return false
		})
		c.(*net.TCPConn).CloseWrite()
		ended <- struct{}{}
		io.Copy(io.Discard, c)
	})
	b := serve(t, "b", nil)
	w.Set("orders", fake.Up("orders", "a", l.Addr().String()), fake.Spare("orders", "b", b.addr()))
	w.want("200 a", "POST", "http://orders/", "x")
	<-ended
	w.want("200 b", "POST", "http://orders/", "x")
	if n := w.tr.Faults()[Unwritten]; n != 1 {
		t.Errorf("faults are %v, want one unwritten", w.tr.Faults())
	}
}
