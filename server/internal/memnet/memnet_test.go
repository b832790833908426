package memnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
)

const server, client = "10.0.0.1", "10.0.0.2"

func connect(t *testing.T, n *Net) (c, s net.Conn) {
	t.Helper()
	l, err := n.Listen(server + ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err = n.From(client).Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

func TestConnBehavesAsNetConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		n := New()
		c1, c2 = connect(t, n)
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

func TestPartitionHoldsAndHealDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		c, s := connect(t, n)
		n.Partition(client, server)
		if _, err := c.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		s.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := s.Read(make([]byte, 8)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a read across the partition: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.From(client).Dial(ctx, server+":1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a dial across the partition: %v", err)
		}
		n.Heal(server, client)
		s.SetReadDeadline(time.Time{})
		got := make([]byte, 8)
		if k, err := s.Read(got); err != nil || string(got[:k]) != "late" {
			t.Fatalf("after the partition: %q, %v", got[:k], err)
		}
	})
}

func TestStalledHostTakesBytesUntilItsBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		c, s := connect(t, n)
		n.Stall(client)
		s.SetWriteDeadline(time.Now().Add(time.Second))
		k, err := s.Write(make([]byte, 1<<20))
		if k != buffer || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d bytes, %v", k, err)
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if k, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a stalled host read %d bytes, %v", k, err)
		}
		n.Resume(client)
		c.SetReadDeadline(time.Time{})
		got, err := io.ReadFull(c, make([]byte, buffer))
		if got != buffer || err != nil {
			t.Fatalf("read %d bytes, %v", got, err)
		}
	})
}

func TestCutResetsBothEnds(t *testing.T) {
	n := New()
	c, s := connect(t, n)
	if k := n.Cut(server, client); k != 1 {
		t.Fatalf("cut %d connections", k)
	}
	for _, end := range []net.Conn{c, s} {
		end.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
		if _, err := end.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: %v", err)
		}
	}
}

func TestNobodyListeningRefuses(t *testing.T) {
	n := New()
	if _, err := n.From(client).Dial(t.Context(), server+":80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial: %v", err)
	}
	l, err := n.Listen(server + ":80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Listen(server + ":80"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("listen twice: %v", err)
	}
	waiting, err := n.From(client).Dial(t.Context(), server+":80")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("a connection that nobody accepted: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("accept: %v", err)
	}
}

func TestCloseDeliversWhatWasWritten(t *testing.T) {
	n := New()
	c, s := connect(t, n)
	c.Write([]byte("last words"))
	c.Close()
	got, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(got, []byte("last words")) {
		t.Fatalf("%q, %v", got, err)
	}
	if k := n.Open(); k != 1 {
		t.Fatalf("%d ends open", k)
	}
}
