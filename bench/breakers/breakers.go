// Package breakers measures Eider's circuit breaker beside other people's and beside floors, the least that one could do, in turns in one run.
package breakers

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Path is what becomes of the calls.
type Path int

// The paths.
const (
	Success Path = iota // all are let through and succeed
	Mixed               // each tenth fails, which opens nothing
	Open                // none is let through
)

// String names the path.
func (p Path) String() string { return [...]string{"success", "mixed", "open"}[p] }

// every is which calls of a path fail.
func (p Path) every() int {
	if p == Mixed {
		return 10
	}
	return 0
}

// What all are set up with, as far as they have it: the same rule over the same window, and nobody half-open meanwhile.
const (
	window  = 100
	within  = 10 * time.Second
	least   = 20
	rate    = 0.9 // far above a mixed path, whatever the scheduler makes of it
	openFor = 24 * time.Hour
)

var errFailed = errors.New("failed")

// ErrUnmeasured says that a machine doesn't allow a measurement: too much else runs, or its kernel doesn't tell.
var ErrUnmeasured = errors.New("it can't be measured here")

// calls makes n calls, of which each that many fails (0: none), and returns how many were let through. Each subject has a loop of
// its own, where the compiler sees what is called: an interface between them would cost the cheap ones more than what they do.
type calls func(n, every int) int

// Subject is a breaker or a floor.
type Subject struct {
	Name   string
	Clock  bool // reads a clock for every call that it lets through
	Window bool // keeps outcomes over a window
	Eider  bool

	only []Path                     // the paths that it knows; nil: all
	open func(Path) (calls, func()) // one, and what closes it; nil: nothing does
	keep func(into []any)           // fills it with breakers, each with a full window; nil: not weighed
}

// Subjects are all, the floors first.
func Subjects() []Subject {
	return slices.Concat(floors(), eiders(), fleets(), peers())
}

// Knows says whether the subject has such a path.
func (s Subject) Knows(p Path) bool { return s.only == nil || slices.Contains(s.only, p) }

// Named finds subjects by name.
func Named(names ...string) ([]Subject, error) {
	var found []Subject
	var errs []error
	all := Subjects()
	for _, name := range names {
		i := slices.IndexFunc(all, func(s Subject) bool { return s.Name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("no subject is called %q", name))
			continue
		}
		found = append(found, all[i])
	}
	return found, errors.Join(errs...)
}

// ready opens the subject for a path, and makes sure that its calls take that path.
func (s Subject) ready(p Path) (calls, func(), error) {
	c, done := s.open(p)
	if done == nil {
		done = func() {}
	}
	if p == Open {
		c(2*window, 1)
	}
	if err := p.check(c(2*window, p.every()), 2*window); err != nil {
		done()
		return nil, nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return c, done, nil
}

// check tells a benchmark that has tripped, or one that should have and hasn't.
func (p Path) check(let, of int) error {
	if p == Open && let > 0 || p != Open && let < of {
		return fmt.Errorf("%s: %d of %d calls were let through", p, let, of)
	}
	return nil
}
