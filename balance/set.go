package balance

import (
	"slices"
	"time"
)

// Zones. Calls stay in the own zone while it can carry them; two things say that it can't.
//
//   - Health: with h of k known instances of the zone able to serve, min(1, 1.4 × h/k) of the calls stay,
//     so that a zone may lose a quarter of its instances before any call leaves it, and loses calls
//     gradually after that.
//   - Load: the choice of the zone gives way to one drawn elsewhere when it has more than twice its
//     calls in flight, and spare more. What is in flight from here grows with the time an instance
//     takes, so a small zone that is slow because everybody near calls it is noticed without asking.
const (
	overNum, overDen = 14, 10
	spare            = 4
	whole            = 1 << 32 // all calls
)

// Set is who may be chosen, arranged for choosing. It is immutable; the zero value is empty.
type Set[C Candidate] struct {
	all     []C // those of the own zone first
	near    int
	keep    uint64 // of whole: calls that stay in the own zone
	ramp    Ramp
	until   time.Duration // when the last newcomer is warm
	warming bool          // there is a newcomer
}

// Zone tells a Set about the caller's own zone. The zero value prefers nobody.
type Zone[C Candidate] struct {
	Own   func(C) bool // nil: there is no zone
	Known int          // instances of the zone that should be able to serve, those doubted or set aside included
}

// NewSet arranges candidates; it keeps and reorders the slice.
func NewSet[C Candidate](all []C, zone Zone[C], ramp Ramp, now time.Duration) Set[C] {
	s := Set[C]{all: all, ramp: ramp, keep: whole}
	if zone.Own != nil {
		for i, c := range all {
			if zone.Own(c) {
				all[i], all[s.near] = all[s.near], c
				s.near++
			}
		}
		if known := max(zone.Known, s.near); known > 0 {
			s.keep = min(whole, whole*overNum*uint64(s.near)/(overDen*uint64(known)))
		}
	}
	for _, c := range all {
		if end := c.Since() + ramp.over(); end > now {
			s.warming, s.until = true, max(s.until, end)
		}
	}
	return s
}

// Len returns how many there are.
func (s *Set[C]) Len() int { return len(s.all) }

// All returns the candidates, the own zone's first. The slice is the set's: don't write to it.
func (s *Set[C]) All() []C { return slices.Clip(s.all) }

// Warming tells whether there are newcomers, and when the last of them is warm. Without any, Pick doesn't
// look at its now.
func (s *Set[C]) Warming() (until time.Duration, warming bool) { return s.until, s.warming }

// Pick chooses one that skip, if given, doesn't refuse; false if there is none. Equal arguments and
// equal loads give equal choices, and more load never makes a candidate more likely.
func (s *Set[C]) Pick(rnd uint64, now time.Duration, skip func(C) bool) (C, bool) {
	near, far := s.all[:s.near], s.all[s.near:]
	if len(near) == 0 || len(far) == 0 {
		return s.two(s.all, rnd, now, skip)
	}
	if s.keep < whole && mix(rnd+2)>>32 >= s.keep {
		if c, ok := s.two(far, rnd, now, skip); ok {
			return c, true
		}
		return s.two(near, rnd, now, skip)
	}
	c, ok := s.two(near, rnd, now, skip)
	if !ok {
		return s.two(far, rnd, now, skip)
	}
	if mine := s.pressure(c, now); mine > spare*full {
		if i := s.draw(far, rnd+1, now, skip, -1); i >= 0 && mine > 2*s.pressure(far[i], now)+spare*full {
			return far[i], true
		}
	}
	return c, true
}

// two is the choice within one group: the less loaded of two, the first drawn if they are equal.
func (s *Set[C]) two(group []C, rnd uint64, now time.Duration, skip func(C) bool) (none C, ok bool) {
	n := uint64(len(group))
	if n == 0 {
		return none, false
	}
	var i, j int
	if skip == nil && !s.warming {
		if n == 1 {
			return group[0], true
		}
		i, j = int(rnd>>32*n>>32), int(rnd&(whole-1)*(n-1)>>32)
		if j >= i {
			j++
		}
	} else {
		if i = s.draw(group, rnd, now, skip, -1); i < 0 {
			return none, false
		}
		if j = s.draw(group, mix(rnd), now, skip, i); j < 0 {
			return group[i], true
		}
	}
	if s.pressure(group[j], now) < s.pressure(group[i], now) {
		i = j
	}
	return group[i], true
}

// pressure is load over weight, in parts of full.
func (s *Set[C]) pressure(c C, now time.Duration) uint64 {
	load := uint64(max(c.Load(), 0))
	if !s.warming {
		return load * full
	}
	return load * full * full / s.ramp.weight(now-c.Since())
}

// draw returns the place of one that isn't skipped and isn't at but; -1 if there is none. A newcomer
// is accepted as often as its weight says: by load alone it would win or lose every tie with the idle.
func (s *Set[C]) draw(group []C, rnd uint64, now time.Duration, skip func(C) bool, but int) int {
	n := uint64(len(group))
	for range 6 {
		rnd = mix(rnd)
		i := int(rnd >> 32 * n >> 32)
		if i == but || skip != nil && skip(group[i]) {
			continue
		}
		if s.warming && s.ramp.weight(now-group[i].Since()) <= rnd%full {
			continue
		}
		return i
	}
	start := int(mix(rnd) >> 32 * n >> 32)
	for k := range group { // few are left, or all are newcomers: the next one from a random place
		if i := (start + k) % len(group); i != but && (skip == nil || !skip(group[i])) {
			return i
		}
	}
	return -1
}

// mix makes the next random number of one (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
