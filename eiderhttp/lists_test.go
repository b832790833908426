package eiderhttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/meter"
	"github.com/eiderhq/eider/registry"
)

// soon is a Hedge that every test has time for: whoever is to be slow waits for the second request, not for a while.
const soon = 20 * time.Millisecond

// lists is a world in which it doesn't matter who is called first: what an instance does depends on which request of
// the test it gets.
type lists struct {
	*world
	meter   meter.Meter
	servers []*server
	came    [4]chan struct{} // closed as the first, second, third request has come
	hungUp  chan string      // who was hung up on
}

func newLists(t *testing.T, n int, tr *Transport, each func(l *lists, n int, w http.ResponseWriter, r *http.Request), options ...func(*httptest.Server)) *lists {
	l := &lists{hungUp: make(chan string, 8)}
	l.world = &world{Node: fake.New(t, registry.Config{Meter: &l.meter}), t: t, tr: tr, hc: &http.Client{Transport: tr}}
	tr.Registry, tr.ConnectTimeout = l.Handle, patience
	for i := range l.came {
		l.came[i] = make(chan struct{})
	}
	t.Cleanup(func() { tr.Close() })
	var count atomic.Int64
	for i := range n {
		name := string(rune('a' + i))
		l.servers = append(l.servers, serve(t, name, func(w http.ResponseWriter, r *http.Request) {
			n := int(count.Add(1))
			if n <= len(l.came) {
				close(l.came[n-1])
			}
			w.Header().Set("By", name)
			each(l, n, w, r)
		}, options...))
	}
	l.Set("orders", l.instances()...)
	return l
}

func (l *lists) instances() (all []eider.Instance) {
	for i, s := range l.servers {
		all = append(all, fake.Up("orders", string(rune('a'+i)), s.addr()))
	}
	return all
}

// hang answers nothing for as long as the caller waits.
func (l *lists) hang(w http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
		l.hungUp <- w.Header().Get("By")
	case <-time.After(patience): // the test has failed, and is to end
	}
}

func (l *lists) await(n int) {
	select {
	case <-l.came[n-1]:
	case <-time.After(patience):
		l.t.Errorf("request %d never came", n)
	}
}

// loser returns who was hung up on.
func (l *lists) loser() string {
	l.t.Helper()
	select {
	case id := <-l.hungUp:
		return id
	case <-time.After(patience):
		l.t.Fatal("nobody was hung up on")
		return ""
	}
}

// got counts the requests of all instances.
func (l *lists) got() (n int) {
	for _, s := range l.servers {
		n += len(s.got())
	}
	return n
}

// hedges counts what the meter has seen of them, and of all tries.
func (l *lists) hedges() (hedges, all float64) {
	for _, s := range l.meter.Samples() {
		switch {
		case s.Metric == meter.Tries:
			all += s.Value
		case s.Metric == meter.Retries && s.Label == hedge:
			hedges += s.Value
		}
	}
	return hedges, all
}

// neutral fails the test if the breaker has an outcome of the instance, once the request there has ended.
func (l *lists) neutral(id string) {
	l.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		for _, s := range (*l.tr.services.Load())["orders"].roster.Standings() {
			switch b := s.Breaker; {
			case s.ID != id:
			case b.InFlight > 0 && time.Now().Before(end):
			case b.Total != 0 || b.InFlight != 0 || b.Opened != 0:
				l.t.Errorf("%s lost, and its breaker says %+v", id, b)
				return
			default:
				return
			}
		}
	}
}

// content is a body that isn't known to be in memory.
type content struct{ io.Reader }

func (content) Close() error { return nil }
