package bench

import (
	"slices"
	"time"
)

// rest lets what a round has left behind (acknowledgements, collections) end before the next begins.
const rest = 200 * time.Millisecond

// warmUp rounds aren't counted.
const warmUp = 3

// contender is one side of a comparison.
type contender struct {
	do   func() (time.Duration, error)
	cpus func() (cpus, error) // nil: not asked
}

// measured is what one side took in the counted rounds.
type measured struct {
	times []time.Duration
	used  []time.Duration // processor time of both ends, from the change to the end of the rest after it
}

func (c contender) round(m *measured) error {
	var before, after cpus
	var err error
	if c.cpus != nil {
		if before, err = c.cpus(); err != nil {
			return err
		}
	}
	took, err := c.do()
	if err != nil {
		return err
	}
	<-time.After(rest)
	if c.cpus != nil {
		if after, err = c.cpus(); err != nil {
			return err
		}
		used := after.since(before)
		m.used = append(m.used, used.client+used.server)
	}
	m.times = append(m.times, took)
	return nil
}

// turns measures the sides in turns, so that what else the machine does falls on all of them.
func turns(rounds int, sides ...contender) ([]measured, error) {
	out := make([]measured, len(sides))
	for round := range rounds + warmUp {
		for i, c := range sides {
			if round == warmUp {
				out[i] = measured{}
			}
			if err := c.round(&out[i]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// compare is turns of two.
func compare(rounds int, eider, peer contender) (Result, error) {
	both, err := turns(rounds, eider, peer)
	if err != nil {
		return Result{}, err
	}
	r := Result{Eider: nanoseconds(median(both[0].times)), Peer: nanoseconds(median(both[1].times))}
	if len(both[0].used) > 0 && len(both[1].used) > 0 {
		r.CPU = float64(median(both[0].used)) / float64(median(both[1].used))
	}
	return r, nil
}

func median(ds []time.Duration) time.Duration {
	ds = slices.Sorted(slices.Values(ds))
	return ds[len(ds)/2]
}

func timed(do func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		start := time.Now()
		err := do()
		return time.Since(start), err
	}
}
