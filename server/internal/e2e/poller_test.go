package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

// poller is a caller that knows HTTP alone: one loop fetches the list and keeps it, another one takes what was
// fetched into use, and many call whom they find there.
type poller struct {
	t            *testing.T
	name, url    string
	every, cache time.Duration
	wait         time.Duration // it is answered when something changes, and comes back at once
	hc           *http.Client

	tick    time.Duration // it polls so often; 0: as it is told
	lose    atomic.Int64  // so many of the next answers are lost on their way
	fetched atomic.Pointer[eider.View]
	inUse   atomic.Pointer[eider.View]
	polls   atomic.Int64
	same    atomic.Int64 // of those, answered 304
	calls   atomic.Int64
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	failed []error
}

func startPoller(t *testing.T, p *poller, node, service string) *poller {
	t.Helper()
	q := url.Values{"caller": {p.name}, "every": {p.every.String()}, "cache": {p.cache.String()}}
	if p.wait > 0 {
		q.Set("wait", p.wait.String())
	}
	p.t, p.hc = t, &http.Client{Transport: &http.Transport{}, Timeout: p.wait + 5*time.Second}
	p.url = "http://" + node + "/v1/services/" + service + "?" + q.Encode()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	tag, next := p.fetch(ctx, "")
	p.inUse.Store(p.fetched.Load())
	p.wg.Go(func() {
		for after(ctx, next) {
			tag, next = p.fetch(ctx, tag)
		}
	})
	p.wg.Go(func() {
		for after(ctx, p.cache) {
			p.inUse.Store(p.fetched.Load())
		}
	})
	for range 8 {
		p.wg.Go(func() {
			for i := 0; after(ctx, time.Millisecond); i++ {
				p.call(ctx, i)
			}
		})
	}
	t.Cleanup(func() { stop(); p.wg.Wait(); p.hc.CloseIdleConnections() })
	return p
}

func after(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// fetch polls once, and returns what it now has and when to poll again.
func (p *poller) fetch(ctx context.Context, tag string) (string, time.Duration) {
	req, _ := http.NewRequestWithContext(ctx, "GET", p.url, nil)
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := p.hc.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			p.t.Errorf("a poll: %v", err)
		}
		return tag, p.every
	}
	defer resp.Body.Close()
	p.polls.Add(1)
	if p.lose.Add(-1) >= 0 {
		return tag, p.tick
	}
	seconds, err := strconv.ParseFloat(resp.Header.Get("Eider-Next-Poll"), 64)
	if err != nil {
		p.t.Errorf("a poll's answer says nothing of the next: %v", err)
	}
	switch resp.StatusCode {
	case http.StatusNotModified:
		p.same.Add(1)
	case http.StatusOK:
		var v eider.View
		if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
			p.t.Errorf("a view: %v", err)
			break
		}
		tag = resp.Header.Get("ETag")
		p.fetched.Store(&v)
	default:
		body, _ := io.ReadAll(resp.Body)
		p.t.Errorf("a poll is answered %s %s", resp.Status, body)
	}
	switch {
	case p.wait > 0:
		return tag, 0
	case p.tick > 0:
		return tag, p.tick
	}
	return tag, time.Duration(seconds * float64(time.Second))
}

// call POSTs to somebody who is UP, without a second try.
func (p *poller) call(ctx context.Context, i int) {
	v := p.inUse.Load()
	var up []*eider.Instance
	for n := range v.Instances {
		if v.Instances[n].Status == eider.Up {
			up = append(up, &v.Instances[n])
		}
	}
	if len(up) == 0 {
		return
	}
	in := up[i%len(up)]
	req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+in.Address+"/pay", strings.NewReader("{}"))
	req.Header.Set("Eider-Caller", p.name)
	req.Header.Set("Eider-To", in.ID+"@"+in.Incarnation.String())
	resp, err := p.hc.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s from %s", resp.Status, in.ID)
		}
	}
	if err != nil && ctx.Err() == nil {
		p.mu.Lock()
		p.failed = append(p.failed, err)
		p.mu.Unlock()
	}
	p.calls.Add(1)
}

// end stops polling and calling, and tells what failed.
func (p *poller) end() {
	p.t.Helper()
	p.stop()
	p.wg.Wait()
	if len(p.failed) > 0 {
		p.t.Errorf("%d of %d calls failed, the first: %v", len(p.failed), p.calls.Load(), p.failed[0])
	}
}

// startOrders starts so many instances of orders, i0 and so on.
func startOrders(t *testing.T, grpc string, count int) (ins []*instance) {
	t.Helper()
	var book ledgerOf
	for i := range count {
		id := fmt.Sprint("i", i)
		ins = append(ins, startInstance(t, grpc, "orders", id, book.handler(id, 5*time.Millisecond)))
	}
	return ins
}

// A caller that knows HTTP alone loses nothing, and is waited for by its timers and no longer.
func TestAPollerLosesNothing(t *testing.T) {
	n := startNode(t, node.Settings{})
	ins := startOrders(t, n.grpc, 3)
	const every, cache = time.Second, 500 * time.Millisecond
	p := startPoller(t, &poller{name: "shop@h1", every: every, cache: cache, tick: every / 4}, n.http, "orders")
	<-time.After(every)
	report := ins[0].finish()
	<-time.After(every) // whoever were cut would be by now
	p.end()
	if report.Pause < cache || report.EndedBy != drain.ByBarrier {
		t.Errorf("the pause took %s, ended by %s; want no less than its cache takes, and no wait beyond what its timers say", report.Pause, report.EndedBy)
	}
	// What its timers say, and a second for what is on its way. A busy machine may be late with it, so the node's word counts.
	if len(report.Members) == 1 && report.Members[0].Cap != every+cache+time.Second {
		t.Errorf("it is waited for %s at most, want what its timers say: %s", report.Members[0].Cap, every+cache)
	}
	if len(report.Members) != 1 || report.Members[0].Kind != eider.Poller || report.Members[0].Every != every || report.Members[0].Cache != cache {
		t.Errorf("the report names %+v, want the poller with its timers", report.Members)
	}
	if p.calls.Load() < 100 || p.same.Load() == 0 {
		t.Errorf("%d calls, %d of %d polls unchanged: the test shows nothing", p.calls.Load(), p.same.Load(), p.polls.Load())
	}
	t.Logf("%d calls, %d polls, %d of them unchanged; pause %s, %s", p.calls.Load(), p.polls.Load(), p.same.Load(), report.Pause, report.Members)
}

// What an instance that leaves is told of a poll isn't that its answer has arrived: who never got the list in which the
// instance leaves goes on calling it until its next try.
func TestAPollersAnswersAreLost(t *testing.T) {
	n := startNode(t, node.Settings{})
	ins := startOrders(t, n.grpc, 2)
	const every, cache, tick, lost = 4 * time.Second, 100 * time.Millisecond, 600 * time.Millisecond, 4
	p := startPoller(t, &poller{name: "shop@h1", every: every, cache: cache, tick: tick}, n.http, "orders")
	<-time.After(2 * tick)
	p.lose.Store(lost)
	report := ins[0].finish()
	<-time.After(tick) // whoever were cut would be by now
	p.end()
	if report.Pause < (lost-1)*tick+cache {
		t.Errorf("the pause took %s: less than the caller went without an answer", report.Pause)
	}
	t.Logf("%d calls, %d polls, %d of whose answers were lost; pause %s, %s", p.calls.Load(), p.polls.Load(), lost, report.Pause, report.Members)
}

// Who waits for changes comes back at once with what it has got, and isn't waited for as long as its timers say.
func TestAPollerThatWaitsIsSettledByWhatItShows(t *testing.T) {
	n := startNode(t, node.Settings{})
	ins := startOrders(t, n.grpc, 2)
	const every, cache, wait = 5 * time.Second, 100 * time.Millisecond, 20 * time.Second
	p := startPoller(t, &poller{name: "shop@h1", every: every, cache: cache, wait: wait}, n.http, "orders")
	<-time.After(time.Second)
	report := ins[0].finish()
	<-time.After(time.Second) // whoever were cut would be by now
	p.end()
	if len(report.Members) != 1 || report.Members[0].State != eider.Polled || report.Pause < cache || report.Pause > every+wait {
		t.Errorf("the pause took %s: %s; want that it is settled by what it shows, long before its timers are over", report.Pause, report.Members)
	}
	t.Logf("%d calls, %d polls; pause %s, %s", p.calls.Load(), p.polls.Load(), report.Pause, report.Members)
}
