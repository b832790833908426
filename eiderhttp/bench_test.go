package eiderhttp

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/eiderhq/eider/internal/fake"
)

// BenchmarkRoundTrip calls one server on loopback, by a plain http.Transport and by ours: the ratio of the two is
// what counts (at most 1.15 in time, at most 12 allocations more).
func BenchmarkRoundTrip(b *testing.B) {
	a := serve(b, "", nil)
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	w := newWorld(b, &Transport{})
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	plain := &http.Transport{MaxIdleConnsPerHost: 100}
	b.Cleanup(plain.CloseIdleConnections)
	body := bytes.Repeat([]byte("x"), 100)
	for _, c := range []struct {
		name, url string
		rt        http.RoundTripper
	}{{"plain", a.URL + "/pay", plain}, {"eider", "http://orders/pay", w.tr}} {
		b.Run("GET/"+c.name, func(b *testing.B) { roundTrips(b, c.rt, "GET", c.url, nil) })
		b.Run("POST/"+c.name, func(b *testing.B) { roundTrips(b, c.rt, "POST", c.url, body) })
		b.Run("parallel/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					roundTrip(b, c.rt, "POST", c.url, body)
				}
			})
		})
	}
}

func roundTrips(b *testing.B, rt http.RoundTripper, method, url string, body []byte) {
	b.ReportAllocs()
	for b.Loop() {
		roundTrip(b, rt, method, url, body)
	}
}

func roundTrip(t testing.TB, rt http.RoundTripper, method, url string, body []byte) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequest(method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// allocations is how many a request takes. The server allocates in the same process, now and then more.
func allocations(request func()) float64 {
	least := math.Inf(1)
	for range 5 {
		least = min(least, testing.AllocsPerRun(200, request))
	}
	return least
}

// The part of the promise that no machine's speed can break.
func TestAllocationsBesidePlainTransport(t *testing.T) {
	a := serve(t, "", nil)
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	w := newWorld(t, &Transport{})
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	plain := &http.Transport{MaxIdleConnsPerHost: 100}
	defer plain.CloseIdleConnections()
	for _, method := range []string{"GET", "POST"} {
		var body []byte
		if method == "POST" {
			body = []byte(strings.Repeat("x", 100))
		}
		base := allocations(func() { roundTrip(t, plain, method, a.URL, body) })
		ours := allocations(func() { roundTrip(t, w.tr, method, "http://orders/", body) })
		if ours-base > 12 {
			t.Errorf("%s: %.0f allocations, plain http.Transport %.0f: more than 12 on top", method, ours, base)
		}
		t.Logf("%s: %.0f allocations, plain http.Transport %.0f", method, ours, base)
	}
}
