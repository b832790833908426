package recovery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// book is what the callers write down.
type book struct {
	mu       sync.Mutex
	callers  [Callers]streak
	well     int           // callers whose last InARow calls all went well
	all      chan struct{} // closed as soon as that is every one of them
	since    time.Time     // then: from when on every call has gone well
	failed   int
	rejected int
	last     error // the last one that wasn't nil
}

// streak is the calls of one caller that went well, one after another.
type streak struct {
	length int
	since  time.Time // the first of them began
}

func newBook() *book { return &book{all: make(chan struct{})} }

func (b *book) hear(caller int, begun time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.callers[caller]
	if err != nil {
		b.fails(s, err)
		return
	}
	if s.length++; s.length == 1 {
		s.since = begun
	}
	if s.length != InARow {
		return
	}
	if b.well++; b.well == Callers && b.since.IsZero() {
		for _, s := range b.callers {
			if s.since.After(b.since) {
				b.since = s.since
			}
		}
		close(b.all)
	}
}

func (b *book) fails(s *streak, err error) {
	if s.length >= InARow {
		b.well--
	}
	s.length, b.last = 0, err
	if errors.Is(err, breaker.ErrRejected) {
		b.rejected++
		return
	}
	b.failed++
}

// turn begins a new page.
func (b *book) turn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callers, b.well, b.all, b.since, b.failed, b.rejected, b.last = [Callers]streak{}, 0, make(chan struct{}), time.Time{}, 0, 0, nil
}

// wait until all is well with every caller, but no longer than a time.
func (b *book) wait(ctx context.Context, length time.Duration) bool {
	b.mu.Lock()
	all := b.all
	b.mu.Unlock()
	select {
	case <-all:
		return true
	case <-ctx.Done():
	case <-time.After(length):
	}
	return false
}

func (b *book) why() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// result adds up what there is since the dependency was mended.
func (b *book) result(seen Tally, mended time.Time) Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := Result{Parallel: seen.Parallel, Relapses: seen.Relapses, Probes: seen.Probes, Warming: seen.Warming, Failed: b.failed, Rejected: b.rejected}
	if !b.since.IsZero() {
		back := b.since.Sub(mended).Seconds()
		r.Back = &back
	}
	return r
}
