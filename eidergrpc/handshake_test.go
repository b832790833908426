package eidergrpc

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
)

// pipes is a listener in memory, for a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { close(l.closed); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A connection has five seconds to speak HTTP/2, or what the server's options say: until then GracefulStop would wait for
// it, and tell nobody that the server leaves.
func TestAConnectionThatDoesntSpeakIsClosedInTime(t *testing.T) {
	for _, row := range []struct {
		said string
		opts []grpc.ServerOption
		want time.Duration
	}{
		{"", nil, 5 * time.Second},
		{"PRI * HTTP/2.0", nil, 5 * time.Second},
		{"", []grpc.ServerOption{grpc.ConnectionTimeout(time.Minute)}, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &pipes{make(chan net.Conn), make(chan struct{})}
			s := NewServer(row.opts...)
			served := make(chan error)
			go func() { served <- s.Server.Serve(l) }()
			mine, its := net.Pipe()
			l.conns <- its
			begun := time.Now()
			go io.WriteString(mine, row.said)
			io.Copy(io.Discard, mine)
			if took := time.Since(begun); took != row.want {
				t.Errorf("after %q it is closed in %v, want %v", row.said, took, row.want)
			}
			s.Stop()
			<-served
		})
	}
}
