package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// view is a record as this caller goes by it, in its own time.
type view struct {
	Record
	raw     Record // as it is in the store
	link    *link
	version uint64
	at      int64 // the record is this old since; never earlier than it was written

	own      bool              // the caller's own breaker decides
	next     int64             // Open, HalfOpen: when a call may ask for the permit
	end      int64             // Ramping: when it is over
	rejected *breaker.Rejected // what a call gets that isn't let through

	asking atomic.Bool   // a call has asked for the permit
	share  atomic.Uint64 // Ramping: sums up what each call weighs
}

// lets tells whether calls go on to the caller's own breaker.
func (v *view) lets() bool { return v.State == breaker.Closed || v.State == breaker.Ramping }

func (v *view) age(now int64) time.Duration { return time.Duration(max(now-v.at, 0)) }

// ramps tells whether a call is among the share that is let through: every call adds its weight, and who carries the
// sum over a whole goes.
func (v *view) ramps(now int64) bool {
	weight := max(uint64(float64(now-v.at)/float64(v.For)*whole), whole/10+1)
	sum := v.share.Add(weight)
	return sum/whole != (sum-weight)/whole
}

const whole = 1 << 20

// spread is how far apart callers ask for a permit that all of them know to be free, so that the first has it, and the others
// have heard of that, before they ask.
const spread = 50 * time.Millisecond

func (b *Breaker) viewOf(l *link, s Sight, r Record) *view {
	now := b.now()
	v := &view{Record: r, raw: r, link: l, version: s.Version, at: now - int64(s.Age)}
	if v.State == breaker.Ramping {
		v.Record = r.At(s.Age)
	}
	rejected := &breaker.Rejected{Name: b.c.Key + " of the fleet", State: v.State, Rule: v.Rule, Count: v.Count, Of: v.Of}
	switch v.State {
	case breaker.Open, breaker.HalfOpen:
		v.next = now + int64(v.due(s.Age))
		rejected.Retry = b.when(v.next)
		v.next += rand.Int64N(int64(min(spread, orElse(v.For, b.set.lease)/20)) + 1)
	case breaker.Ramping:
		v.end = v.at + int64(v.For)
		rejected.Retry = b.when(now)
		v.share.Store(rand.Uint64N(whole)) // callers don't let the same of their calls through
	case breaker.ForcedOpen:
	case breaker.ForcedClosed:
		rejected = nil
	default:
		v.own, rejected = true, nil
	}
	v.rejected = rejected
	return v
}

var (
	errForgotten  = errors.New("the store has forgotten the record: it was flushed, or started anew")
	errRolledBack = errors.New("the store has lost its last writes: it has failed over")
	errClosed     = errors.New("closed")
)

// take goes by what the store has from now on. Sights come from the watch, from what is told and from calls that ask, so an
// older one may come after a newer: it is left alone, and what is told next finds out whether the store has lost something.
func (b *Breaker) take(l *link, s Sight) error {
	if s.Version == 0 {
		return errForgotten
	}
	r, err := Read(s)
	if err != nil {
		return err
	}
	s.Age = min(max(s.Age, 0), Keep) // a store whose clock is set has nothing last for longer
	defer b.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || l.ctx.Err() != nil {
		return errClosed // or parted: nobody goes by it
	}
	old := b.view.Load()
	switch {
	case old == nil:
	case old.version == s.Version && old.raw == r:
		if old.lets() || b.now()-int64(s.Age) > old.at-int64(spread/10) {
			return nil
		} // it is known better how old it is: the first sight of it was late on its way
	case old.Epoch == r.Epoch && old.Generation > r.Generation:
		return nil
	case old.Epoch != r.Epoch:
		return errForgotten // and somebody else has begun anew
	}
	v := b.viewOf(l, s, r)
	if old != nil && !old.lets() && v.lets() {
		b.local.Reset() // one trial has answered for all: nobody needs to try for himself. Before anyone goes by the view
		b.samples = nil
	}
	b.view.Store(v)
	if v.Token != 0 && v.Token == b.lost { // it was granted after all, and there is no call for it any more
		b.verdict(verdict{v.fence(), breaker.Neutral, v.at + int64(v.For)})
	}
	if b.lost != 0 && v.Holder != "" {
		b.lost = 0
	}
	b.note(old, v)
	signal(b.turned)
	return nil
}

// mature turns a ramp that is over into what it has become, so that no call reads a clock for it any more.
func (b *Breaker) mature() {
	defer b.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.view.Load()
	if old == nil || old.State != breaker.Ramping || b.now() < old.end {
		return
	}
	v := &view{Record: old.Record, raw: old.raw, link: old.link, version: old.version, at: old.at, own: true}
	v.State, v.For = breaker.Closed, 0
	b.view.Store(v)
	b.note(old, v)
}

// part has this caller go on alone, at once. What has gone wrong with the store is told once for each link.
func (b *Breaker) part(l *link, err error) {
	l.fail(err)
	defer b.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.view.Load()
	switch {
	case b.closed, err == errClosed:
		return
	case old == nil && b.stats.why != nil:
		b.stats.why = err // it is still so
		return
	case old == nil:
	case old.link != l:
		return
	}
	ev := Event{Key: b.c.Key, Parted: fmt.Errorf("fleet breaker %s: on its own: %w", b.c.Key, err), At: time.Now()}
	if old != nil {
		b.view.Store(nil)
		b.stats.parted++
		ev.From = old.State
	}
	b.stats.since, b.stats.why = ev.At, err
	b.post.add(ev)
}
