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
		w.set("orders", up("orders", "a", a.addr()))
		w.want("200 a", "POST", "http://orders/", "x")
		conns.await(t, 1)
		w.set("orders", draining(up("orders", "a", a.addr())), up("orders", "b", b.addr()))
		w.await("letting go", w.letGo("a"))
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
		in := up("orders", "a", a.addr())
		w.set("orders", in)
		resp, err := w.hc.Post("http://orders/", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		w.set("orders", draining(in), up("orders", "b", b.addr()))
		w.await("letting go, though the answer isn't wholly read", w.letGo("a"))
		conns.await(t, 1)
		w.apply("orders", gone(in), up("orders", "b", b.addr())) // buried: what is in flight still ends
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
	early, late := up("early", "a", answers.addr()), up("late", "a", silent.addr())
	w.set("early", early)
	w.set("late", late)
	var wg sync.WaitGroup
	for _, url := range []string{"http://late/", "http://early/"} {
		wg.Go(func() {
			if resp, err := w.hc.Post(url, "text/plain", strings.NewReader("x")); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			} else {
				t.Errorf("%s: %v", url, err)
			}
		})
	}
	<-arrived
	<-arrived
	w.set("late", draining(late), up("late", "b", b.addr()))
	w.set("early", draining(early), up("early", "b", b.addr()))
	letGo := func(service string) bool {
		for _, a := range w.acks {
			if a.GetService() == service && len(a.GetLetGo()) > 0 {
				return true
			}
		}
		return false
	}
	first := ""
	w.await("letting go of either", func() bool {
		if first == "" && letGo("early") && !letGo("late") {
			first = "early"
		} else if first == "" && letGo("late") {
			first = "late"
		}
		return first != ""
	})
	if first != "early" {
		t.Error("the instance that has answered was let go of no earlier than the one that hasn't")
	}
	w.await("letting go of a request that was written long ago", func() bool { return letGo("late") })
	finish()
	wg.Wait()
}

// Cut off from the registry, a caller learns from the answers themselves.
func TestLeavingIsLearntInBand(t *testing.T) {
	w := newWorld(t, &Transport{})
	var conns books
	in := up("orders", "a", "")
	a := serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Eider-Leaving", in.Incarnation.String())
		io.WriteString(w, "a")
	}, conns.keep)
	in.Address = a.addr()
	b := serve(t, "b", nil)
	w.set("orders", in, spare("orders", "b", b.addr()))
	w.want("200 a", "POST", "http://orders/", "x")
	for range 5 {
		w.want("200 b", "POST", "http://orders/", "x")
	}
	conns.await(t, 0)

	// The word of somebody else, or no word at all, says nothing.
	for _, says := range []string{"1-00000000000000ff", "true", ""} {
		c := serve(t, "c", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Eider-Leaving", says) })
		service := "other" + says[:min(1, len(says))]
		w.set(service, up(service, "c", c.addr()), spare(service, "b", b.addr()))
		for range 3 {
			w.want("200 ", "POST", "http://"+service+"/", "x")
		}
	}
}

func TestCloseIdleConnections(t *testing.T) {
	w := newWorld(t, &Transport{})
	var conns books
	a := serve(t, "a", nil, conns.keep)
	w.set("orders", up("orders", "a", a.addr()))
	w.want("200 a", "GET", "http://orders/", "")
	conns.await(t, 1)
	w.hc.CloseIdleConnections()
	conns.await(t, 0)
	w.want("200 a", "GET", "http://orders/", "")
	w.tr.Close()
	conns.await(t, 0)
}
