package window

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// chosen is a preset with its settings made and a fleet to reckon with.
type chosen struct {
	preset Preset
	values map[string]Value
	fleet  Fleet
}

func (c *chosen) value(name string) Value {
	v, ok := c.values[name]
	if !ok {
		panic("window: preset " + c.preset.Name + " has no setting " + name) // a slip of this package, found by its tests
	}
	return v
}

func (c *chosen) lasts(name string) time.Duration { return c.value(name).Duration }
func (c *chosen) count(name string) int           { return c.value(name).Count }
func (c *chosen) on(name string) bool             { return c.value(name).On }

// called writes a setting with its value: "eureka.client-cache = 5s".
func (c *chosen) called(name string) string {
	return c.preset.Name + "." + name + " = " + c.value(name).String()
}

// source says which settings a term follows from, their values, and where the defaults are documented; one that has
// been replaced is shown with its default.
func (c *chosen) source(names ...string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		s, _ := c.preset.setting(name)
		parts[i] = c.called(name)
		if c.value(name) != s.Default {
			parts[i] += " (default " + s.Default.String() + ")"
		}
		parts[i] += ": " + s.Source
	}
	return strings.Join(parts, "; ")
}

// upTo is the term of a timer or a cache that runs on a clock of its own: anything from nothing to its whole period.
func (c *chosen) upTo(term, setting string) Term {
	return Uniform(term, 0, c.lasts(setting), c.source(setting))
}

// silence is what is left of a lease at a moment that doesn't care when the last beat was.
func (c *chosen) silence(lease, beat time.Duration, settings ...string) Term {
	return Uniform("lease", max(lease-beat, 0), lease, c.source(settings...))
}

// outlasts demands that a lease is longer than a beat.
func (c *chosen) outlasts(lease time.Duration, of string, beat time.Duration, by string) error {
	if lease > beat {
		return nil
	}
	return fmt.Errorf("%s is over after %s, before the next beat (%s): healthy instances would be evicted again and again; three beats are usual",
		c.called(of), lease, by)
}

// sum leaves out what takes no time, such as a cache that is off.
func sum(terms ...Term) Sum {
	var out Sum
	for _, t := range terms {
		if t.Max > 0 {
			out = append(out, t)
		}
	}
	return out
}

// load reckons what the settings cost: reads and beats a second, and how many healthy instances a day are silent for
// longer than the registry's patience. An interval of 0 is what doesn't happen: no polls where changes are pushed.
func (c *chosen) load(read, beat, patience time.Duration) Load {
	return Load{
		ReadsPerSecond:       c.fleet.Reads(read),
		BeatsPerSecond:       c.fleet.Beats(beat),
		FalseEvictionsPerDay: Pauses{}.Beyond(max(patience, 0)) * float64(c.fleet.Instances),
		Assumed:              c.fleet.String() + "; " + pausesAssumed,
	}
}

// pausesAssumed says what the zero Pauses are.
const pausesAssumed = "healthy ones evicted: at most, if a process that lives is silent for 100ms and more once an hour, half as often for twice as long"

// times is d taken n times, saturated.
func times(n int, d time.Duration) time.Duration {
	if n <= 0 || d <= 0 {
		return 0
	}
	if d > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return d * time.Duration(n)
}

// nevertheless is what holds when a registry's bound doesn't.
const nevertheless = "what holds are the callers' own timeouts and their retries elsewhere"
