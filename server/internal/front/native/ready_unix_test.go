//go:build unix

package native

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
)

// accepted returns both ends of a connection over a real socket, the node's counted as the node's are.
func accepted(t *testing.T) (node *counted, client net.Conn) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	if client, err = net.Dial("tcp", lis.Addr().String()); err != nil {
		t.Fatal(err)
	}
	conn, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	node = newCounted(conn, new(atomic.Int64))
	t.Cleanup(func() { client.Close(); node.Close() })
	return node, client
}

// A connection that read something and is closed, or past its deadline, before it reads again yields an error and
// nothing else. A count without a buffer made grpc read from nil: the whole node was gone.
func TestReadOnReadyAfterTheEndYieldsNothing(t *testing.T) {
	for name, end := range map[string]func(c *counted){
		"closed":       func(c *counted) { c.Close() },
		"out of time":  func(c *counted) { c.SetDeadline(time.Unix(1, 0)) },
		"peer is gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			node, client := accepted(t)
			if _, err := client.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			pool := mem.DefaultBufferPool()
			buf, n, err := node.ReadOnReady(64, pool)
			if err != nil || n != 5 || string((*buf)[:n]) != "hello" {
				t.Fatalf("read %d, %v", n, err)
			}
			pool.Put(buf)
			if end == nil {
				client.Close()
			} else {
				end(node)
			}
			for range 2 {
				if buf, n, err := node.ReadOnReady(64, pool); buf != nil || n != 0 || err == nil {
					t.Fatalf("after the end: buffer %v, %d bytes, %v", buf != nil, n, err)
				}
			}
		})
	}
}
