package bulkhead

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config says how much room there is. The zero value works: it finds its limit by itself.
type Config struct {
	Name string // in errors, events and snapshots

	Limit int // calls at once; 0 means auto: found by Little's law within Min and Max. At most 1,048,576

	// For auto alone.
	Min      int     // the limit is never less; 0 means 10. Also the largest burst that a quiet service is sure to be allowed
	Max      int     // nor ever more; 0 means 1000. Say what you can spare: the share of your pool, or of the target's, at most
	Headroom float64 // what λ·W is multiplied with, 1 to 100; 0 means 2. More forgives bursts and slow answers, and lends more to a hang

	// SlowLimit is what a healthy call takes at most: how long one took that took longer isn't learnt, however it ended. 0
	// means 10s, as a breaker's; below 0: any. A service whose calls are longer than that, by their nature, has to say so.
	SlowLimit time.Duration

	Wait       time.Duration // how long a call waits for room, first come, first served; 0: not at all. It comes on top of latency
	MaxWaiting int           // calls that wait at a time; 0 means as many as the limit. The next is turned away at once

	// Lease is after what time, at most a fifteenth later, a slot that wasn't released is taken back; 0 means 2m, at least
	// 15ms; below 0: never. Longer than any call that somebody still waits for: what is taken back and runs on isn't
	// counted any more. Until then a slot that leaked is missing.
	Lease time.Duration

	OnEvent func(Event) // in order, one at a time, outside locks, by a call that happens to pass; a panic in it is contained
}

const (
	mostAtOnce   = 1 << 20
	firstLimit   = 50
	usualMin     = 10
	usualMax     = 1000
	usualSlow    = 10 * time.Second
	usualLease   = 2 * time.Minute
	leastLease   = 15 * time.Millisecond
	mostHeadroom = 100
	unmeasured   = 100 * time.Millisecond // to come back in, before anything is known
)

// Validate tells everything that [New] would have to bend, at once.
func (c Config) Validate() error {
	var all []error
	bad := func(field string, value any, want string) {
		all = append(all, fmt.Errorf("bulkhead %q: %s is %v: %s", c.Name, field, value, want))
	}
	for _, n := range []struct {
		field string
		value int
		zero  string
	}{{"Limit", c.Limit, "auto"}, {"Min", c.Min, "10"}, {"Max", c.Max, "1000"}, {"MaxWaiting", c.MaxWaiting, "as many as the limit"}} {
		if n.value < 0 || n.value > mostAtOnce {
			bad(n.field, n.value, fmt.Sprintf("want 1 to %d, or 0 for %s", mostAtOnce, n.zero))
		}
	}
	if least, most := orElse(c.Min, usualMin), orElse(c.Max, usualMax); least > most {
		bad("Min", least, fmt.Sprintf("want at most Max, %d", most))
	}
	if c.Headroom != 0 && !(c.Headroom >= 1 && c.Headroom <= mostHeadroom) {
		bad("Headroom", c.Headroom, "want 1 to 100, or 0 for 2: with less than 1 healthy calls are turned away")
	}
	if c.Wait < 0 {
		bad("Wait", c.Wait, "want a length of time, or 0 to turn away at once")
	}
	if c.Lease > 0 && c.Lease < leastLease {
		bad("Lease", c.Lease, fmt.Sprintf("want at least %v, 0 for %v, or below 0 for never", leastLease, usualLease))
	}
	return errors.Join(all...)
}

// settle bends what can't be and fills in what isn't said.
func (c Config) settle() Config {
	whole := func(v, otherwise int) int { return min(orElse(max(v, 0), otherwise), mostAtOnce) }
	c.Limit, c.MaxWaiting = whole(c.Limit, 0), whole(c.MaxWaiting, 0)
	c.Max = whole(c.Max, max(usualMax, min(c.Min, mostAtOnce)))
	c.Min = min(whole(c.Min, usualMin), c.Max)
	if c.Headroom == 0 || math.IsNaN(c.Headroom) {
		c.Headroom = 2
	}
	c.Headroom = min(max(c.Headroom, 1), mostHeadroom)
	if c.SlowLimit = orElse(c.SlowLimit, usualSlow); c.SlowLimit < 0 {
		c.SlowLimit = math.MaxInt64
	}
	c.Wait = max(c.Wait, 0)
	switch {
	case c.Lease < 0:
		c.Lease = math.MaxInt64
	case c.Lease == 0:
		c.Lease = usualLease
	default:
		c.Lease = max(c.Lease, leastLease)
	}
	return c
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
