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
	"github.com/eiderhq/eider/server/internal/node"
)

// poller is a caller that knows HTTP alone: one loop fetches the list and keeps it, another one takes what was
// fetched into use, and many call whom they find there.
type poller struct {
	t            *testing.T
	name, url    string
	every, cache time.Duration
	hc           *http.Client

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

func startPoller(t *testing.T, node, service, name string, every, cache time.Duration) *poller {
	t.Helper()
	q := url.Values{"caller": {name}, "every": {every.String()}, "cache": {cache.String()}}
	p := &poller{t: t, name: name, every: every, cache: cache, hc: &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second},
		url: "http://" + node + "/v1/services/" + service + "?" + q.Encode()}
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
		for after(ctx, cache) {
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

// A caller that knows HTTP alone loses nothing, and is waited for by its timers and no longer.
func TestAPollerLosesNothing(t *testing.T) {
	n := startNode(t, node.Settings{})
	var book ledgerOf
	var ins []*instance
	for i := range 3 {
		id := fmt.Sprint("i", i)
		ins = append(ins, startInstance(t, n.grpc, "orders", id, book.handler(id, 5*time.Millisecond)))
	}
	const every, cache = time.Second, 500 * time.Millisecond
	p := startPoller(t, n.http, "orders", "shop@h1", every, cache)
	<-time.After(every)
	report := ins[0].finish()
	<-time.After(every) // whoever were cut would be by now
	p.stop()
	p.wg.Wait()
	if len(p.failed) > 0 {
		t.Errorf("%d of %d calls failed, the first: %v", len(p.failed), p.calls.Load(), p.failed[0])
	}
	if report.Pause < cache || report.Pause > every+cache+1500*time.Millisecond {
		t.Errorf("the pause took %s, want between what its cache takes and what its timers say: %s", report.Pause, every+cache)
	}
	if len(report.Members) != 1 || report.Members[0].Kind != eider.Poller || report.Members[0].Every != every || report.Members[0].Cache != cache {
		t.Errorf("the report names %+v, want the poller with its timers", report.Members)
	}
	if p.calls.Load() < 100 || p.same.Load() == 0 {
		t.Errorf("%d calls, %d of %d polls unchanged: the test shows nothing", p.calls.Load(), p.same.Load(), p.polls.Load())
	}
	t.Logf("%d calls, %d polls, %d of them unchanged; pause %s, %s", p.calls.Load(), p.polls.Load(), p.same.Load(), report.Pause, report.Members)
}
