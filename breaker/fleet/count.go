package fleet

import (
	"time"

	"github.com/eiderhq/eider/breaker"
)

// sample is what the caller's own breaker had counted at a time.
type sample struct {
	at           int64
	since        time.Time // it has been in its state: with another one it counts anew
	outcomes     uint64
	failed, slow uint32
}

// count is what this caller has seen in the last Window: all its calls, and those that hang now. While its own breaker is open it
// sees none, and what opened that stands for the calls that it would make: each is a bad one, as far as it can tell.
func (b *Breaker) count(v *view) counted {
	c := counted{Epoch: v.Epoch, Generation: v.Generation}
	if !v.lets() {
		return c
	}
	s, now := b.local.Snapshot(), b.now()
	switch s.State {
	case breaker.Open, breaker.HalfOpen:
		age := b.when(now).Sub(s.Since)
		if age >= b.set.window && b.when(now).After(s.Retry.Add(b.set.report)) {
			return c // nobody has called for so long: it is no opinion any more
		}
		c.Open, c.Calls = true, max(s.Of, s.Count)
		if s.Rule == breaker.RuleSlowRate || s.Rule == breaker.RuleHanging {
			c.Bad = c.Calls
		} else {
			c.Failures = c.Calls
		}
	case breaker.Closed, breaker.Ramping:
		from := b.sampled(sample{now, s.Since, s.Outcomes, s.Failed, s.Slowed})
		c.Calls, c.Failures, c.Bad = s.Outcomes-from.outcomes, uint64(s.Failed-from.failed), uint64(s.Slowed-from.slow)
		if s.Overdue > c.Bad { // they have hung for longer than Window
			c.Calls += s.Overdue - c.Bad
			c.Bad = s.Overdue
		}
		c.Failures, c.Bad = min(c.Failures, c.Calls), min(c.Bad, c.Calls)
	}
	return c
}

// sampled keeps a sample, and returns the one to count from: the newest that is as old as Window. What was counted at times that nobody
// knows isn't counted.
func (b *Breaker) sampled(now sample) sample {
	b.mu.Lock()
	defer b.mu.Unlock()
	window := int64(b.set.window)
	if n := len(b.samples); n > 0 && (!b.samples[n-1].since.Equal(now.since) || now.at-b.samples[n-1].at >= window) {
		b.samples = b.samples[:0] // another state, or nobody has looked for long
	}
	if len(b.samples) == 0 {
		first := sample{since: now.since, at: now.at} // all of it is new
		if b.when(now.at).Sub(now.since) >= b.set.window {
			first = now
		}
		b.samples = append(b.samples, first)
	}
	old := 0
	for old+1 < len(b.samples) && now.at-b.samples[old+1].at >= window {
		old++
	}
	b.samples = append(b.samples[:0], b.samples[old:]...)
	if n := len(b.samples); n < mostSamples && now.at-b.samples[n-1].at >= window/(mostSamples-2) {
		b.samples = append(b.samples, now)
	}
	return b.samples[0]
}

// mostSamples is into how many parts a window is cut, or a few more.
const mostSamples = 32
