package eiderhttp

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eiderhq/eider/internal/fake"
)

// books keeps count of a server's open connections.
type books struct {
	mu      sync.Mutex
	open    map[net.Conn]http.ConnState
	changed chan struct{}
}

func (b *books) keep(s *httptest.Server) {
	b.open, b.changed = map[net.Conn]http.ConnState{}, make(chan struct{})
	s.Config.ConnState = func(c net.Conn, st http.ConnState) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open[c] = st
		if st == http.StateClosed {
			delete(b.open, c)
		}
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

func (b *books) await(t *testing.T, n int) {
	t.Helper()
	late := time.After(patience)
	for {
		b.mu.Lock()
		have, next := len(b.open), b.changed
		b.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-next:
		case <-late:
			t.Fatalf("%d connections are open, want %d", have, n)
		}
	}
}

// A caller that lets go has no idle connection left that could be picked as the server closes it (the residue that
// no server setting removes).
func TestS10LettingGoClosesIdleConnections(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		tr := &Transport{}
		var options []func(*httptest.Server)
		if h2 {
			tr.Base = h2cBase()
			options = append(options, h2c)
		}
		w := newWorld(t, tr)
		var conns books
		a := serve(t, "a", nil, append(options, conns.keep)...)
		b := serve(t, "b", nil, options...)
		w.Set("orders", fake.Up("orders", "a", a.addr()))
		w.want("200 a", "POST", "http://orders/", "x")
		conns.await(t, 1)
		w.Set("orders", fake.Draining(fake.Up("orders", "a", a.addr())), fake.Up("orders", "b", b.addr()))
		w.Await("letting go", fake.LetGo("a"))
		conns.await(t, 0)
		for range 5 {
			w.want("200 b", "POST", "http://orders/", "x")
		}
	}
}

// A connection that was busy when its instance was let go of is closed once its answer has been read.
func TestBusyConnectionsCloseAfterLettingGo(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		tr := &Transport{}
		var options []func(*httptest.Server)
		if h2 {
			tr.Base = h2cBase()
			options = append(options, h2c)
		}
		w := newWorld(t, tr)
		goOn := make(chan struct{})
		var conns books
		a := serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "begun ")
			http.NewResponseController(w).Flush()
			<-goOn
			io.WriteString(w, "done")
		}, append(options, conns.keep)...)
		b := serve(t, "b", nil, options...)
		in := fake.Up("orders", "a", a.addr())
		w.Set("orders", in)
		resp, err := w.hc.Post("http://orders/", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		w.Set("orders", fake.Draining(in), fake.Up("orders", "b", b.addr()))
		w.Await("letting go, though the answer isn't wholly read", fake.LetGo("a"))
		conns.await(t, 1)
		w.Apply("orders", fake.Gone(in), fake.Up("orders", "b", b.addr())) // buried: what is in flight still ends
		close(goOn)
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != "begun done" {
			t.Fatalf("%q, %v", got, err)
		}
		resp.Body.Close()
		conns.await(t, 0)
		if n := len(tr.live()); n != 1 {
			t.Errorf("%d instances have a pool, want b's alone", n)
		}
	}
}

// A request that an instance may not have read yet holds up letting go: until it has answered, or for a second
// from having been written.
func TestUnansweredRequestsHoldUpLettingGo(t *testing.T) {
	w := newWorld(t, &Transport{})
	goOn, arrived := make(chan struct{}), make(chan struct{}, 2)
	finish := sync.OnceFunc(func() { close(goOn) })
	answers := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		arrived <- struct{}{}
		<-goOn
	})
	silent := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-goOn
	})
	b := serve(t, "b", nil)
	t.Cleanup(finish) // before the servers', which wait for their handlers
	early, late := fake.Up("early", "a", answers.addr()), fake.Up("late", "a", silent.addr())
	w.Set("early", early)
	w.Set("late", late)
	var wg sync.WaitGroup
	post := func(url string) {
		wg.Go(func() {
			if resp, err := w.hc.Post(url, "text/plain", strings.NewReader("x")); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			} else {
				t.Errorf("%s: %v", url, err)
			}
		})
		<-arrived
	}
	post("http://late/")
	<-time.After(300 * time.Millisecond) // so that its second is over first: the other one can only be earlier by its answer
	post("http://early/")
	w.Set("late", fake.Draining(late), fake.Up("late", "b", b.addr()))
	w.Set("early", fake.Draining(early), fake.Up("early", "b", b.addr()))
	letGo := func(h *fake.Heard, service string) bool {
		for _, a := range h.Acks {
			if a.GetService() == service && len(a.GetLetGo()) > 0 {
				return true
			}
		}
		return false
	}
	first := ""
	w.Await("letting go of either", func(h *fake.Heard) bool {
		if first == "" && letGo(h, "early") && !letGo(h, "late") {
			first = "early"
		} else if first == "" && letGo(h, "late") {
			first = "late"
		}
		return first != ""
	})
	if first != "early" {
		t.Error("the instance that has answered was let go of no earlier than the one that hasn't")
	}
	w.Await("letting go of a request that was written long ago", func(h *fake.Heard) bool { return letGo(h, "late") })
	finish()
	wg.Wait()
}

// Cut off from the registry, a caller learns from the answers themselves.
func TestLeavingIsLearntInBand(t *testing.T) {
	w := newWorld(t, &Transport{})
	var conns books
	in := fake.Up("orders", "a", "")
	a := serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Eider-Leaving", in.Incarnation.String())
		io.WriteString(w, "a")
	}, conns.keep)
	in.Address = a.addr()
	b := serve(t, "b", nil)
	w.Set("orders", in, fake.Spare("orders", "b", b.addr()))
	w.want("200 a", "POST", "http://orders/", "x")
	for range 5 {
		w.want("200 b", "POST", "http://orders/", "x")
	}
	conns.await(t, 0)

	// The word of somebody else, or no word at all, says nothing.
	for _, says := range []string{"1-00000000000000ff", "true", ""} {
		c := serve(t, "c", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Eider-Leaving", says) })
		service := "other" + says[:min(1, len(says))]
		w.Set(service, fake.Up(service, "c", c.addr()), fake.Spare(service, "b", b.addr()))
		for range 3 {
			w.want("200 ", "POST", "http://"+service+"/", "x")
		}
	}
}

func TestCloseIdleConnections(t *testing.T) {
	w := newWorld(t, &Transport{})
	var conns books
	a := serve(t, "a", nil, conns.keep)
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	w.want("200 a", "GET", "http://orders/", "")
	conns.await(t, 1)
	w.hc.CloseIdleConnections()
	conns.await(t, 0)
	w.want("200 a", "GET", "http://orders/", "")
	w.tr.Close()
	conns.await(t, 0)
}
