package breakers

import (
	"sync/atomic"
	"time"
)

// floor is what no breaker can do without: a look whether it is open, and a count that all callers share.
type floor struct {
	state  atomic.Uint32
	calls  atomic.Uint64
	failed atomic.Uint64
	slow   atomic.Uint64
	base   time.Time
}

func newFloor(p Path) *floor {
	f := &floor{base: time.Now()}
	if p == Open {
		f.state.Store(1)
	}
	return f
}

func (f *floor) bare(n, every int) (let int) {
	left := every
	for range n {
		if f.state.Load() != 0 {
			continue
		}
		let++
		if left--; left == 0 {
			left = every
			f.failed.Add(1)
			continue
		}
		f.calls.Add(1)
	}
	return let
}

// timed reads a monotonic clock before and after the call besides.
func (f *floor) timed(n, every int) (let int) {
	left := every
	for range n {
		if f.state.Load() != 0 {
			continue
		}
		let++
		start := time.Since(f.base)
		if time.Since(f.base)-start > within {
			f.slow.Add(1)
		}
		if left--; left == 0 {
			left = every
			f.failed.Add(1)
			continue
		}
		f.calls.Add(1)
	}
	return let
}

// read is the price of one look at the clock, which an open breaker takes to see whether it is time to try again.
func (f *floor) read(n, _ int) (let int) {
	for range n {
		if time.Since(f.base) < 0 {
			let++
		}
	}
	return let
}

// The floors' names.
const (
	Bare  = "floor: load, add"
	Timed = "floor: load, add, two clock reads"
	Read  = "one clock read"
)

func floors() []Subject {
	return []Subject{
		{Name: Bare, open: func(p Path) (calls, func()) { return newFloor(p).bare, nil }},
		{Name: Timed, Clock: true, open: func(p Path) (calls, func()) { return newFloor(p).timed, nil }},
		{Name: Read, only: []Path{Open}, open: func(p Path) (calls, func()) { return newFloor(p).read, nil }},
	}
}
