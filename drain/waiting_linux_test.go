package drain

import (
	"io"
	"net"
	"testing"
	"time"
)

// A process that was stopped for a while wakes to everything at once: the barrier, and a request that its caller
// wrote long ago and has let go since. The request is there, though nobody has read it yet.
func TestRequestThatWaitsToBeReadIsNotThrownAway(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	d := &drainer{}
	d.book.d = d
	c := &conn{Conn: server, book: &d.book}
	if c.waiting() {
		t.Error("bytes are waiting on a silent connection")
	}
	io.WriteString(client, "POST / HTTP/1.1\r\n")
	for begun := time.Now(); !c.waiting() && time.Since(begun) < patience; { // loopback delivers at once, or nearly
	}
	if c.closeIfQuiet() {
		t.Error("a request was thrown away before anybody read it")
	}
	buf := make([]byte, 64)
	if n, err := c.Read(buf); n == 0 || err != nil || c.phase.Load() != busy {
		t.Errorf("read %d bytes, %v; phase %d", n, err, c.phase.Load())
	}
	c.phase.Store(quiet) // answered
	if !c.closeIfQuiet() {
		t.Error("a silent connection stays open")
	}
}

// One that its peer has ended isn't waited for.
func TestEndedConnectionIsClosed(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	if c := (&conn{Conn: ours}); c.waiting() || !c.closeIfQuiet() {
		t.Error("a connection that is no socket can't be looked into, and is closed")
	}
}
