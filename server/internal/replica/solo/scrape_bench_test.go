package solo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/front/console"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// BenchmarkScrape is what a scrape costs with so many services, each with an instance, a caller and a past departure,
// of which the last 256 are kept: as a whole, and its reads, each of which holds the node's lock as long as it takes, but for
// glances, services and callers, which sort names or callers without it.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000} {
		r, names := scraped(b, n)
		front := console.New(r, console.Config{})
		get := func(path string) func() {
			return func() {
				w := httptest.NewRecorder()
				w.Body = nil
				front.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
				if w.Code != http.StatusOK {
					b.Fatal(path, w.Code)
				}
			}
		}
		for _, part := range []struct {
			name string
			read func()
		}{
			{"node", func() { r.Node() }},
			{"services", func() { r.Services() }},
			{"names", func() { r.look(func(_ time.Time, t *ledger.Table) { t.Services() }) }},
			{"look", func() { // the longest that Glances holds the node at a time
				r.look(func(_ time.Time, t *ledger.Table) {
					for _, name := range names[:min(n, atALook)] {
						t.Steps(name)
						t.Away(name)
						r.summary(t, name)
					}
				})
			}},
			{"glances", func() {
				for range r.Glances() {
				}
			}},
			{"running", func() { r.Running() }},
			{"callers", func() { r.Callers("") }},
			{"drains", func() { r.Drains("") }},
			{"whole", get("/metrics")},
			{"window", get("/v1/window?service=" + names[0])},
		} {
			b.Run(fmt.Sprintf("%s/%d", part.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					part.read()
				}
			})
		}
	}
}

// scraped is a node with so many services.
func scraped(b *testing.B, n int) (*Registry, []string) {
	r := run(b, Config{Dial: silent, Ledger: ledger.Config{Lease: time.Hour, SuspectAfter: time.Hour}})
	names := make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("service-%05d", i)
		a := attach(b, r, fmt.Sprint("p", i))
		for j := range 2 {
			register(b, a, record(names[i], fmt.Sprint(j), fmt.Sprintf("127.0.0.1:%d", 1+2*i+j), uint64(2*i+j)+1))
		}
		follow(b, r, fmt.Sprint("c", i), names[i])
		gone := eider.Key{Service: names[i], ID: "1"}
		if err := a.Leave(gone, 0); err != nil {
			b.Fatal(err)
		}
		if err := a.Left(gone); err != nil {
			b.Fatal(err)
		}
	}
	return r, names
}
