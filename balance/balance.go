// Package balance answers: which instance next? The less loaded of two drawn at random, the own zone
// first while it can carry the load, newcomers warmed up, and a floor under what may be set aside.
//
// It is arithmetic: time and randomness are arguments, nothing here waits, locks or allocates.
package balance

import "time"

// Candidate is one instance that may be chosen. Its methods are called for every choice: they must
// neither block nor allocate.
type Candidate interface {
	// Load is how many calls of this caller are in flight there, now; never below 0.
	Load() int
	// Since is when it came UP, on the clock of Pick's now; one that came at or before the clock's
	// start minus [Ramp.Over] is warm.
	Since() time.Duration
}

// Warm is a Since of long ago: no ramp.
const Warm time.Duration = -1 << 62

// Ramp is how a newcomer is warmed up: its weight rises from Floor to 1 in a straight line. A process
// that has just come UP has cold caches and empty pools, and is the least loaded of all; without a ramp
// everybody's next calls would go to it at once.
type Ramp struct {
	Over  time.Duration // 0 means 10s
	Floor float64       // the weight to begin with, above 0 to 1; 0 means 0.1
}

// full is the weight 1. Weights are whole numbers, so that two machines decide alike.
const full = 1 << 10

func (r Ramp) over() time.Duration {
	if r.Over <= 0 {
		return 10 * time.Second
	}
	return r.Over
}

// weight is what an instance of this age may carry, from 1 to full.
func (r Ramp) weight(age time.Duration) uint64 {
	over := r.over()
	if age >= over {
		return full
	}
	floor := r.Floor
	if floor <= 0 || floor > 1 {
		floor = 0.1
	}
	low := max(uint64(floor*full), 1)
	if age <= 0 {
		return low
	}
	return low + uint64(float64(full-low)*(float64(age)/float64(over)))
}

// Weight is what an instance that came UP this long ago may carry, compared with a warm one: above 0 to 1.
func (r Ramp) Weight(age time.Duration) float64 { return float64(r.weight(age)) / full }

// Floor is how many of n instances stay pickable however badly they do: half of them, rounded up, and
// so always one. Percentages alone mean nothing, or everybody, for one to nine hosts.
func Floor(n int) int { return (n + 1) / 2 }

// MaySetAside tells whether one more of n instances may be set aside when aside of them are already.
// One that refuses connections carries nothing, so leaving it out costs no capacity: it may go as long
// as one instance stays. One that fails may go as long as [Floor] stay.
func MaySetAside(n, aside int, refused bool) bool {
	stay := Floor(n)
	if refused {
		stay = 1
	}
	return n-aside-1 >= stay
}
