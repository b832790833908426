package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// arrivals sends requests at a rate, whatever becomes of those before: users don't wait for each other.
type arrivals struct {
	to     string
	client *http.Client
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	next   time.Time // when the next one is due

	begun, answered, payFailed, innocent, innocentFailed atomic.Int64
	lastPaid                                             atomic.Int64 // when a request that was answered last, and needs the dependency, began; Unix ns

	mu      sync.Mutex
	details []string // of innocent ones that failed
}

func newArrivals(to string) *arrivals {
	a := &arrivals{to: to, next: time.Now(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * frontPool}, Timeout: patience}}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// run goes on for a time.
func (a *arrivals) run(ctx context.Context, length time.Duration) error {
	return a.runUntil(ctx, length, func() bool { return false })
}

// runUntil goes on until enough, but no longer than a time. One that comes late doesn't put off the next.
func (a *arrivals) runUntil(ctx context.Context, length time.Duration, enough func() bool) error {
	for end := time.Now().Add(length); time.Now().Before(end) && !enough(); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(a.next)):
		}
		for ; !a.next.After(time.Now()); a.next = a.next.Add(hangEvery) {
			n := a.begun.Add(1)
			a.wg.Go(func() { a.send(needsService) })
			if n%(innocentOf-1) == 0 {
				a.wg.Go(func() { a.send(needsNobody) })
			}
		}
	}
	return nil
}

// end gives up what hasn't been answered; it counts as neither.
func (a *arrivals) end() {
	a.cancel()
	a.wg.Wait()
	a.client.CloseIdleConnections()
}

func (a *arrivals) send(path string) {
	begun := time.Now()
	err := a.post(path)
	if a.ctx.Err() != nil {
		return
	}
	switch {
	case path == needsNobody:
		a.innocent.Add(1)
		if err != nil {
			a.innocentFailed.Add(1)
			a.mu.Lock()
			if len(a.details) < 5 {
				a.details = append(a.details, err.Error())
			}
			a.mu.Unlock()
		}
	case err != nil:
		a.payFailed.Add(1)
	default:
		a.answered.Add(1)
		for was := a.lastPaid.Load(); was < begun.UnixNano() && !a.lastPaid.CompareAndSwap(was, begun.UnixNano()); was = a.lastPaid.Load() {
		}
	}
}

func (a *arrivals) post(path string) error {
	req, err := http.NewRequestWithContext(a.ctx, http.MethodPost, a.to+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	return err
}
