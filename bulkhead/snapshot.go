package bulkhead

import (
	"math"
	"time"
)

// Snapshot is a bulkhead at a moment. Its counts are since the beginning.
type Snapshot struct {
	Name     string
	Auto     bool // the limit is found by λ·W
	Limit    int
	Min, Max int // of an automatic limit
	InFlight int
	Waiting  int

	Rate    float64       // λ: calls that come a second; 0: not known yet
	Latency time.Duration // W: what a healthy call takes; 0: not known yet

	Admitted  uint64
	Refused   uint64 // turned away, at once or after their wait
	GaveUp    uint64 // their context ended while they waited
	Reclaimed uint64 // slots taken back at the end of their lease
	Late      uint64 // of those, released after all
	Twice     uint64 // releases of a slot that was released: a defect of the caller's
}

// Needed is L = λ·W, how many calls are in flight at once when all is well; 0: not known yet.
func (s Snapshot) Needed() float64 { return s.Rate * s.Latency.Seconds() }

// Snapshot tells what it does now. It also takes back what is due, so that a bulkhead that nobody calls is shown as it is; to
// tell OnEvent of that is left to the next call.
func (b *Bulkhead) Snapshot() Snapshot {
	b.look(b.now())
	s := Snapshot{
		Name: b.set.Name, Auto: b.set.Limit == 0, Limit: int(b.limit.Load()),
		Rate: math.Float64frombits(b.rate.Load()), Latency: time.Duration(b.took.Load()),
		Waiting: b.waiting(),
		Refused: b.tally.refused.Load(), GaveUp: b.tally.gaveUp.Load(),
		Reclaimed: b.tally.reclaimed.Load(), Late: b.tally.late.Load(), Twice: b.tally.twice.Load(),
	}
	if s.Auto {
		s.Min, s.Max = b.set.Min, b.set.Max
	}
	b.study.Lock()
	state := b.state.Load()
	s.InFlight = int(state & flyMask)
	s.Admitted = b.study.all + (state>>comeShift-b.study.admitted)&comeMask
	b.study.Unlock()
	return s
}
