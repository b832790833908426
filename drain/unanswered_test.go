package drain

import (
	"net"
	"net/http"
	"testing"
)

// Whatever arrives while leaving gets its own answer: from new connections and old ones, in the pause
// and after it.
func TestD21NeverRefusedInPlace(t *testing.T) {
	h := newHeld()
	r := begin(t, h.ServeHTTP, func(_ *http.Server, c *Config) { c.Round, c.Silent = patience, patience })
	busy, kept, silent := r.dial(), r.dial(), r.dial()
	busy.send("/held")
	soon(t, h.in, "the held request")
	kept.send("/free")
	kept.answer()
	r.leave()
	for range 3 {
		p := r.dial()
		p.send("/free")
		resp, _ := p.answer()
		told(t, resp)
	}
	r.barrier()
	r.unlistened()
	for _, p := range []*peer{kept, silent} {
		p.send("/free")
		resp, body := p.answer()
		told(t, resp)
		if body != "hello" {
			t.Errorf("it answers %q", body)
		}
	}
	close(h.release)
	resp, _ := busy.answer()
	told(t, resp)
	if rep := r.end(); rep.Exit != ExitClean {
		t.Errorf("%+v", rep)
	}
}

func TestD22UnansweredIsNamed(t *testing.T) {
	h := newHeld()
	r := begin(t, h.ServeHTTP, nil)
	p := r.dial()
	p.send("/pay", "Eider-Caller: checkout@b2")
	soon(t, h.in, "the request")
	r.leave()
	p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close() // a reset: the answer has nowhere to go
	r.barrier()
	r.unlistened()
	close(h.release)
	rep := r.end()
	if rep.UnansweredCount != 1 || len(rep.Unanswered) != 1 || rep.Exit != ExitLoss {
		t.Fatalf("%+v", rep)
	}
	if u := rep.Unanswered[0]; u.Method != "POST" || u.Path != "/pay" || u.Caller != "checkout@b2" || !u.Before {
		t.Errorf("it is named as %+v", u)
	}
}

// Bytes that come after we have closed a connection don't reach a handler.
func TestD22ClosedConnectionRunsNoHandler(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	d := &drainer{}
	c := &conn{Conn: here, book: &book{d: d}}
	read := make(chan error, 1)
	c.phase.Store(closing) // as closeIfQuiet leaves it, while Read is about to return bytes
	go func() {
		n, err := c.Read(make([]byte, 10))
		if n != 0 {
			t.Errorf("it yields %d bytes", n)
		}
		read <- err
	}()
	there.Write([]byte("POST"))
	if err := soon(t, read, "the read"); err == nil {
		t.Error("the read succeeds")
	}
	here.Close()
}
