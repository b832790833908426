package window

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Term is one cause of delay, on a clock of its own.
type Term struct {
	Name   string        // what it is: "caller refresh"
	Min    time.Duration // when all goes well
	Max    time.Duration // at the worst; at least Min
	Source string        // where the numbers come from: "default", "EIDER_GRACE", "pushed by the node"

	// Shape is how the delay lies between Min and Max; nil means that each delay is as likely as any other, as
	// for a timer that began at a moment of its own. It changes percentiles and means, never best or worst.
	Shape []Bucket
}

// Bucket is a part of a shape: delays from From to To, each as likely as the other; a point if they are equal.
type Bucket struct {
	From, To time.Duration
	Weight   float64 // relative to the other buckets of the shape
}

// Fixed is a term that always takes the same time.
func Fixed(name string, d time.Duration, source string) Term {
	return Term{Name: name, Min: d, Max: d, Source: source}
}

// Uniform is a term that takes any time between min and max, each as likely as the other: a poll, a sweep or a
// cache, seen from an event that comes at a moment of its own.
func Uniform(name string, min, max time.Duration, source string) Term {
	return Term{Name: name, Min: min, Max: max, Source: source}
}

// Histogram is a term that was measured: it lies between the buckets that have a weight.
func Histogram(name string, shape []Bucket, source string) Term {
	t := Term{Name: name, Source: source, Shape: shape}
	first := true
	for _, b := range shape {
		if !(b.Weight > 0) {
			continue
		}
		if first || b.From < t.Min {
			t.Min = b.From
		}
		if first || b.To > t.Max {
			t.Max = b.To
		}
		first = false
	}
	return t
}

// Steps are the waits of an exponential backoff: First, then Factor times as long after each failed try, up to
// Ceiling, each shortened by a random share of up to Jitter.
//
// gRPC's waits, which are jittered up and down by a fifth, are those of First and Ceiling 1.2 times as long and
// Jitter 1/3.
type Steps struct {
	First    time.Duration // before the first try
	Ceiling  time.Duration // 0 means none
	Factor   float64       // below 1 means 1: all waits are alike
	Jitter   float64       // from 0, none, to 1, full jitter
	Failures int           // tries that have failed when the peer comes back
}

// Backoff is the time until the next try of a caller whose peer comes back, at a moment of its own, once
// b.Failures tries have failed. It is what is left of the wait that is under way then, which is likelier a long
// one than a short one, since a long one covers more moments.
func Backoff(name string, b Steps, source string) Term {
	longest := b.wait()
	t := Term{Name: name, Max: longest, Source: source}
	jitter := math.Min(math.Max(b.Jitter, 0), 1) // NaN stays NaN
	if !(jitter > 0) || longest == 0 {
		return t // all waits are as long, and every moment of them as likely
	}
	// The chance that x is left is that of a wait longer than x: the same up to the shortest wait, falling to
	// 0 at the longest from there on.
	const slices = 32
	shortest := scale(longest, 1-jitter)
	fall := longest - shortest
	t.Shape = append(t.Shape, Bucket{To: shortest, Weight: float64(shortest)})
	for i := range slices {
		from, to := scale(fall, float64(i)/slices), scale(fall, float64(i+1)/slices)
		t.Shape = append(t.Shape, Bucket{From: shortest + from, To: shortest + to,
			Weight: float64(to-from) * (slices - float64(i) - 0.5) / slices})
	}
	t.Shape[slices].To = longest // whatever the slices were rounded to
	return t
}

// wait is the longest wait after Failures failed tries.
func (b Steps) wait() time.Duration {
	d := float64(max(b.First, 0))
	if b.Factor > 1 {
		d *= math.Pow(b.Factor, float64(max(b.Failures, 0)))
	}
	if !(d < math.MaxInt64) {
		d = math.MaxInt64 // also what no number is: 0 times infinity
		if b.First <= 0 {
			d = 0
		}
	}
	longest := duration(d)
	if b.Ceiling > 0 {
		longest = min(longest, b.Ceiling)
	}
	return longest
}

// scale takes a share from 0 to 1 of a duration.
func scale(d time.Duration, share float64) time.Duration {
	return min(duration(float64(d)*share), d)
}

// duration is the nearest Duration to a number of nanoseconds, which may be beyond what one holds.
func duration(ns float64) time.Duration {
	switch {
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns > 0:
		return time.Duration(math.Round(ns))
	}
	return 0
}

// span is what the term adds to a sum at the least and at the most, however wrong it is.
func (t Term) span() (least, most time.Duration) {
	most = max(t.Max, 0)
	return min(max(t.Min, 0), most), most
}

func (t Term) width() time.Duration {
	least, most := t.span()
	return most - least
}

func (t Term) buckets() float64 { return float64(max(len(t.Shape), 1)) }

// parts are the buckets of the term's shape that count, within its span and with weights that add up to 1.
func (t Term) parts() []Bucket {
	least, most := t.span()
	heaviest := 0.0
	for _, b := range t.Shape {
		if b.counts() {
			heaviest = max(heaviest, b.Weight)
		}
	}
	if heaviest == 0 {
		return []Bucket{{From: least, To: most, Weight: 1}}
	}
	parts, total := make([]Bucket, 0, len(t.Shape)), 0.0
	for _, b := range t.Shape {
		if share := b.Weight / heaviest; b.counts() && share > 0 {
			from := min(max(b.From, least), most)
			parts = append(parts, Bucket{From: from, To: min(max(b.To, from), most), Weight: share})
			total += share
		}
	}
	for i := range parts {
		parts[i].Weight /= total
	}
	return parts
}

func (b Bucket) counts() bool { return b.Weight > 0 && !math.IsInf(b.Weight, 1) }

// Mean is the exact mean of the term.
func (t Term) Mean() time.Duration {
	least, most := t.span()
	if len(t.Shape) == 0 {
		return least + (most-least)/2
	}
	above := 0.0
	for _, b := range t.parts() {
		above += b.Weight * (float64(b.From-least) + float64(b.To-least)) / 2
	}
	return least + min(duration(above), most-least)
}

// Check reports everything that is wrong with the term.
func (t Term) Check() error {
	var errs []error
	if t.Name == "" {
		errs = append(errs, fmt.Errorf("term of %s: it has no name; say what takes this time", t.Max))
	}
	if t.Min < 0 {
		errs = append(errs, fmt.Errorf("term %q: its best case %s is below 0", t.Name, t.Min))
	}
	if t.Max < t.Min {
		errs = append(errs, fmt.Errorf("term %q: its worst case %s is below its best case %s", t.Name, t.Max, t.Min))
	}
	weighs := len(t.Shape) == 0
	for _, b := range t.Shape {
		weighs = weighs || b.counts()
		if !(b.Weight >= 0) || math.IsInf(b.Weight, 1) {
			errs = append(errs, fmt.Errorf("term %q: the weight %v of %s to %s isn't a number from 0 up", t.Name, b.Weight, b.From, b.To))
		}
		if b.To < b.From {
			errs = append(errs, fmt.Errorf("term %q: its bucket from %s to %s ends before it begins", t.Name, b.From, b.To))
		}
		if b.counts() && (b.From < t.Min || b.To > t.Max) {
			errs = append(errs, fmt.Errorf("term %q: its bucket from %s to %s is beyond its best or worst case, %s to %s", t.Name, b.From, b.To, t.Min, t.Max))
		}
	}
	if !weighs {
		errs = append(errs, fmt.Errorf("term %q: none of its buckets has a weight; give the likely ones more than 0", t.Name))
	}
	return errors.Join(errs...)
}
