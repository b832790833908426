package eiderhttp

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/internal/gate"
)

// Guard is for those who have a client of their own: it puts a breaker, and a bulkhead if asked, before each host that
// requests go to. It picks nobody and sends nothing again. Only Next need be set. It must not be copied or changed after its
// first use; its methods may be called from any goroutine.
type Guard struct {
	Next http.RoundTripper // nil means http.DefaultTransport

	// Breaker has the rules of each host's; the zero value is breaker's own. Name isn't used. What counts is the answer's
	// header, as with a Transport; a refused dial opens it at once, and the caller's deadline counts if it left a second.
	Breaker breaker.Config

	// Fleet is the one breaker that each host has for all its callers, as Transport.Fleet tells; nil means none. Store must be set,
	// Key is put before the host, and Local isn't used: Breaker has the rules. A Guard with a Fleet is ended by Close.
	Fleet *fleet.Config

	Bulkhead *bulkhead.Config // bounds the requests that wait for the header of their answer, for each host; nil means none

	Failed func(*http.Response) bool // which answers are failures; nil means 502, 503 and 504
	Waits  func(*http.Request) bool  // which requests are meant to wait for their answer; nil means Prefer: wait=30

	// Hosts bounds the hosts that are remembered; 0 means 1000. For one more, one is forgotten whose breaker is closed and
	// that nobody is calling; if there is none, requests to a new host fail with eider.Limited.
	Hosts int

	mu     sync.RWMutex
	hosts  map[string]*guarded
	closed bool
	ending sync.WaitGroup // of hosts that are forgotten
}

// guarded is one host's guards.
type guarded struct {
	gate     *gate.Gate
	bulkhead *bulkhead.Bulkhead // nil: none
	calls    atomic.Int64       // that haven't got their answer
}

// RoundTrip sends the request if the guards of its host let it through; else its error is of the kind eider.Unavailable, says
// whose guard and when to come back, and wraps the *breaker.Rejected or *bulkhead.Full.
func (g *Guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil {
		return nil, abandon(req, &eider.Error{Kind: eider.Invalid, Err: errors.New("the request has no URL")})
	}
	h, err := g.host(strings.ToLower(req.URL.Host))
	if err != nil {
		return nil, abandon(req, err)
	}
	defer h.calls.Add(-1)
	long := waits(g.Waits, req)
	pass, err := h.gate.Ask(req.Context(), long)
	if err != nil {
		return nil, abandon(req, err)
	}
	var slot bulkhead.Slot
	if h.bulkhead != nil && !long {
		if slot, err = h.bulkhead.Acquire(req.Context()); err != nil {
			pass.Settle(breaker.Neutral)
			e := &eider.Error{Kind: eider.Unavailable, Err: err}
			if full, ok := err.(*bulkhead.Full); ok {
				e.RetryAfter = full.Retry
			}
			return nil, abandon(req, e)
		}
	}
	if err := pass.Late(); err != nil {
		slot.Forget()
		return nil, abandon(req, err)
	}
	return g.send(req, long, pass, slot)
}

// send sends it, and ends what the guards gave, whatever happens.
func (g *Guard) send(req *http.Request, long bool, pass gate.Pass, slot bulkhead.Slot) (*http.Response, error) {
	next, sent, begun, judged := g.Next, req, time.Now(), false
	if next == nil {
		next = http.DefaultTransport
	}
	if long && pass.Trial() {
		sent = heard(req, pass)
	}
	defer func() {
		if !judged { // somebody's code has panicked: Next, or what judges
			pass.Settle(breaker.Failure)
			slot.Release(false)
		}
	}()
	resp, err := next.RoundTrip(sent)
	if resp != nil && resp.Request == sent {
		resp.Request = req
	}
	o := breaker.Success
	switch {
	case err != nil:
		o = g.judge(req, err, time.Since(begun))
	case failed(g.Failed, resp):
		o = breaker.Failure
	}
	judged = true
	switch {
	case o == breaker.Neutral:
		pass.Settle(o)
		slot.Forget()
		return resp, err
	case err != nil || o != breaker.Success:
		pass.Settle(o)
		slot.Release(false)
		return resp, err
	}
	slot.Release(true)
	b := &guardedBody{ReadCloser: resp.Body, req: req, pass: pass.Answered()}
	if _, both := resp.Body.(io.Writer); both || resp.Body == nil || resp.Body == http.NoBody {
		b.end(breaker.Success) // 101: the connection is the caller's now
	} else {
		resp.Body = b
	}
	return resp, nil
}

// heard is the request with a context in which its pass hears when it is written, besides whom the caller has listening: a trial
// that waits for its answer ends some time after that.
func heard(req *http.Request, pass gate.Pass) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			pass.Wrote()
		}
	}}))
}

func (g *Guard) judge(req *http.Request, err error, took time.Duration) breaker.Outcome {
	o := breaker.Judge(req.Context(), err, took, time.Second, g.Breaker.Classify)
	if o == breaker.Failure && errors.Is(err, syscall.ECONNREFUSED) {
		return breaker.Refused
	}
	return o
}

// host returns the guards of a host, with a call more.
func (g *Guard) host(name string) (*guarded, error) {
	g.mu.RLock()
	h := g.hosts[name]
	if h != nil {
		h.calls.Add(1)
	}
	g.mu.RUnlock()
	if h != nil {
		return h, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if h = g.hosts[name]; h == nil {
		most := g.Hosts
		if most <= 0 {
			most = 1000
		}
		if len(g.hosts) >= most && !g.forget() {
			return nil, eider.Errorf(eider.Limited, "", "this Guard already has %d hosts whose breakers are open or that are being called; raise Guard.Hosts", len(g.hosts))
		}
		var err error
		if h, err = g.guards(name); err != nil {
			return nil, err
		}
		if g.hosts == nil {
			g.hosts = map[string]*guarded{}
		}
		g.hosts[name] = h
	}
	h.calls.Add(1)
	return h, nil
}

func (g *Guard) guards(name string) (*guarded, error) {
	rules := g.Breaker
	rules.Name = name
	h := &guarded{gate: gate.Alone(rules)}
	if g.Fleet != nil && !g.closed {
		set := *g.Fleet
		set.Local = rules
		var err error
		if h.gate, err = (gate.Config{Fleet: set, Service: name, Slow: time.Second}).New(); err != nil {
			return nil, err
		}
	}
	if g.Bulkhead != nil {
		c := *g.Bulkhead
		c.Name = name
		h.bulkhead = bulkhead.New(c)
	}
	return h, nil
}

// forget forgets a host; false if there is none that may be forgotten.
func (g *Guard) forget() bool {
	for name, h := range g.hosts {
		if h.calls.Load() == 0 && h.gate.Closed() {
			delete(g.hosts, name)
			if !g.closed { // else it has ended, and somebody may be waiting for the others
				g.ending.Go(h.gate.Close)
			}
			return true
		}
	}
	return false
}

// Close ends what a Fleet has begun. Requests go on, each by this caller's own breakers.
func (g *Guard) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		for _, h := range g.hosts {
			g.ending.Go(h.gate.Close)
		}
	}
	g.mu.Unlock()
	g.ending.Wait()
}

// guardedBody is the body of an answer: what breaks off is a failure.
type guardedBody struct {
	io.ReadCloser
	req   *http.Request
	pass  gate.Pass
	ended atomic.Bool
}

func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		b.end(breaker.Success)
	case b.req.Context().Err() != nil:
		b.end(breaker.Neutral)
	default:
		b.end(breaker.Failure)
	}
	return n, err
}

func (b *guardedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end(breaker.Success)
	return err
}

func (b *guardedBody) end(o breaker.Outcome) {
	if !b.ended.Swap(true) {
		b.pass.Settle(o)
	}
}
