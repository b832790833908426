package eiderhttp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
)

// single is a body that can be read once, and tells how it is treated.
type single struct {
	io.Reader
	closed atomic.Int64
}

func (s *single) Close() error { s.closed.Add(1); return nil }

func (s *single) Read(p []byte) (int, error) {
	if s.closed.Load() > 0 {
		return 0, errors.New("read after close")
	}
	return s.Reader.Read(p)
}

func post(t *testing.T, body io.Reader) *http.Request {
	req, err := http.NewRequest("POST", "http://orders/", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A body that nobody has read from goes to the next instance as it is, though net/http has closed it.
func TestUnreadBodyIsSentElsewhere(t *testing.T) {
	w := newWorld(t, &Transport{})
	b := serve(t, "b", nil)
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Spare("orders", "b", b.addr()))
	body := &single{Reader: strings.NewReader("once")}
	got, err := w.do(post(t, body))
	if err != nil || got != "200 b" || b.got()[0].body != "once" {
		t.Errorf("%q, %v; b got %+v", got, err, b.got())
	}
	if n := body.closed.Load(); n != 1 {
		t.Errorf("the body was closed %d times", n)
	}
}

func TestReadBodyWithoutGetBodyIsNotSentAgain(t *testing.T) {
	w := newWorld(t, &Transport{})
	b := serve(t, "b", nil)
	a := serve(t, "a", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(421); io.WriteString(w, "not here") })
	w.Set("orders", fake.Up("orders", "a", a.addr()), fake.Spare("orders", "b", b.addr()))
	body := &single{Reader: strings.NewReader("once")}
	got, err := w.do(post(t, body))
	if err != nil || got != "421 not here" {
		t.Errorf("got %q, %v; want the 421 itself, as there is nothing better", got, err)
	}
	if len(b.got()) != 0 || body.closed.Load() != 1 {
		t.Errorf("b got %+v; the body was closed %d times", b.got(), body.closed.Load())
	}

	w.Set("cut", fake.Up("cut", "a", fake.Script(t, readSome).Addr().String()), fake.Spare("cut", "b", b.addr()))
	req := post(t, &single{Reader: strings.NewReader(strings.Repeat("x", 1<<20))})
	req.URL.Host = "cut"
	req.Header.Set("Idempotency-Key", "1")
	if _, err := w.do(req); err == nil || !strings.Contains(err.Error(), "GetBody") {
		t.Errorf("got %v", err)
	}
}

// The caller's own body fails: that is nobody else's fault, and no other instance would do better.
func TestFailingBodyIsTheCallersFault(t *testing.T) {
	w := newWorld(t, &Transport{})
	a, b := serve(t, "a", nil), serve(t, "b", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()), fake.Spare("orders", "b", b.addr()))
	broken := errors.New("disk on fire")
	for range 4 {
		_, err := w.do(post(t, io.MultiReader(strings.NewReader("begin"), failing{broken})))
		if !errors.Is(err, broken) || eider.KindOf(err) != eider.Invalid {
			t.Fatalf("got %v, kind %v", err, eider.KindOf(err))
		}
	}
	w.want("200 a", "GET", "http://orders/", "") // and it isn't set aside for it
	if n := len(b.got()); n != 0 {
		t.Errorf("b got %d requests", n)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestBodiesAreClosedWhateverHappens(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "a", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	w.Set("dead", fake.Up("dead", "a", fake.DeadPort(t)))
	for _, host := range []string{"orders", "dead", "nobody", "10.0.0.1", "orders:99"} {
		for _, rewinds := range []bool{false, true} {
			body := &single{Reader: strings.NewReader("x")}
			req := post(t, body)
			req.URL.Host = host
			var more []*single
			if rewinds {
				req.GetBody = func() (io.ReadCloser, error) {
					s := &single{Reader: strings.NewReader("x")}
					more = append(more, s)
					return s, nil
				}
			}
			w.do(req)
			for i, s := range append(more, body) {
				if s.closed.Load() == 0 {
					t.Errorf("%s, rewinds %v: body %d of %d was left open", host, rewinds, i, len(more)+1)
				}
			}
		}
	}
}

// What net/http knows to be in memory must stay known to it, or every POST takes two packets.
func TestBodiesInMemoryStayKnown(t *testing.T) {
	for _, r := range []io.Reader{strings.NewReader("x"), bytes.NewReader([]byte("x")), bytes.NewBufferString("x")} {
		if req := post(t, r); newBody(req).take(req) != req.Body {
			t.Errorf("%T is wrapped", r)
		}
	}
	if newBody(post(t, nil)) != nil || newBody(post(t, http.NoBody)) != nil {
		t.Error("no body is a body")
	}
}

func readSome(_ int, c net.Conn) {
	buf := make([]byte, 64<<10)
	io.ReadAtLeast(c, buf, 32<<10)
}
