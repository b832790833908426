package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is closed loops of calls, each by a calling process of its own.
type load[C interface{ close() }] struct {
	t       *testing.T
	what    string // that they make
	callers []C
	stop    context.CancelFunc
	wg      sync.WaitGroup
	calls   atomic.Int64

	mu       sync.Mutex
	failures []failure
	by       map[string]int64     // answers by instance
	last     map[string]time.Time // latest answer by instance
	progress chan struct{}        // closed and replaced at each answer
}

type failure struct {
	id    string
	err   error
	began time.Time
}

// caller tells whose it was.
func (f failure) caller(t *testing.T) (i int) {
	t.Helper()
	if _, err := fmt.Sscanf(f.id, "%d-", &i); err != nil {
		t.Fatal(err)
	}
	return i
}

func newLoad[C interface{ close() }](t *testing.T, what string) *load[C] {
	return &load[C]{t: t, what: what, by: map[string]int64{}, last: map[string]time.Time{}, progress: make(chan struct{})}
}

// start starts the loops over what newCaller returns, and waits until each has made its first call; once makes one, and
// tells answered by whom.
func (l *load[C]) start(n int, think time.Duration, newCaller func(i int) C, once func(ctx context.Context, c C, id string) error) {
	l.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	var first sync.WaitGroup
	for i := range n {
		c := newCaller(i)
		l.callers = append(l.callers, c)
		first.Add(1)
		l.wg.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				l.once(c, fmt.Sprintf("%d-%d", i, k), once)
				if k == 0 {
					first.Done()
				}
				select {
				case <-time.After(rand.N(think + 1)):
				case <-ctx.Done():
				}
			}
		})
	}
	first.Wait()
}

func (l *load[C]) once(c C, id string, once func(context.Context, C, string) error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	err := once(ctx, c, id)
	l.calls.Add(1)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failures = append(l.failures, failure{id, err, began})
	}
}

func (l *load[C]) answered(who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[who]++
	l.last[who] = time.Now()
	close(l.progress)
	l.progress = make(chan struct{})
}

// more waits for so many more answers of an instance.
func (l *load[C]) more(who string, n int64) {
	l.t.Helper()
	l.mu.Lock()
	from := l.by[who]
	l.mu.Unlock()
	late := time.After(patience)
	for {
		l.mu.Lock()
		done, next := l.by[who] >= from+n, l.progress
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-next:
		case <-late:
			l.t.Fatalf("no %d more answers of %s within %v", n, who, patience)
		}
	}
}

// rest stops the loops; the callers stay callers.
func (l *load[C]) rest() {
	l.stop()
	l.wg.Wait()
}

// end stops the loops, says goodbye, and tells what failed.
func (l *load[C]) end(book *ledgerOf) {
	l.t.Helper()
	l.rest()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures[:min(5, len(l.failures))] {
		l.t.Errorf("failed: %s: %v", f.id, f.err)
	}
	if n := len(l.failures); n > 0 {
		l.t.Errorf("%d of %d %s failed", n, l.calls.Load(), l.what)
	}
	if twice := book.twice(); len(twice) > 0 {
		l.t.Errorf("%d %s were worked on more than once: %.5v", len(twice), l.what, twice)
	}
	for _, c := range l.callers {
		c.close() // else the last instances would wait for callers without an alternative
	}
}
