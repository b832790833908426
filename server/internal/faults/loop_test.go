//go:build linux

package faults

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
)

// failure is a call that failed.
type failure struct {
	Began time.Time
	Text  string
}

// tally is how a loop's calls went.
type tally struct {
	Requests int
	Failures []failure
	Wrong    []string             // answers of another service
	By       map[string]int       // answers by instance
	Tries    map[string]int       // tries by instance
	Last     map[string]time.Time // when the last try of an instance began
}

// loop is one caller: a Transport of its own and one closed loop of POSTs.
type loop struct {
	reg     *registry.Registry
	tr      *eiderhttp.Transport
	service string
	stop    context.CancelFunc
	ctx     context.Context
	done    sync.WaitGroup

	mu   sync.Mutex
	t    tally
	news chan struct{}
}

func newLoop(reg *registry.Registry, service string) *loop {
	l := &loop{reg: reg, service: service, news: make(chan struct{}),
		t: tally{By: map[string]int{}, Tries: map[string]int{}, Last: map[string]time.Time{}}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.tr = &eiderhttp.Transport{Registry: reg, Wrap: func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			id, _, _ := strings.Cut(r.Header.Get("Eider-To"), "@")
			l.mu.Lock()
			l.t.Tries[id]++
			l.t.Last[id] = time.Now()
			l.mu.Unlock()
			return next.RoundTrip(r)
		})
	}}
	return l
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// start begins to call, with 0 to 8 ms between calls.
func (l *loop) start() {
	l.done.Go(func() {
		for l.ctx.Err() == nil {
			l.once()
			select {
			case <-time.After(rand.N(8 * time.Millisecond)):
			case <-l.ctx.Done():
			}
		}
	})
}

func (l *loop) once() {
	began := time.Now()
	who, err := l.call("POST", "/pay")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Requests++
	switch {
	case err != nil:
		l.t.Failures = append(l.t.Failures, failure{began, err.Error()})
	case !strings.HasPrefix(who, l.service+"/"):
		l.t.Wrong = append(l.t.Wrong, who)
	default:
		l.t.By[strings.TrimPrefix(who, l.service+"/")]++
	}
	close(l.news)
	l.news = make(chan struct{})
}

func (l *loop) call(method, path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := l.open(ctx, method, path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func (l *loop) open(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+l.service+path, strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	return (&http.Client{Transport: l.tr}).Do(req)
}

func (l *loop) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.t
	t.By, t.Tries, t.Last = maps.Clone(t.By), maps.Clone(t.Tries), maps.Clone(t.Last)
	t.Failures, t.Wrong = append([]failure(nil), t.Failures...), append([]string(nil), t.Wrong...)
	return t
}

// rest ends the calling; it stays a caller.
func (l *loop) rest() {
	l.stop()
	l.done.Wait()
}

// close says goodbye.
func (l *loop) close() {
	l.rest()
	l.tr.Close()
}

// load are loops in the test's own process, each a caller by itself.
type load struct {
	t     *testing.T
	loops []*loop
}

// startLoad starts callers and waits until each has had an answer.
func startLoad(t *testing.T, grpc, service string, n int) *load {
	t.Helper()
	ld := &load{t: t}
	for i := range n {
		reg := registry.Open(registry.Config{Addr: grpc, Caller: fmt.Sprintf("%s-caller%d", service, i), Logger: quiet})
		l := newLoop(reg, service)
		l.start()
		ld.loops = append(ld.loops, l)
		t.Cleanup(func() {
			l.close()
			reg.Close()
		})
	}
	ld.each(1)
	return ld
}

// each waits until every caller has had so many more answers.
func (ld *load) each(n int) {
	ld.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	from := make([]int, len(ld.loops))
	for i, l := range ld.loops {
		from[i] = l.tally().Requests
	}
	for i, l := range ld.loops {
		for {
			l.mu.Lock()
			done, news := l.t.Requests >= from[i]+n, l.news
			l.mu.Unlock()
			if done {
				break
			}
			select {
			case <-news:
			case <-late.C:
				ld.t.Fatalf("a caller had less than %d answers within %v", n, patience)
			}
		}
	}
}

func (ld *load) rest() {
	for _, l := range ld.loops {
		l.rest()
	}
}

// sum adds the callers up.
func (ld *load) sum() tally {
	all := tally{By: map[string]int{}, Tries: map[string]int{}, Last: map[string]time.Time{}}
	for _, l := range ld.loops {
		t := l.tally()
		all.Requests += t.Requests
		all.Failures = append(all.Failures, t.Failures...)
		all.Wrong = append(all.Wrong, t.Wrong...)
		for id, n := range t.By {
			all.By[id] += n
		}
		for id, n := range t.Tries {
			all.Tries[id] += n
			if t.Last[id].After(all.Last[id]) {
				all.Last[id] = t.Last[id]
			}
		}
	}
	return all
}

// flawless demands that no call failed, and that none was answered by another service.
func (t tally) flawless(test *testing.T, whose string) {
	test.Helper()
	for _, f := range t.Failures[:min(5, len(t.Failures))] {
		test.Errorf("%s: a call begun at %s failed: %s", whose, f.Began.Format("05.000"), f.Text)
	}
	if n := len(t.Failures); n > 0 {
		test.Errorf("%s: %d of %d calls failed", whose, n, t.Requests)
	}
	if len(t.Wrong) > 0 {
		test.Errorf("%s: %d answers of another service: %.5v", whose, len(t.Wrong), t.Wrong)
	}
}
