package drain

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// held is a handler whose requests wait for their release, but those to /free.
type held struct {
	in, release chan struct{}
}

func newHeld() *held { return &held{make(chan struct{}, 100), make(chan struct{})} }

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/free" {
		h.in <- struct{}{}
		<-h.release
	}
	hello(w, r)
}

func TestOrdinaryLife(t *testing.T) {
	r := begin(t, hello, nil)
	p := r.dial()
	for range 3 {
		p.send("/free")
		resp, body := p.answer()
		if body != "hello" || resp.Close || resp.Header.Get("Eider-Leaving") != "" {
			t.Errorf("before the leave an answer says %q, %v", body, resp.Header)
		}
	}
	r.leave()
	p.send("/free", "Eider-Caller: checkout@b2")
	resp, _ := p.answer()
	told(t, resp)
	p.closed()
	r.reg.says(func() {
		r.reg.heard, r.reg.drain = true, eider.Drain{Reached: true, Total: 1, Members: []eider.Member{{Caller: "checkout@b2", Kind: eider.Native, State: eider.LetGo}}}
	})
	rep := r.end()
	if rep.EndedBy != ByBarrier || rep.Exit != ExitClean || !rep.Heard || !rep.Left || rep.Waited != 1 || rep.Open != 0 ||
		rep.ServedAfterLeave != 1 || rep.ServedBy["checkout@b2"] != 1 || rep.ID != "1" || rep.Incarnation != me {
		t.Errorf("the report is wrong: %+v", rep)
	}
	if got := r.reg.registered; len(got) != 1 || got[0].Service != "orders" || got[0].ID != "1" || got[0].Status != eider.Up || got[0].Address != r.addr {
		t.Errorf("registered: %+v", got)
	}
}

// While something else is still in flight after the barrier, a request that arrives on an open
// connection is served. Shutdown would drop it.
func TestD1RequestAfterTheBarrierIsServed(t *testing.T) {
	h := newHeld()
	r := begin(t, h.ServeHTTP, func(_ *http.Server, c *Config) { c.Round = patience })
	idle, busy := r.dial(), r.dial()
	idle.send("/free")
	idle.answer()
	busy.send("/held")
	soon(t, h.in, "the held request")
	r.leave()
	r.barrier()
	r.unlistened()
	idle.send("/free")
	resp, _ := idle.answer()
	told(t, resp)
	idle.closed()
	close(h.release)
	resp, _ = busy.answer()
	told(t, resp)
	if rep := r.end(); rep.Exit != ExitClean || rep.IdleClosed != 0 {
		t.Errorf("%+v", rep)
	}
}

// Closed loops of POSTs through the whole pause: every answer after the leave tells, the listener takes
// whoever comes again, and nobody fails.
func TestD2TellFirstCloseLast(t *testing.T) {
	r := begin(t, hello, nil)
	var after, failed atomic.Int64
	var loops sync.WaitGroup
	warm, over := make(chan struct{}, 10), make(chan struct{})
	for range 10 {
		loops.Go(func() {
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			for told := 0; told < 5; {
				resp, err := (&http.Client{Transport: tr}).Post("http://"+r.addr, "", io.NopCloser(http.NoBody))
				if err != nil {
					failed.Add(1)
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				select {
				case warm <- struct{}{}:
				default:
				}
				if resp.Header.Get("Eider-Leaving") != "" {
					if !resp.Close {
						t.Error("an answer tells of the leave and keeps its connection")
					}
					after.Add(1)
					told++
				}
			}
		})
	}
	soon(t, warm, "the first answer")
	r.leave()
	go func() { loops.Wait(); close(over) }()
	soon(t, over, "the end of the loops")
	r.barrier()
	if rep := r.end(); rep.ServedAfterLeave < 40 || rep.Exit != ExitClean || failed.Load() != 0 || after.Load() != 50 {
		t.Errorf("told %d, failed %d: %+v", after.Load(), failed.Load(), rep)
	}
}

// A handler that began before the leave and writes its headers after it tells too.
func TestD2LateHeadersTell(t *testing.T) {
	h := newHeld()
	r := begin(t, h.ServeHTTP, nil)
	p := r.dial()
	p.send("/held")
	soon(t, h.in, "the request")
	r.leave()
	close(h.release)
	resp, _ := p.answer()
	told(t, resp)
	p.closed()
	r.barrier()
	r.end()
}

func TestD3SilentConnectionIsClosedAfterTheBarrier(t *testing.T) {
	r := begin(t, hello, nil)
	p := r.dial()
	q := r.dial() // accepted after p: once it is answered, p is in the book
	q.send("/free")
	q.answer()
	begun := time.Now()
	r.leave()
	r.barrier()
	p.closed()
	if rep := r.end(); rep.SilentClosed != 1 || rep.IdleClosed != 1 || rep.Exit != ExitClean {
		t.Errorf("%+v", rep)
	}
	if took := time.Since(begun); took >= 5*time.Second {
		t.Errorf("it took %s, as Shutdown does", took)
	}
}

func TestD3SilentConnectionIsKeptAsLongAsSet(t *testing.T) {
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Silent = patience })
	p := r.dial()
	q := r.dial()
	q.send("/free")
	q.answer()
	r.leave()
	r.barrier()
	r.unlistened()
	p.send("/free") // its first request, after the listener is gone
	resp, _ := p.answer()
	told(t, resp)
	// the dials of unlistened may have left silent ones: they close by themselves, since their peer has
	if rep := r.end(); rep.Exit != ExitClean {
		t.Errorf("%+v", rep)
	}
}

// A connection that is accepted and that the server hasn't heard of yet is in the book.
func TestD4AcceptedIsTracked(t *testing.T) {
	accepted, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := begin(t, hello, func(srv *http.Server, c *Config) {
		c.Silent = patience
		srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			once.Do(func() { close(accepted); <-release })
			return ctx
		}
	})
	p := r.dial()
	p.send("/free")
	soon(t, accepted, "the accept")
	r.leave()
	r.barrier()
	select { // there is no other connection: an untracked one would let Serve end
	case res := <-r.result:
		t.Errorf("it ended beside an accepted connection: %+v", res)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	resp, _ := p.answer()
	told(t, resp)
	r.end()
}

// heralded tells when the drain wakes the accept loop.
type heralded struct {
	*net.TCPListener
	woken chan struct{}
	once  sync.Once
}

func (h *heralded) SetDeadline(at time.Time) error {
	err := h.TCPListener.SetDeadline(at)
	h.once.Do(func() { close(h.woken) })
	return err
}

func TestD5AcceptQueueIsEmptied(t *testing.T) {
	accepted, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h := &heralded{woken: make(chan struct{})}
	r := begin(t, hello, func(srv *http.Server, c *Config) {
		c.Silent = patience
		h.TCPListener = c.Listener.(*net.TCPListener)
		c.Listener = h
		srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			once.Do(func() { close(accepted); <-release })
			return ctx
		}
	})
	var peers []*peer
	for range 21 { // one is accepted and holds the loop up, twenty wait in the queue
		p := r.dial()
		p.send("/free")
		peers = append(peers, p)
	}
	soon(t, accepted, "the accept")
	r.leave()
	r.barrier()
	soon(t, h.woken, "the order to finish")
	close(release)
	for _, p := range peers {
		resp, _ := p.answer()
		told(t, resp)
	}
	if rep := r.end(); rep.ServedAfterLeave != 21 || rep.Exit != ExitClean {
		t.Errorf("%+v", rep)
	}
}

// Headers that left before the leave can't tell: their connection gets one more round.
func TestD6EarlyFlushGetsOneMoreRound(t *testing.T) {
	flushed, release := make(chan struct{}), make(chan struct{})
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/early" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			close(flushed)
			<-release
		}
		hello(w, req)
	}, func(_ *http.Server, c *Config) { c.Round = patience })
	p := r.dial()
	p.send("/early")
	resp := p.head()
	soon(t, flushed, "the flush")
	r.leave()
	r.barrier()
	r.unlistened()
	close(release)
	if _, err := io.ReadAll(resp.Body); err != nil || resp.Close {
		t.Fatalf("the early answer: %v, close %v", err, resp.Close)
	}
	p.send("/again")
	resp, _ = p.answer()
	told(t, resp)
	p.closed()
	if rep := r.end(); rep.Exit != ExitClean || rep.IdleClosed != 0 {
		t.Errorf("%+v", rep)
	}
}

// The round is bounded: an idle connection that isn't used again is closed, and counted.
func TestD6RoundEnds(t *testing.T) {
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Round = 50 * time.Millisecond })
	p := r.dial()
	p.send("/free")
	p.answer()
	r.leave()
	r.barrier()
	p.closed()
	if rep := r.end(); rep.IdleClosed != 1 || rep.Exit != ExitClean || rep.Took < 50*time.Millisecond {
		t.Errorf("%+v", rep)
	}
}

// Idle connections are never closed before the barrier: callers may still pick them.
func TestD7IdleConnectionsOutliveTheLeave(t *testing.T) {
	r := begin(t, hello, nil)
	var peers []*peer
	for range 20 {
		p := r.dial()
		p.send("/free")
		p.answer()
		peers = append(peers, p)
	}
	r.leave()
	for i, p := range peers {
		p.send(fmt.Sprintf("/%d", i))
		resp, _ := p.answer()
		told(t, resp)
	}
	r.barrier()
	r.end()
}

// A pause ends on acknowledgements. Silence on the wire is no reason.
func TestD18SilenceDoesNotEndThePause(t *testing.T) {
	r := begin(t, hello, nil)
	r.leave() // nobody is connected at all
	select {
	case res := <-r.result:
		t.Errorf("the pause ended without the barrier: %+v", res)
	case <-time.After(100 * time.Millisecond):
	}
	p := r.dial()
	p.send("/free")
	resp, _ := p.answer()
	told(t, resp)
	r.barrier()
	if rep := r.end(); rep.EndedBy != ByBarrier || rep.Pause < 100*time.Millisecond {
		t.Errorf("%+v", rep)
	}
}
