package eiderhttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
)

func portOf(t *testing.T, addr string) uint16 {
	_, port, _ := net.SplitHostPort(addr)
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(n)
}

func TestNamedPorts(t *testing.T) {
	w := newWorld(t, &Transport{})
	a, admin := serve(t, "a", nil), serve(t, "admin", nil)
	in := fake.Up("orders", "a", a.addr())
	in.Ports = map[string]uint16{"Admin": portOf(t, admin.addr())}
	bare := fake.Spare("orders", "b", serve(t, "b", nil).addr())
	w.Set("orders", in, bare)
	w.want("200 admin", "GET", "http://_admin.orders/", "")
	w.want("200 a", "GET", "http://orders/", "")
	if host := admin.got()[0].host; host != "orders" {
		t.Errorf("the Host header is %q", host)
	}
	w.Set("stock", fake.Up("stock", "1", a.addr()), fake.Spare("stock", "2", a.addr()))
	_, err := w.fetch("POST", "http://_admin.stock/", "x")
	if err == nil || !strings.Contains(err.Error(), `stock/1 `) || !strings.Contains(err.Error(), `no port named "admin"`) || !strings.Contains(err.Error(), "stock/2 ") {
		t.Errorf("got %v", err)
	}
}

func TestHostHeaderOfTheCallerIsKept(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "a", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	req := post(t, nil)
	req.Host = "shop.example"
	if _, err := w.do(req); err != nil || a.got()[0].host != "shop.example" {
		t.Errorf("%v, %+v", err, a.got())
	}
}

// startTLS serves TLS with httptest's certificate, which is for example.com.
func startTLS(s *httptest.Server) { s.TLS = &tls.Config{} }

func trusting(s *server) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{RootCAs: pool}
}

func TestTLSIsToTheServicesName(t *testing.T) {
	a := serve(t, "a", nil, startTLS, func(s *httptest.Server) { s.EnableHTTP2 = true })
	b := serve(t, "b", nil, startTLS)
	for _, row := range []struct {
		name  string
		base  *http.Transport
		proto int
	}{
		{"HTTP/1 for want of ForceAttemptHTTP2", &http.Transport{TLSClientConfig: trusting(a)}, 1},
		{"HTTP/2", &http.Transport{TLSClientConfig: trusting(a), ForceAttemptHTTP2: true}, 2},
		{"own TLS dialer", &http.Transport{DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != a.addr() && addr != b.addr() {
				return nil, fmt.Errorf("asked to dial %s", addr)
			}
			config := trusting(a)
			config.ServerName = "example.com"
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
		}}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, &Transport{Base: row.base})
			w.Set("example.com", fake.Up("example.com", "a", a.addr()), fake.Spare("example.com", "b", b.addr()))
			for range 2 {
				w.want("200 a", "POST", "https://example.com/", "x")
				w.want("200 a", "POST", "https://EXAMPLE.com:443/", "")
			}
			got := a.got()
			if last := got[len(got)-1]; last.proto != row.proto || last.host != "example.com" {
				t.Errorf("a got HTTP/%d for %s, want HTTP/%d", last.proto, last.host, row.proto)
			}
		})
	}
	w := newWorld(t, &Transport{Base: &http.Transport{TLSClientConfig: trusting(a)}})
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	if _, err := w.fetch("GET", "https://orders/", ""); err == nil || !strings.Contains(err.Error(), "valid for") {
		t.Errorf("a certificate for another name: %v", err)
	}
	named := trusting(a)
	named.ServerName = "example.com"
	w2 := newWorld(t, &Transport{Base: &http.Transport{TLSClientConfig: named}})
	w2.Set("orders", fake.Up("orders", "a", a.addr()))
	w2.want("200 a", "GET", "https://orders/", "")
}

// A Base that would do HTTP/2 by itself still does, though each clone has a dialer of its own; also one in use.
func TestBaseKeepsItsHTTP2(t *testing.T) {
	a := serve(t, "a", nil, startTLS, func(s *httptest.Server) { s.EnableHTTP2 = true })
	w := newWorld(t, &Transport{Base: http.DefaultTransport.(*http.Transport)})
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	w.fetch("GET", "https://orders/", "")
	if !w.tr.pattern.ForceAttemptHTTP2 {
		t.Error("HTTP/2 is lost")
	}
	off := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	w = newWorld(t, &Transport{Base: off})
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	w.fetch("GET", "https://orders/", "")
	if w.tr.pattern.ForceAttemptHTTP2 {
		t.Error("HTTP/2 was off, and is on")
	}
}

// Wrap sees each try, with the logical host; a trace in the caller's context hears all as well.
func TestWrapIsAroundEachTry(t *testing.T) {
	var mu sync.Mutex
	var saw []string
	w := newWorld(t, &Transport{Wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			saw = append(saw, r.URL.Hostname()+" "+r.Header.Get("Eider-To")[:1])
			mu.Unlock()
			type traced struct{}
			return next.RoundTrip(r.Clone(context.WithValue(r.Context(), traced{}, 1)))
		})
	}})
	b := serve(t, "b", nil)
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Spare("orders", "b", b.addr()))
	var got, wrote atomic.Int64
	req := post(t, strings.NewReader("x"))
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { got.Add(1) },
		WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Add(1) },
	}))
	if answer, err := w.do(req); err != nil || answer != "200 b" {
		t.Fatalf("%q, %v", answer, err)
	}
	if want := "orders a,orders b"; strings.Join(saw, ",") != want {
		t.Errorf("Wrap saw %q, want %q", saw, want)
	}
	if got.Load() != 1 || wrote.Load() != 1 {
		t.Errorf("the caller's trace heard of %d connections and %d requests, want 1 and 1", got.Load(), wrote.Load())
	}
	if w.tr.Faults()[Refused] != 1 {
		t.Errorf("faults are %v", w.tr.Faults())
	}
}

// What Wrap, or net/http before any connection, says no to is nobody's fault.
func TestRequestsThatNetHTTPRefusesAreTheCallers(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "a", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()), fake.Spare("orders", "b", a.addr()))
	for range 3 {
		if _, err := w.fetch("GET", "http://orders/", "", "Bad", "a\nb"); eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), "header") {
			t.Errorf("got %v", err)
		}
	}
	if n := w.tr.Faults(); n[Other] != 3 || len(n) != 1 {
		t.Errorf("faults are %v", n)
	}
}

func TestUpgradesAreBothWays(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buf.ReadString('\n')
		io.WriteString(c, line)
	})
	in := fake.Up("orders", "a", a.addr())
	w.Set("orders", in)
	req := post(t, nil)
	req.Method = "GET"
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := w.tr.RoundTrip(req)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v, %v", resp, err)
	}
	rw, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body is a %T", resp.Body)
	}
	w.Apply("orders", fake.Draining(in), fake.Up("orders", "b", a.addr())) // letting go leaves it alone
	w.Await("letting go", fake.LetGo("a"))
	fmt.Fprintln(rw, "hello")
	if line, err := bufio.NewReader(rw).ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	resp.Body.Close()
}

func TestExpectContinueGoesElsewhereUnsent(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "", nil)
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(421) })
	b := serve(t, "b", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()), fake.Spare("orders", "b", b.addr()))
	body := &single{Reader: strings.NewReader("once")}
	req := post(t, body)
	req.Header.Set("Expect", "100-continue")
	if got, err := w.do(req); err != nil || got != "200 b" || b.got()[0].body != "once" {
		t.Errorf("%q, %v, %+v", got, err, b.got())
	}
}

func TestFilesAreSentAsTheyAre(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "a", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	big := strings.Repeat("0123456789", 1<<17)
	w.want("200 a", "POST", "http://orders/", big)
	if got := a.got()[0].body; got != big {
		t.Errorf("a got %d bytes of %d", len(got), len(big))
	}
}
