package bulkhead

import (
	"math"
	"sync"
	"time"
)

// sizer finds a limit by Little's law. It is arithmetic: doc.go says what it does and why.
type sizer struct {
	least, most, headroom float64

	rate    float64 // λ, calls a second: the greater of two means
	latency float64 // W, seconds
	known   bool    // enough was seen for both
	age     float64 // seconds that were learnt from since then
	limit   float64

	quick, steady float64 // λ, of the last seconds and of the last minute

	calls, spent float64 // healthy calls that are remembered, and the seconds that they took
	came, within float64 // until known: calls that came, and in how many seconds
}

// sample is what was seen in a while.
type sample struct {
	took    float64 // seconds
	came    uint64  // calls, admitted or not
	healthy uint64  // calls that ended well
	spent   float64 // the seconds that those took
	ill     uint64  // calls that ended otherwise, and slots that were taken back
}

const (
	period = 250 * time.Millisecond // of a sample, at least

	enough    = 10.0  // healthy calls that are needed to begin with
	longest   = 1.0   // seconds that a sample counts for at most: an idle night is no evidence of a low rate
	memory    = 10.0  // seconds in which half of the calls that W is the mean of are forgotten
	rateUp    = 2.0   // seconds in which λ comes half way up to what was seen …
	rateDown  = 30.0  // … and down
	settling  = 30.0  // seconds of learning, after which W is known well enough to doubt what is new
	doubling  = 60.0  // seconds in which W may double then
	stepUp    = 1.5   // the limit grows by at most half a sample …
	stepDown  = 0.875 // … and shrinks by at most an eighth
	worthSaid = 0.2   // a change of the limit by this share is worth an event
)

// learn takes a sample in, and tells whether it taught anything: while the dependency is ill, or nothing comes back, it
// doesn't.
func (z *sizer) learn(s sample) bool {
	if s.healthy == 0 || s.healthy < s.ill || s.took <= 0 {
		return false
	}
	d := min(s.took, longest)
	keep := math.Exp2(-d / memory)
	z.calls, z.spent = z.calls*keep+float64(s.healthy), z.spent*keep+s.spent
	mean, rate := z.spent/z.calls, float64(s.came)/s.took
	switch {
	case z.known:
		z.quick += (rate - z.quick) * (1 - math.Exp2(-d/rateUp))
		z.steady += (rate - z.steady) * (1 - math.Exp2(-d/rateDown))
		z.rate = max(z.quick, z.steady)
		if z.age += d; z.age > settling {
			mean = min(mean, z.latency*math.Exp2(d/doubling))
		}
		z.latency = mean
	default:
		z.came, z.within = z.came+float64(s.came), z.within+s.took
		z.quick = z.came / z.within
		z.rate, z.steady, z.latency = z.quick, z.quick, mean
		z.known = z.calls >= enough
	}
	if z.known {
		next := z.rate * z.latency * z.headroom
		next = min(max(next, min(z.limit*stepDown, z.limit-1)), max(z.limit*stepUp, z.limit+1))
		z.limit = min(max(next, z.least), z.most)
	}
	return true
}

// study is a sizer, and what was counted up to its last sample.
type study struct {
	sync.Mutex
	sizer
	at        int64
	admitted  uint64 // as the state counts them
	turned    uint64 // refused or gave up
	all       uint64 // admitted since the beginning: the state's count wraps
	told      int    // the limit of the last event
	relieved  uint64 // refused when last there was room for all
	wasTurned bool
}

// learn sets the limit by what has passed since the last sample.
func (b *Bulkhead) learn(now int64) {
	s := &b.study
	if !s.TryLock() {
		return // somebody else is at it
	}
	defer s.Unlock()
	if now-s.at < int64(period) {
		return
	}
	took := now - s.at
	s.at = now
	came := s.count(b.state.Load())
	turned := b.tally.refused.Load() + b.tally.gaveUp.Load()
	went := b.went.Swap(0)
	seen := sample{
		took: float64(took) / 1e9, came: came + turned - s.turned,
		healthy: went & wentMask, spent: float64(went>>wentBits) / 1e6, ill: b.ill.Swap(0),
	}
	b.publish(s.sizer.learn(seen), seen.came > 0)
	if turned == s.turned && s.wasTurned {
		s.wasTurned = false
		b.turning.Store(false)
		b.note(Event{Kind: Relieved, Refused: turned - s.relieved})
		s.relieved = turned
	} else if turned != s.turned {
		s.wasTurned = true
	}
	s.turned = turned
}

// count returns how many were admitted since it was last asked.
func (s *study) count(state uint64) uint64 {
	n := (state>>comeShift - s.admitted) & comeMask
	s.admitted += n
	s.all += n
	return n
}

// publish shows what is known, and moves the limit. Its caller holds the study's lock.
func (b *Bulkhead) publish(learnt, called bool) {
	s := &b.study
	if !learnt {
		if called {
			b.comeBack.Store(int64(max(time.Second, s.latencyNow())))
		}
		return
	}
	if !s.known {
		return
	}
	b.rate.Store(math.Float64bits(s.rate))
	b.took.Store(int64(s.latencyNow()))
	b.comeBack.Store(int64(max(s.latencyNow(), time.Millisecond)))
	if b.set.Limit > 0 {
		return
	}
	limit := int(math.Round(s.limit))
	if was := b.limit.Swap(int64(limit)); was < int64(limit) && b.state.Load()&someWait != 0 {
		b.serve()
	}
	if math.Abs(float64(limit-s.told)) >= worthSaid*float64(s.told) {
		b.note(Event{Kind: Resized, Was: s.told})
		s.told = limit
	}
}

func (z *sizer) latencyNow() time.Duration { return time.Duration(z.latency * float64(time.Second)) }
