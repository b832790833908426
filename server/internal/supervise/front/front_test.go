package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eiderhq/eider/internal/fake"
)

// before puts a front before the program at to, and serves it, HTTP/1 and h2c.
func before(t *testing.T, to string) (at string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler(t, to))
	srv.Config.Protocols = both()
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

func handler(t testing.TB, to string) *Front {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	f := Handler(u, slog.New(slog.DiscardHandler))
	t.Cleanup(f.Close)
	return f
}

func both() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// program is one that speaks HTTP/1 only.
func program(t *testing.T, h http.HandlerFunc) (at string) {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// client speaks HTTP/1, or h2c alone.
func client(t *testing.T, h2c bool) *http.Client {
	p := new(http.Protocols)
	p.SetHTTP1(!h2c)
	p.SetUnencryptedHTTP2(h2c)
	tr := &http.Transport{Protocols: p, DisableCompression: true, ExpectContinueTimeout: time.Minute}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func each(t *testing.T, f func(*testing.T, *http.Client)) {
	t.Run("http1", func(t *testing.T) { f(t, client(t, false)) })
	t.Run("h2c", func(t *testing.T) { f(t, client(t, true)) })
}

func do(t *testing.T, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func request(t *testing.T, method, to string, body io.Reader) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheProgramSeesTheRequestAsItCame(t *testing.T) {
	each(t, func(t *testing.T, c *http.Client) {
		seen := make(chan *http.Request, 1)
		at := before(t, program(t, func(w http.ResponseWriter, r *http.Request) {
			seen <- r
			w.Header().Set("Keep-Alive", "timeout=5")
			w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
			http.Redirect(w, r, "/elsewhere", http.StatusSeeOther)
		}))
		r := request(t, "DELETE", at+"/a%2Fb//c?x=1;y=2&&%zz", nil)
		r.Host = "orders.example"
		r.Header = http.Header{"Eider-Caller": {"checkout@b2"}, "X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "Forwarded": {"for=192.0.2.1"}, "Accept-Encoding": {"br"}, "X-Two": {"1", "2"}}
		resp, _ := do(t, c, r)
		got := <-seen
		if got.Host != "orders.example" || got.Method != "DELETE" || got.RequestURI != "/a%2Fb//c?x=1;y=2&&%zz" {
			t.Errorf("it saw %s %s of %s", got.Method, got.RequestURI, got.Host)
		}
		for name, want := range map[string][]string{"Eider-Caller": {"checkout@b2"}, "X-Forwarded-For": {"192.0.2.1, 127.0.0.1"}, "X-Forwarded-Proto": {"https"},
			"X-Forwarded-Host": {"orders.example"}, "Forwarded": {"for=192.0.2.1"}, "Accept-Encoding": {"br"}, "X-Two": {"1", "2"}} {
			if !slices.Equal(got.Header[name], want) {
				t.Errorf("it saw %s: %q, want %q", name, got.Header[name], want)
			}
		}
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/elsewhere" || len(resp.Header["Set-Cookie"]) != 2 || resp.Header.Get("Keep-Alive") != "" {
			t.Errorf("the answer is %d %v", resp.StatusCode, resp.Header)
		}
		do(t, c, request(t, "GET", at, nil))
		if got := <-seen; len(got.Header["Accept-Encoding"]) > 0 {
			t.Errorf("it saw Accept-Encoding: %q, which nobody has said", got.Header["Accept-Encoding"])
		}
	})
}

// once is a program that answers one request on each connection, keeps it open as if for more, and closes it when the
// next one comes: the race with its idle timeout, lost each time.
func once(t *testing.T) (at string, taken *lots) {
	taken = &lots{}
	ln := fake.Script(t, func(_ int, nc net.Conn) {
		from := bufio.NewReader(nc)
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(r.Body)
		taken.add(r.Method)
		fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		_, _ = from.ReadByte() // of the next request, or the end
	})
	return "http://" + ln.Addr().String(), taken
}

func TestAnIdleConnectionThatClosesLosesNoRequest(t *testing.T) {
	each(t, func(t *testing.T, c *http.Client) {
		to, taken := once(t)
		at := before(t, to)
		const n = 40
		for i := range n {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				body := ""
				if method != "GET" && method != "DELETE" || i%2 > 0 { // a GET may have one too
					body = fmt.Sprint("body ", i)
				}
				if resp, got := do(t, c, request(t, method, at, strings.NewReader(body))); resp.StatusCode != 200 || got != body || resp.Close {
					t.Fatalf("%s %d: %d %s, closes %v", method, i, resp.StatusCode, got, resp.Close)
				}
			}
		}
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			if got := taken.count(method); got != n {
				t.Errorf("the program took %d %s, want %d: each once", got, method, n)
			}
		}
	})
}

func TestNothingIsSentTwice(t *testing.T) {
	taken := &lots{}
	ln := fake.Script(t, func(_ int, nc net.Conn) {
		if r, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			taken.add(r.Method)
		}
	})
	at, c := before(t, "http://"+ln.Addr().String()), client(t, false)
	for _, body := range []string{"", "body"} {
		r := request(t, "POST", at, strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
		r.GetBody = nil
		resp, got := do(t, c, r)
		if resp.StatusCode != http.StatusBadGateway || !strings.Contains(got, "it may have acted upon the request") {
			t.Errorf("%d %s", resp.StatusCode, got)
		}
	}
	if got := taken.count("POST"); got != 2 {
		t.Errorf("two POSTs came %d times", got)
	}
}

// refusing is an address that refuses, and that nobody else gets meanwhile: a connection goes out from it.
func refusing(t *testing.T) string {
	nc, err := net.Dial("tcp", fake.Listen(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc.LocalAddr().String()
}

func TestAProgramThatIsNotThere(t *testing.T) {
	port := refusing(t)
	at, c := before(t, "http://"+port), client(t, false)
	r := request(t, "POST", at, strings.NewReader("body"))
	resp, got := do(t, c, r)
	if resp.StatusCode != http.StatusBadGateway || !strings.Contains(got, "nothing was sent to it") || !strings.Contains(got, port) {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
	if !resp.Close {
		t.Error("the connection stays, with a body in it that nobody has read: the next request would be lost")
	}
	r = request(t, "POST", at, strings.NewReader("body"))
	r.Header.Set("Eider-Caller", "checkout@b2")
	if resp, got = do(t, c, r); resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("%d %s: a caller of Eider's isn't told that it may ask another", resp.StatusCode, got)
	}
}

func TestAProgramThatSpeaksGarbage(t *testing.T) {
	ln := fake.Script(t, func(_ int, nc net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(nc))
		_, _ = nc.Write([]byte("\x1b[2J garbage " + strings.Repeat("z", 4096) + "\r\n\r\n"))
	})
	resp, got := do(t, client(t, false), request(t, "POST", before(t, "http://"+ln.Addr().String()), strings.NewReader("body")))
	if resp.StatusCode != http.StatusBadGateway || len(got) > 500 || strings.Contains(got, "\x1b") {
		t.Errorf("%d, %d bytes: %.100q", resp.StatusCode, len(got), got)
	}
}

func TestAProgramThatStartsAgain(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	first := httptest.NewServer(h)
	addr := first.Listener.Addr().String()
	at, c := before(t, first.URL), client(t, false)
	for range 2 {
		for _, method := range []string{"GET", "POST"} {
			if resp, got := do(t, c, request(t, method, at, strings.NewReader(""))); resp.StatusCode != 200 {
				t.Fatalf("%s: %d %s", method, resp.StatusCode, got)
			}
		}
		first.Config.Close() // also the connections that the front keeps
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		first = &httptest.Server{Listener: ln, Config: &http.Server{Handler: h}}
		first.Start()
		defer first.Close()
	}
}

// lots counts what a program has taken.
type lots struct {
	mu sync.Mutex
	by map[string]int
}

func (l *lots) add(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]int{}
	}
	l.by[what]++
}

func (l *lots) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[what]
}
