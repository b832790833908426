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
	mu sync.Mutex
	page
	last error // the last one that wasn't nil
}

// page is what there is since something happened.
type page struct {
	callers  [Callers]streak
	well     int           // callers whose last InARow calls all went well
	all      chan struct{} // closed as soon as that is every one of them
	since    time.Time     // then: from when on every call has gone well
	kept     int           // callers whose breakers have kept a call away
	apart    chan struct{} // closed as soon as that is every one of them
	failed   int
	rejected int
}

// streak is the calls of one caller that went well, one after another.
type streak struct {
	length int
	since  time.Time // the first of them began
	kept   bool
}

func newBook() *book {
	b := &book{}
	b.turn()
	return b
}

// turn begins a new page.
func (b *book) turn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.page = page{all: make(chan struct{}), apart: make(chan struct{})}
}

func (b *book) hear(caller int, begun time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.callers[caller]
	if err != nil {
		b.last = err
		b.fails(s, errors.Is(err, breaker.ErrRejected))
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

func (p *page) fails(s *streak, rejected bool) {
	if s.length >= InARow {
		p.well--
	}
	s.length = 0
	if !rejected {
		p.failed++
		return
	}
	p.rejected++
	if s.kept {
		return
	}
	s.kept = true
	if p.kept++; p.kept == Callers {
		close(p.apart)
	}
}

// waitWell waits until all is well with every caller, waitApart until every one's breaker has kept a call away; both no
// longer than a time.
func (b *book) waitWell(ctx context.Context, length time.Duration) bool {
	return wait(ctx, length, b.look().all)
}

func (b *book) waitApart(ctx context.Context, length time.Duration) bool {
	return wait(ctx, length, b.look().apart)
}

func wait(ctx context.Context, length time.Duration, until <-chan struct{}) bool {
	select {
	case <-until:
		return true
	case <-ctx.Done():
	case <-time.After(length):
	}
	return false
}

func (b *book) look() page {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.page
}

func (b *book) why() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// result adds up what there is since the dependency was mended.
func (b *book) result(seen Tally, mended time.Time) Result {
	p := b.look()
	r := Result{Parallel: seen.Parallel, Relapses: seen.Relapses, Probes: seen.Probes, Warming: seen.Warming, Failed: p.failed, Rejected: p.rejected}
	if !p.since.IsZero() {
		back := p.since.Sub(mended).Seconds()
		r.Back = &back
	}
	return r
}
