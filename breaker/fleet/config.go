package fleet

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/eiderhq/eider/breaker"
)

// Config says when a fleet's breaker opens. The zero value works, but for Store and Key.
//
// Every caller of a key should have the same settings: who acts decides by its own. How long a state lasts is written into
// the record, and is the same for all.
type Config struct {
	Store  Store  // where the state is; it must be set
	Key    string // of the target, 1 to 256 bytes; all callers that name it share one breaker
	Caller string // who this is, unlike any other; "" draws a name

	// Local is the caller's own breaker. It decides while the fleet's is closed, so that a caller that is sick itself stops
	// alone, and while the store is away. The others are told of all its calls; while it is open, of as many as opened it, as if
	// all of them had been bad.
	Local breaker.Config

	Quorum      int           // callers that must see it; 0 means 3. A fleet of fewer callers never opens
	FailureRate float64       // the share of failures that opens: of all callers' calls, and of a caller's own for it to see it; 0 means 0.5; below 0: this rule is off
	SlowRate    float64       // the same of slow calls, and of those that hang; 0 means 0.5; below 0: this rule is off
	Least       int           // calls of all callers together that a rate needs; 0 means 20
	Window      time.Duration // calls that ended longer ago don't count; 0 means 10s, at most 30s
	OpenFor     time.Duration // how long it is open; 0 means 5s. It doubles each time that a trial fails or the target relapses
	MaxOpen     time.Duration // what it doubles to; 0 means 60s, at most 30m
	Successes   int           // trials, one after the other, that must go well before it closes; 0 means 1
	Lease       time.Duration // the permit's: a trial that nobody has settled by then is abandoned, and the next caller may try; 0 means 10s, at most 30m, at least eight times Wait
	Ramp        time.Duration // after closing, the share of calls let through grows from a tenth to all over it; 0 means 5s; below 0: all at once

	Report time.Duration // how often a caller tells what it has counted, while there are calls; 0 means 1s. That its own breaker has opened is told at once
	Poll   time.Duration // how often it asks while there are none; 0 means 5s
	Wait   time.Duration // how long the call that asks for the permit waits for the store, before its caller's own breaker decides. A store that takes four times as long is away; 0 means 250ms
	Retry  time.Duration // how soon a store that failed is tried again: half of it to all of it, doubling up to ten times; 0 means 1s

	OnEvent func(Event) // every change, in order, one at a time, outside locks; a panic in it is contained
}

// settings are a Config's with the defaults in: what a record is reckoned by, and when things are told.
type settings struct {
	quorum, least, successes              int
	failureRate, slowRate                 float64 // 0: off
	window, openFor, maxOpen, lease, ramp time.Duration
	report, poll, wait, retry             time.Duration
	slow, trial                           time.Duration // a trial that took longer than slow (0: any time) was no success; by trial it has failed
}

// patience is how long the store may take.
func (s *settings) patience() time.Duration { return 4 * s.wait }

const (
	longestOpen = Keep / 2 // of open times, leases and ramps: a store keeps what is touched each Keep
	longestTold = 10 * time.Minute
	mostWon     = 1000 // successes that may be asked for
)

func (c *Config) settings() settings {
	s := settings{
		quorum: orElse(c.Quorum, 3), least: orElse(c.Least, 20), successes: orElse(c.Successes, 1),
		failureRate: max(orElse(c.FailureRate, 0.5), 0), slowRate: max(orElse(c.SlowRate, 0.5), 0),
		window: orElse(c.Window, 10*time.Second), openFor: orElse(c.OpenFor, 5*time.Second), maxOpen: orElse(c.MaxOpen, time.Minute),
		lease: orElse(c.Lease, 10*time.Second), ramp: max(orElse(c.Ramp, 5*time.Second), 0),
		report: orElse(c.Report, time.Second), poll: orElse(c.Poll, 5*time.Second), wait: orElse(c.Wait, 250*time.Millisecond), retry: orElse(c.Retry, time.Second),
		slow: max(orElse(c.Local.SlowLimit, 10*time.Second), 0),
	}
	s.maxOpen = max(s.maxOpen, s.openFor)
	s.poll = max(s.poll, s.report)
	if c.SlowRate < 0 || c.Local.SlowRate < 0 {
		s.slow = 0
	}
	s.trial = s.lease - s.lease/4 // early enough for the verdict to be heard
	for _, sooner := range []time.Duration{s.slow, c.Local.TrialTimeout} {
		if sooner > 0 {
			s.trial = min(s.trial, sooner)
		}
	}
	return s
}

// Validate tells everything that is wrong, at once.
func (c Config) Validate() error {
	var all []error
	bad := func(field string, value any, want string) {
		all = append(all, fmt.Errorf("fleet breaker %q: %s is %v: %s", c.Key, field, value, want))
	}
	if c.Store == nil {
		bad("Store", "nil", "set it: a registry's Fleet(), or fleet.NewMemory(0) for the callers of one process")
	}
	if c.Key == "" || len(c.Key) > longestName {
		bad("Key", fmt.Sprintf("%q", c.Key), fmt.Sprintf("want 1 to %d bytes that name the target", longestName))
	}
	if len(c.Caller) > longestName {
		bad("Caller", fmt.Sprintf("of %d bytes", len(c.Caller)), fmt.Sprintf("want at most %d", longestName))
	}
	if !utf8.ValidString(c.Key) || !utf8.ValidString(c.Caller) {
		bad("Key or Caller", fmt.Sprintf("%q, %q", c.Key, c.Caller), "want UTF-8")
	}
	if lease, wait := orElse(c.Lease, 10*time.Second), orElse(c.Wait, 250*time.Millisecond); lease > 0 && lease < 8*wait {
		bad("Lease", lease, fmt.Sprintf("want at least eight times Wait, %v: the store may take half of it to grant the permit", 8*wait))
	}
	for _, n := range []struct {
		field       string
		value, most int
	}{{"Quorum", c.Quorum, MostCallers}, {"Least", c.Least, math.MaxInt}, {"Successes", c.Successes, mostWon}} {
		if n.value < 0 || n.value > n.most {
			bad(n.field, n.value, fmt.Sprintf("want 1 to %d, or 0 for the default", n.most))
		}
	}
	for _, d := range []struct {
		field       string
		value, most time.Duration
	}{
		{"Window", c.Window, KeepCounts}, {"OpenFor", c.OpenFor, longestOpen}, {"MaxOpen", c.MaxOpen, longestOpen}, {"Lease", c.Lease, longestOpen},
		{"Report", c.Report, longestTold}, {"Poll", c.Poll, longestTold}, {"Wait", c.Wait, longestTold}, {"Retry", c.Retry, longestTold},
	} {
		if d.value < 0 || d.value > d.most {
			bad(d.field, d.value, fmt.Sprintf("want a time up to %v, or 0 for the default", d.most))
		}
	}
	if c.Ramp > longestOpen {
		bad("Ramp", c.Ramp, fmt.Sprintf("want a time up to %v, 0 for 5s, or below 0 for all at once", longestOpen))
	}
	if report, window := orElse(c.Report, time.Second), orElse(c.Window, 10*time.Second); report > 0 && window > 0 && report >= window {
		bad("Report", report, fmt.Sprintf("want less than Window, %v: else what is told has grown old before it is told again", window))
	}
	for _, r := range []struct {
		field string
		value float64
	}{{"FailureRate", c.FailureRate}, {"SlowRate", c.SlowRate}} {
		if r.value > 1 || math.IsNaN(r.value) {
			bad(r.field, r.value, "want a share above 0 to 1, 0 for 0.5, or below 0 for off")
		}
	}
	if err := c.Local.Validate(); err != nil {
		all = append(all, fmt.Errorf("fleet breaker %q: Local: %w", c.Key, err))
	}
	return errors.Join(all...)
}

// longestName is how long a key or a caller's name may be: less than a store takes, for it goes into errors and tables.
const longestName = 256

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
