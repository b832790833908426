package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
)

// caller is one process with one closed loop: think, POST, think, POST.
type caller struct {
	role   role
	tell   *teller
	client *http.Client
	target func() (target, error)
	births *births

	mu    sync.Mutex
	ok    int
	by    map[string]int
	picks map[string]int64
	slow  time.Duration // the longest call since the last tick
	seen  *witness      // nil if nobody asks for one
	book  *journal      // nil but in a crowd

	calls    int  // begun; of the one goroutine that calls, as what follows
	answered bool // one has been
}

func playCaller(ctx context.Context, r role, tell *teller, log *slog.Logger) error {
	c := &caller{role: r, tell: tell, by: map[string]int{}, picks: map[string]int64{}, births: &births{at: map[string]int64{}}}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = c.births.dial
	base.Proxy = nil
	switch {
	case r.Way == wayEider:
		reg := registry.Open(registry.Config{Addr: r.GRPC, Caller: "caller", Rosters: r.Rosters, Logger: log})
		defer reg.Close()
		if r.Crowd > 0 {
			c.book = keepJournal(reg, r.Service)
			defer c.book.ros.Close()
		}
		transport := &eiderhttp.Transport{Registry: reg, Base: base, HeaderTimeout: r.Header, Wrap: c.wrap}
		defer transport.Close()
		if r.Witness {
			c.seen = watchRoster(reg, r.Service, tell)
			defer c.seen.ros.Close()
		}
		c.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
		c.target = func() (target, error) { return target{url: "http://" + r.Service + "/pay"}, nil }
	case r.To != "":
		c.client = &http.Client{Transport: base, Timeout: 10 * time.Second}
		c.target = func() (target, error) { return target{url: "http://" + r.To + "/pay"}, nil }
	default:
		list := r.list()
		if err := list.read(ctx); err != nil {
			return err
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { list.run(ctx) })
		c.client = &http.Client{Transport: base, Timeout: 10 * time.Second}
		c.target = list.pick
		if r.Way == wayPinned {
			base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return list.dial(ctx, network, c.births)
			}
			c.target = func() (target, error) { return target{url: "http://" + r.Service + "/pay"}, nil }
		}
	}
	return c.loop(ctx)
}

// loop calls until ctx ends.
func (c *caller) loop(ctx context.Context) error {
	r := c.role
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.tick(ctx) })
	rnd := rand.New(rand.NewPCG(r.Seed, 1))
	for ctx.Err() == nil {
		think := time.Duration(0)
		if !c.call(ctx) {
			think = r.Work // a refusal comes fast; it costs its caller as much as an answer, or failures would count double
		}
		if r.Think > 0 {
			think += time.Duration(rnd.Int64N(int64(2 * r.Think)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(think):
		}
	}
	return nil
}

// wrap goes around each try.
func (c *caller) wrap(next http.RoundTripper) http.RoundTripper {
	if c.book != nil {
		next = journalled{c.book, next}
	}
	return unprocessed{next}
}

// tick tells the counts ten times a second; in a crowd, twice.
func (c *caller) tick(ctx context.Context) {
	every := 100 * time.Millisecond
	if c.book != nil {
		every *= 5
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		if c.seen != nil {
			c.seen.look()
		}
		c.mu.Lock()
		l := line{Kind: "tick", OK: c.ok, By: c.by, Picks: c.picks, Slow: c.slow}
		c.ok, c.by, c.picks, c.slow = 0, map[string]int{}, map[string]int64{}, 0
		c.mu.Unlock()
		if c.book != nil {
			l.Who = c.book.who
			l.Tries, l.Lost = c.book.page()
		}
		c.tell.tell(l)
	}
}

// call is one POST; it returns false if it failed.
func (c *caller) call(ctx context.Context) bool {
	to, err := c.target()
	seen := &sight{births: c.births}
	begun := time.Now()
	c.calls++
	var id string
	if err == nil {
		id, err = c.post(context.WithValue(ctx, sightKey{}, seen), to, seen)
	}
	if ctx.Err() != nil {
		return true // the lab is over: neither lost nor answered
	}
	writes, refusedUnread, opened, port := seen.sum()
	if err == nil && writes-refusedUnread > 1 && !c.keyed() {
		err = errTwice
	}
	c.mu.Lock()
	c.slow = max(c.slow, time.Since(begun))
	if port != "" {
		c.picks[port] = seen.lastTry()
	}
	if err == nil {
		c.ok++
		c.by[id]++
	}
	c.mu.Unlock()
	if err == nil && !c.answered {
		c.answered = true
		c.tell.tell(line{Kind: "up"})
	}
	if err != nil {
		c.tell.tell(line{Kind: "failed", Failure: &failure{Way: c.role.Way, Why: why(err), Begun: begun.UnixNano(), Opened: opened, Target: port, Detail: err.Error()}})
	}
	return err == nil
}

// keyed tells whether the present call may be sent again.
func (c *caller) keyed() bool { return c.role.Keyed > 0 && c.calls%c.role.Keyed == 0 }

var errTwice = errors.New("the request was sent, and sent again without word that it wasn't processed")

func (c *caller) post(ctx context.Context, to target, seen *sight) (id string, err error) {
	ctx = httptrace.WithClientTrace(ctx, seen.trace())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, strings.NewReader(`{"amount":1299,"currency":"EUR"}`))
	if err != nil {
		return "", err
	}
	if to.id != "" { // a poller says who it is, and whom it means
		req.Header.Set("Eider-Caller", c.role.pollsAs())
		req.Header.Set("Eider-To", to.id)
	}
	if c.keyed() {
		req.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", c.role.ID, c.calls))
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.Header.Get("Demo-Instance"), nil
}

func why(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, errTwice):
		return whyTwice
	case errors.Is(err, syscall.ECONNREFUSED):
		return whyRefused
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded),
		strings.Contains(err.Error(), "no answer within"): // eiderhttp's header timeout is no net.Error
		return whyTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), strings.Contains(err.Error(), "server closed idle connection"):
		return whyCut
	}
	return whyOther
}
