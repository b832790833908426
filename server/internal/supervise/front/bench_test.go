package front

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// What the front costs beside net/http/httputil's proxy as it is, with its connections kept for everything: the ratios
// are in docs/benchmarks.md. POST is dearer by the connection that each has of its own.
func BenchmarkFront(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer srv.Close()
	to, err := url.Parse(srv.URL)
	if err != nil {
		b.Fatal(err)
	}
	bare := httputil.NewSingleHostReverseProxy(to)
	kept := &http.Transport{MaxIdleConnsPerHost: idleMost}
	defer kept.CloseIdleConnections()
	bare.Transport = kept
	for _, row := range []struct {
		name string
		h    http.Handler
	}{{"bare", bare}, {"front", handler(b, srv.URL)}} {
		for _, method := range []string{"GET", "POST"} {
			b.Run(row.name+"/"+method, func(b *testing.B) {
				at := httptest.NewServer(row.h)
				defer at.Close()
				c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
				defer c.CloseIdleConnections()
				b.ReportAllocs()
				for b.Loop() {
					body := ""
					if method == "POST" {
						body = "a body of some length"
					}
					r, err := http.NewRequest(method, at.URL, strings.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					resp, err := c.Do(r)
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
	}
}
