package window

import (
	"math"
	"time"
)

// Pool is Little's law for a caller: requests in flight are their rate times the time that each takes (B9).
// At 500 requests a second 50 ms mean 25 in flight and a failure after 5 ms means 2.5; a hang fills a pool of
// 200 in 0.4 s, so that slow is worse than down.
type Pool struct {
	PerSecond float64       // requests that begin in a second
	Latency   time.Duration // of one request
	Size      int           // requests that can be in flight: connections, threads, permits
}

// InFlight is how many requests are in flight on average, whether or not the pool has room for them.
func (p Pool) InFlight() float64 { return p.perSecond() * max(p.Latency.Seconds(), 0) }

// At is the pool when requests take another time: until they fail, for instance.
func (p Pool) At(latency time.Duration) Pool {
	p.Latency = latency
	return p
}

// FillsIn is how long after all requests begin to hang an empty pool is full; the longest Duration if there are
// no requests.
func (p Pool) FillsIn() time.Duration {
	if p.perSecond() == 0 {
		return math.MaxInt64
	}
	return duration(float64(max(p.Size, 0)) / p.perSecond() * float64(time.Second))
}

// perSecond is a number, and not below 0.
func (p Pool) perSecond() float64 {
	if !(p.PerSecond > 0) {
		return 0
	}
	return min(p.PerSecond, math.MaxInt64)
}

// Pauses is how often a living process says nothing, and for how long: a garbage collection, a virtual machine
// whose processor is taken or that is moved, a network that drops for a while. It decides how often a lease
// gives up an instance that lives.
//
// The lengths have a Pareto tail: a pause that is twice as long is 2^Tail times as rare, up to Longest. The
// defaults are an assumption and no measurement, and are stated beside every number that comes from them: one
// pause of 100 ms and more in an hour, and half as many of twice the length: one of a second and more in ten
// hours, one of ten seconds in four days, one of 90 s in six weeks.
type Pauses struct {
	PerDay   float64       // pauses of Shortest and longer, per instance; 0 means 24
	Shortest time.Duration // 0 means 100ms
	Longest  time.Duration // 0 means 10min; longer ones are crashes
	Tail     float64       // 0 means 1; more means that long pauses are rarer
}

// Beyond is how many pauses a day of an instance are longer than d: how often a lease gives it up that outlives
// a silence of d.
func (p Pauses) Beyond(d time.Duration) float64 {
	p = p.known()
	if d >= p.Longest {
		return 0
	}
	if d <= p.Shortest {
		return p.PerDay
	}
	over := func(d time.Duration) float64 { return math.Pow(p.Shortest.Seconds()/d.Seconds(), p.Tail) }
	cut := over(p.Longest)
	return p.PerDay * min(max((over(d)-cut)/(1-cut), 0), 1)
}

func (p Pauses) known() Pauses {
	if !(p.PerDay > 0) || math.IsInf(p.PerDay, 1) {
		p.PerDay = 24
	}
	if p.Shortest <= 0 {
		p.Shortest = 100 * time.Millisecond
	}
	if p.Longest <= 0 {
		p.Longest = 10 * time.Minute
	}
	if !(p.Tail > 0) || math.IsInf(p.Tail, 1) {
		p.Tail = 1
	}
	p.Tail = max(p.Tail, 1e-6) // all but none: the logarithm of the length is uniform
	return p
}
