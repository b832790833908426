package breaker

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config says what opens a breaker and what closes it. The zero value works.
//
// Each rule has a number of outcomes that it needs before it says anything, so that the first failure of the day
// isn't a rate of 100 %. Trials while half-open are never held against a minimum: one of them decides.
type Config struct {
	Name string // in errors, events and snapshots

	// Over what the rates are taken: the last Window outcomes, or, with Within, those of a length of time.
	Window int           // outcomes; 0 means 20, at most 10,000. Longer forgives more, and sees less soon
	Within time.Duration // above 0: a time window of ten buckets; it covers nine tenths of Within to all of it

	FailureRate float64 // the share of failures that opens, above 0 to 1; 0 means 0.5; below 0: this rule is off
	FailureMin  int     // outcomes that it needs; 0 means 10; never more than Window
	Consecutive int     // failures in a row that open, whatever the rate; 0: this rule is off

	// A call past SlowLimit is slow, also while it is still in flight: it counts when it passes the limit, at most
	// a fifteenth of it late and never early. 0 means 10s; below 0: off, and no clock is read for a call.
	SlowLimit time.Duration
	SlowRate  float64 // the share of slow calls that opens, above 0 to 1; 0 means 0.5; below 0: this rule is off
	SlowMin   int     // outcomes that it needs; 0 means 5; never more than Window

	OpenFor time.Duration // how long it is open; 0 means 5s. It doubles each time that a trial fails or the target relapses
	MaxOpen time.Duration // what it doubles to; 0 means 60s
	Jitter  float64       // each open time is stretched by up to this share, so that callers don't probe together; 0 means 0.25; below 0: none

	Trials       int           // calls let through at a time while half-open; 0 means 1
	Successes    int           // trials that must go well before it closes; 0 means 1
	TrialTimeout time.Duration // a trial that isn't settled by then has failed; 0 means SlowLimit, without one 10s
	Ramp         time.Duration // after closing, the share of calls let through grows from a tenth to all over it; 0: all at once

	Classify func(error) Outcome // of an error that isn't nil; nil means that each is a [Failure]. It runs outside locks
	OnEvent  func(Event)         // every change, in order, one at a time, outside locks; a panic in it is contained
}

const (
	mostWindow = 10_000
	mostTrials = 1000

	longest = int64(10 * 365 * 24 * time.Hour) // as good as for ever, and a sum of such times is still a time
)

// Validate tells everything that [New] would have to bend, at once.
func (c Config) Validate() error {
	var all []error
	bad := func(field string, value any, want string) {
		all = append(all, fmt.Errorf("breaker %q: %s is %v: %s", c.Name, field, value, want))
	}
	if c.Window < 0 || c.Window > mostWindow {
		bad("Window", c.Window, fmt.Sprintf("want 1 to %d outcomes, or 0 for 20", mostWindow))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Within", c.Within}, {"OpenFor", c.OpenFor}, {"MaxOpen", c.MaxOpen}, {"TrialTimeout", c.TrialTimeout}, {"Ramp", c.Ramp}} {
		if d.value < 0 {
			bad(d.field, d.value, "want a length of time, or 0 for the default")
		}
	}
	for _, r := range []struct {
		field string
		value float64
	}{{"FailureRate", c.FailureRate}, {"SlowRate", c.SlowRate}} {
		if r.value > 1 || math.IsNaN(r.value) {
			bad(r.field, r.value, "want a share above 0 to 1, 0 for 0.5, or below 0 for off")
		}
	}
	if c.Jitter > 10 || math.IsNaN(c.Jitter) {
		bad("Jitter", c.Jitter, "want a share up to 10, 0 for 0.25, or below 0 for none")
	}
	for _, n := range []struct {
		field string
		value int
	}{{"FailureMin", c.FailureMin}, {"SlowMin", c.SlowMin}, {"Consecutive", c.Consecutive}, {"Successes", c.Successes}} {
		if n.value < 0 {
			bad(n.field, n.value, "want a number above 0, or 0 for the default")
		}
	}
	if c.Trials < 0 || c.Trials > mostTrials {
		bad("Trials", c.Trials, fmt.Sprintf("want 1 to %d, or 0 for 1", mostTrials))
	}
	if open, most := orElse(c.OpenFor, 5*time.Second), orElse(c.MaxOpen, time.Minute); c.MaxOpen > 0 && open > most {
		bad("MaxOpen", c.MaxOpen, fmt.Sprintf("want at least OpenFor, %v", open))
	}
	return errors.Join(all...)
}

// settings are a Config with its defaults in, small: a caller has a breaker for each instance that it knows.
type settings struct {
	name                                 string
	classify                             func(error) Outcome
	onEvent                              func(Event)
	within, slow                         int64 // nanoseconds; 0: off
	openFor, maxOpen, trialTimeout, ramp int64
	failRate, slowRate, jitter           float32 // 0: off
	window, failMin, slowMin             uint16
	consecutive, trials, successes       uint16
}

// settle bends what can't be and fills in what isn't said.
func (c Config) settle() settings {
	s := settings{
		name: c.Name, classify: c.Classify, onEvent: c.OnEvent,
		within:   max(int64(c.Within), 0),
		slow:     max(int64(orElse(c.SlowLimit, 10*time.Second)), 0),
		openFor:  int64(orElse(max(c.OpenFor, 0), 5*time.Second)),
		maxOpen:  int64(orElse(max(c.MaxOpen, 0), time.Minute)),
		ramp:     max(int64(c.Ramp), 0),
		failRate: share(c.FailureRate, 0.5, 1), slowRate: share(c.SlowRate, 0.5, 1), jitter: share(c.Jitter, 0.25, 10),
		window:      min(whole(c.Window, 20), mostWindow),
		failMin:     whole(c.FailureMin, 10),
		slowMin:     whole(c.SlowMin, 5),
		consecutive: whole(c.Consecutive, 0),
		trials:      min(whole(c.Trials, 1), mostTrials),
		successes:   whole(c.Successes, 1),
	}
	s.maxOpen = max(s.maxOpen, s.openFor)
	if s.within > 0 {
		s.window = 0
		s.within = max(s.within, timeBuckets) // a bucket is a nanosecond at least
	} else {
		s.failMin, s.slowMin = min(s.failMin, s.window), min(s.slowMin, s.window)
	}
	if s.slow == 0 {
		s.slowRate = 0
	}
	s.trialTimeout = int64(orElse(max(c.TrialTimeout, 0), time.Duration(orElse(s.slow, int64(10*time.Second)))))
	for _, length := range []*int64{&s.within, &s.slow, &s.openFor, &s.maxOpen, &s.ramp, &s.trialTimeout} {
		*length = min(*length, longest)
	}
	return s
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func share(v float64, otherwise, most float32) float32 {
	if v == 0 || math.IsNaN(v) {
		return otherwise
	}
	return min(max(float32(v), 0), most)
}

func whole(v int, otherwise uint16) uint16 {
	if v <= 0 {
		return otherwise
	}
	return uint16(min(v, math.MaxUint16))
}
