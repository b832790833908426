package drain

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// From the order to end on nobody finds the listener, though it still empties its queue: whoever came in then would be
// reset by its close.
func TestD5NobodyFindsAListenerThatCloses(t *testing.T) {
	refuses := func(ln net.Listener) bool {
		t.Helper()
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			nc.Close()
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
		return err != nil
	}
	listen := func() net.Listener {
		t.Helper()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln
	}
	able := listen()
	if unlist(able); !refuses(able) {
		t.Skip("this kernel can't: see unlist")
	}
	l := &listener{Listener: listen()}
	if refuses(l) {
		t.Fatal("it is to be found before")
	}
	if l.end(); !refuses(l) {
		t.Error("somebody came in between the order to end and the close")
	}
}
