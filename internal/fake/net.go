package fake

import (
	"net"
	"sync"
	"testing"
)

// Listen listens on loopback until the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// DeadPort returns an address that refuses until the test ends. The port is taken, by the near end of a connection: on one that
// is free somebody else may listen meanwhile, and who dials it may come from it, and then talks to himself.
func DeadPort(t testing.TB) string {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	c, err := d.Dial("tcp", Listen(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// Script is a server that does to each connection what the test says; it ends with the test.
func Script(t testing.TB, each func(n int, c net.Conn)) net.Listener {
	l := Listen(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				each(n, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l
}
