package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/front/console/stage"
)

// tape is a ResponseWriter that keeps what it is given; told to hang, it takes nothing until the write
// deadline, as a connection does whose reader doesn't read.
type tape struct {
	mu       sync.Mutex
	header   http.Header
	text     strings.Builder
	hang     bool
	gate     chan struct{} // Write waits for it, nil doesn't
	deadline time.Time
	flushed  int
	status   int
}

func (w *tape) Header() http.Header { return w.header }

func (w *tape) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *tape) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return nil
}

func (w *tape) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed++
	return nil
}

func (w *tape) Write(p []byte) (int, error) {
	w.mu.Lock()
	gate, hang, deadline := w.gate, w.hang, w.deadline
	w.mu.Unlock()
	if hang {
		<-time.After(time.Until(deadline))
		return 0, os.ErrDeadlineExceeded
	}
	if gate != nil {
		<-gate
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// rewind returns what was written since the last rewind.
func (w *tape) rewind() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.text.Reset()
	return w.text.String()
}

// listen opens an event stream in a goroutine; the channel is closed when it has ended.
func listen(t *testing.T, h http.Handler, query string, headers ...string) (*tape, context.CancelFunc, <-chan struct{}) {
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/events"+query, nil)
	r.Header.Set("Accept", "text/html;q=0.1, Text/Event-Stream;q=0.9")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, ended := &tape{header: http.Header{}}, make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(w, r)
	}()
	return w, cancel, ended
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("stream says\n%q, want\n%q", got, want)
	}
}

const said = `{"seq":%d,"time":"2000-01-01T00:00:00Z","kind":%q,"service":%q}`

func message(seq int, kind, service string) string {
	return fmt.Sprintf("id: abc-%d\ndata: "+said+"\n\n", seq, seq, kind, service)
}

// TestEventStream: what is kept, what happens, signs of life, and a last word when the node stops.
func TestEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := stage.New(eider.Node{Name: "node-1", Run: run})
		reg.Tell(eider.Event{Kind: eider.EventRegistered, Service: "orders"})
		h := New(reg, Config{Heartbeat: time.Second, Logger: quiet()})
		w, cancel, ended := listen(t, h, "")
		expect(t, w.rewind(), "retry: 2000\n: events of \"node-1\"\n\n"+message(1, "registered", "orders")+"id: abc-1\n\n")
		if got := w.header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Content-Type %q", got)
		}
		reg.Tell(eider.Event{Kind: eider.EventLeaving, Service: "orders"})
		expect(t, w.rewind(), message(2, "leaving", "orders"))
		time.Sleep(1500 * time.Millisecond)
		expect(t, w.rewind(), ": still here\nid: abc-2\n\n")
		cancel()
		<-ended
		if got := w.rewind(); !strings.HasPrefix(got, "event: end\ndata: {") {
			t.Errorf("a stream that the node ends says %q", got)
		}

		w, _, ended = listen(t, h, "?last=0")
		w.rewind()
		reg.End(eider.Errorf(eider.Unavailable, "events", "the node has stopped"))
		<-ended
		if got := w.rewind(); !strings.HasPrefix(got, "event: end\n") {
			t.Errorf("a stream of a node that has stopped says %q", got)
		}
	})
}

// TestEventStreamResumes: by Last-Event-ID, which wins over the URL; what is lost is said, by overflow and
// by another run; a service's stream doesn't wake for others, and its place moves on nevertheless.
func TestEventStreamResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := stage.New(eider.Node{Name: "n", Run: run})
		for i := range 5 {
			reg.Tell(eider.Event{Kind: eider.EventStatus, Service: fmt.Sprintf("s%d", i)})
		}
		h := New(reg, Config{Logger: quiet()})
		hello, lost := "retry: 2000\n: events of \"n\"\n\n", "event: lost\ndata: {\"message\":\"some events before the next are no longer kept\"}\n\n"
		for _, c := range []struct{ query, id, want string }{
			{"?last=1", "abc-3", message(4, "status", "s3") + message(5, "status", "s4")},
			{"?after=4", "", message(5, "status", "s4")},
			{"?last=1", "", message(5, "status", "s4")},
			{"?service=s1", "", message(2, "status", "s1")},
			{"?service=none", "", ""},
			{"?service=s4", "fff-77", lost + message(5, "status", "s4")},
		} {
			var headers []string
			if c.id != "" {
				headers = []string{"Last-Event-ID", c.id}
			}
			w, cancel, ended := listen(t, h, c.query, headers...)
			expect(t, w.rewind(), hello+c.want+"id: abc-5\n\n")
			cancel()
			<-ended
		}
		reg.Keep(2)
		w, cancel, ended := listen(t, h, "?after=5")
		w.rewind()
		gate := make(chan struct{})
		w.mu.Lock()
		w.gate = gate
		w.mu.Unlock()
		reg.Tell(eider.Event{Kind: eider.EventStatus, Service: "a"})
		synctest.Wait() // the stream is busy writing it
		for range 3 {
			reg.Tell(eider.Event{Kind: eider.EventStatus, Service: "b"})
		}
		close(gate)
		expect(t, w.rewind(), message(6, "status", "a")+lost+message(8, "status", "b")+message(9, "status", "b"))
		cancel()
		<-ended
	})
}

// TestStreamsAreBounded: the next is told to come back, a place is free again after the end, and waiting
// for a view takes a place too.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := scene()
		h := New(reg, Config{MaxStreams: 2, Logger: quiet()})
		_, cancel1, ended1 := listen(t, h, "")
		_, cancel2, ended2 := listen(t, h, "")
		synctest.Wait()
		w, cancel3, ended3 := listen(t, h, "")
		if body := w.rewind(); w.status != 429 || w.header.Get("Retry-After") != "5" {
			t.Errorf("a stream too many: status %d %s", w.status, body)
		}
		cancel3()
		<-ended3
		if w := ask(h, "/v1/services/orders?wait=1s", "If-None-Match", `"abc:7"`); w.Code != 429 {
			t.Errorf("waiting beside them: status %d", w.Code)
		}
		if w := ask(h, "/v1/services/orders?wait=1s"); w.Code != 200 {
			t.Errorf("a request that needn't wait: status %d", w.Code)
		}
		cancel1()
		<-ended1
		if w := ask(h, "/v1/services/orders?wait=1s", "If-None-Match", `"abc:7"`); w.Code != 304 {
			t.Errorf("after one has ended: status %d", w.Code)
		}
		cancel2()
		<-ended2
	})
}

// TestAHungReaderIsDropped: a stream whose reader takes nothing ends by its own write deadline.
func TestAHungReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := stage.New(eider.Node{Name: "n", Run: run})
		w, cancel, ended := listen(t, New(reg, Config{Logger: quiet()}), "")
		defer cancel()
		w.rewind()
		w.mu.Lock()
		w.hang = true
		w.mu.Unlock()
		begin := time.Now()
		reg.Tell(eider.Event{Kind: eider.EventStatus, Service: "a"})
		<-ended
		if took := time.Since(begin); took != writeGrace {
			t.Errorf("dropped after %s, want %s", took, writeGrace)
		}
	})
}

// TestWaitForAView: an answer comes when the view has changed, even a little after the event that tells;
// others' events don't end the wait; unchanged is 304 when the time is up.
func TestWaitForAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := scene()
		h := New(reg, Config{Logger: quiet()})
		begin := time.Now()
		if w := ask(h, "/v1/services/orders?wait=30s", "If-None-Match", `W/"x:1", "abc:7"`); w.Code != 304 || time.Since(begin) != 30*time.Second {
			t.Errorf("nothing changed: status %d after %s", w.Code, time.Since(begin))
		}
		begin = time.Now()
		go func() {
			time.Sleep(time.Second)
			reg.Tell(eider.Event{Kind: eider.EventStatus, Service: "pay"})
			time.Sleep(time.Second)
			reg.Tell(eider.Event{Kind: eider.EventStatus, Service: "orders"})
			time.Sleep(5 * time.Millisecond)
			reg.SetView(&eider.View{Service: "orders", Cursor: eider.Cursor{Run: run, Number: 8}, Complete: true})
		}()
		w := ask(h, "/v1/services/orders?wait=30s", "If-None-Match", `"abc:7"`)
		if w.Code != 200 || w.Header().Get("ETag") != `"abc:8"` || time.Since(begin) != 2010*time.Millisecond {
			t.Errorf("a change after 2s: status %d, ETag %s, after %s", w.Code, w.Header().Get("ETag"), time.Since(begin))
		}
		reg.End(errors.New("stopped"))
		begin = time.Now()
		if w := ask(h, "/v1/services/orders?wait=30s", "If-None-Match", `"abc:8"`); w.Code != 503 || time.Since(begin) > time.Second {
			t.Errorf("a node that stops: status %d after %s, want 503 at once", w.Code, time.Since(begin))
		}
	})
}

// TestTags: a cold view and a complete one of the same number differ.
func TestTags(t *testing.T) {
	h := New(scene(), Config{Logger: quiet()})
	for header, want := range map[string]int{`"abc:7"`: 304, `W/"abc:7"`: 304, `*`: 304, `"a", "abc:7"`: 304, `"abc:8"`: 200, `abc:7`: 200, ``: 200} {
		if w := ask(h, "/v1/services/orders", "If-None-Match", header); w.Code != want || w.Header().Get("ETag") != `"abc:7"` {
			t.Errorf("If-None-Match %s: status %d, want %d", header, w.Code, want)
		}
	}
	if a, b := etag(&eider.View{}), etag(&eider.View{Complete: true}); a == b {
		t.Errorf("both are %s", a)
	}
}
