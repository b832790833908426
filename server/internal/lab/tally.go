package lab

import (
	"maps"
	"net"
	"sync"
	"time"
)

// tally is what the callers of one fleet have told.
type tally struct {
	mu       sync.Mutex
	ok       int
	failures []failure
	kinds    map[string]int
	by       map[string]int
	lastTry  map[string]int64 // port to the start of the last try there
	rate     window
	slowest  time.Duration
}

// window is the last three seconds, in tenths.
type window struct {
	tenths [30]int
	by     [30]map[string]int
	at     int64 // the tenth that was written last, counted from the epoch
}

func newTally() *tally {
	return &tally{kinds: map[string]int{}, by: map[string]int{}, lastTry: map[string]int64{}}
}

func (t *tally) hear(l line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch l.Kind {
	case "tick":
		t.ok += l.OK
		for id, n := range l.By {
			t.by[id] += n
		}
		for port, at := range l.Picks {
			t.lastTry[port] = max(t.lastTry[port], at)
		}
		t.rate.add(time.Now(), l.OK, l.By)
		t.slowest = max(t.slowest, l.Slow)
	case "failed":
		t.failures = append(t.failures, *l.Failure)
		t.kinds[l.Failure.Why]++
		t.lastTry[l.Failure.Target] = max(t.lastTry[l.Failure.Target], l.Failure.Begun)
	}
}

// counts is a copy of a tally's numbers.
type counts struct {
	OK, Failed int
	Kinds      map[string]int
	By         map[string]int
	Rate       []int          // answers a second, in each of the last tenths
	ByRate     map[string]int // answers by instance in the last second
	Slowest    time.Duration  // the longest call, whatever came of it
}

func (c counts) requests() int { return c.OK + c.Failed }

func (t *tally) counts(now time.Time) counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := counts{OK: t.ok, Failed: len(t.failures), Kinds: maps.Clone(t.kinds), By: maps.Clone(t.by), Slowest: t.slowest}
	c.Rate, c.ByRate = t.rate.read(now)
	return c
}

func (t *tally) allFailures() []failure {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]failure(nil), t.failures...)
}

func (t *tally) lastTryOf(address string) int64 {
	_, port, _ := net.SplitHostPort(address)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastTry[port]
}

func (w *window) advance(now time.Time) int64 {
	tenth := now.UnixMilli() / 100
	for n := max(w.at+1, tenth-29); n <= tenth; n++ {
		w.tenths[n%30], w.by[n%30] = 0, nil
	}
	w.at = max(w.at, tenth)
	return tenth
}

func (w *window) add(now time.Time, n int, by map[string]int) {
	tenth := w.advance(now)
	w.tenths[tenth%30] += n
	if w.by[tenth%30] == nil {
		w.by[tenth%30] = map[string]int{}
	}
	for id, n := range by {
		w.by[tenth%30][id] += n
	}
}

// read leaves out the tenth that is still being written.
func (w *window) read(now time.Time) (rate []int, by map[string]int) {
	tenth := w.advance(now)
	by = map[string]int{}
	for n := tenth - 29; n < tenth; n++ {
		rate = append(rate, w.tenths[n%30]*10)
		if n >= tenth-10 {
			for id, answers := range w.by[n%30] {
				by[id] += answers
			}
		}
	}
	return rate, by
}
