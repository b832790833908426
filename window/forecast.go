package window

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Mean adds the means up, saturating like Worst.
func (s Sum) Mean() time.Duration { return s.add(Term.Mean) }

// Dominant returns the term with the longest worst case, the first one if there are several: what to shorten
// first. There is none in an empty sum.
func (s Sum) Dominant() (Term, bool) {
	var longest Term
	for i, t := range s {
		if i == 0 || t.Max > longest.Max {
			longest = t
		}
	}
	return longest, len(s) > 0
}

// Window is how long a departed instance may still be called, or why nobody can say.
type Window struct {
	Terms    Sum
	Void     string   // why no bound holds now, although terms add up; empty if it holds
	VoidWhen []string // what would void it

	bears int // so many may be lost at once, where VoidWhen bounds that
}

// Forecast is what a registry and its callers make of a departure.
type Forecast struct {
	Planned Window // the instance says that it leaves
	Crash   Window // it can't
	Load    Load   // what it costs
	Flight  Term   // what requests in flight get to end, where the preset knows; the zero Term: it doesn't
	Told    bool   // who leaves is told when its pause is over, as by package drain: it needs no sleep
	Call    Term   // the call by which a preStop hook has the registry told before it pauses; the zero Term: none is known
	Heard   bool   // the platform that ends an instance tells the callers itself: nobody has anything told
}

// Fleet is what a forecast is made for. Its numbers count for the load and for what voids a window, hardly for
// the window itself.
type Fleet struct {
	Callers   int // processes that call the service; 0 means 50
	Instances int // of the service; 0 means 10
	Lost      int // instances of the service that go at once; 0 means 1

	// Registry is how many instances the registry holds, those of other services among them; 0 means Instances. Eureka's
	// self-preservation and a sweep's share go by it.
	Registry int
}

// Known puts in what isn't set.
func (f Fleet) Known() Fleet {
	if f.Callers <= 0 {
		f.Callers = 50
	}
	if f.Instances <= 0 {
		f.Instances = 10
	}
	if f.Lost <= 0 {
		f.Lost = 1
	}
	return f
}

// String writes "50 callers, 10 instances, 1 lost at once", of the fleet with its defaults.
func (f Fleet) String() string {
	f = f.Known()
	text := fmt.Sprintf("%d callers, %d instances, %d lost at once", f.Callers, f.Instances, f.Lost)
	if f.Registry > 0 {
		text += fmt.Sprintf(", %d instances in the registry", f.Registry)
	}
	return text
}

// held is how many instances the registry holds.
func (f Fleet) held() int { return max(f.Registry, f.Instances) }

// Reads is how many reads a second a fleet makes whose callers each ask once in every; 0 if they don't ask.
func (f Fleet) Reads(every time.Duration) float64 { return rate(f.Known().Callers, every) }

// Beats is how many renewals a second a fleet makes whose instances each renew once in every.
func (f Fleet) Beats(every time.Duration) float64 { return rate(f.Known().Instances, every) }

func rate(n int, every time.Duration) float64 {
	if every <= 0 {
		return 0
	}
	return float64(n) / every.Seconds()
}

// Load is what a window costs: short timers are paid for in reads and beats, short leases in instances that are
// given up although they live (W9).
type Load struct {
	ReadsPerSecond       float64
	BeatsPerSecond       float64
	FalseEvictionsPerDay float64 // instances of the fleet that are given up although they live
	Assumed              string  // what that was reckoned with: the fleet, the pauses
}

const (
	inFlight   = 20 * time.Second // drain's default
	margin     = 2 * time.Second  // timers are late, and an exit takes time
	leastPause = 5 * time.Second  // a shorter one trusts defaults that nobody promises; 5 s lost nothing on real nodes
)

// Advice is what to set so that a planned departure loses nothing.
type Advice struct {
	Pause time.Duration // how long to serve on after the leave, at the most
	Sleep time.Duration // what of it a preStop hook sleeps: all, and 0 where the end of the pause is told
	Call  time.Duration // before the pause: what the hook's call of the registry may take; 0 where the preset knows of none
	Grace time.Duration // how long whoever ends the process has to wait: terminationGracePeriodSeconds
	Heard bool          // the callers hear of the leave without a word of the instance
	Why   string        // how they come about; begins with why they don't suffice, if the window is void
}

// Recommend derives the pause and the grace from the worst case of a planned departure. Requests in flight get
// flight to end after the pause; 0 means what the preset knows (Spring's 30s), else 20s, the default of package drain.
func (f Forecast) Recommend(flight time.Duration) Advice {
	last := f.Flight
	if flight > 0 || last.Max <= 0 {
		last = Fixed("in-flight deadline", cmp.Or(max(flight, 0), inFlight), "")
	}
	worst := f.Planned.Terms.Worst()
	a := Advice{Pause: seconds(Sum{{Max: worst}, {Max: margin}}.Worst()), Call: max(f.Call.Max, 0), Heard: f.Heard}
	switch {
	case f.Told:
		a.Pause = seconds(worst)
		a.Why = "no sleep: drain.Serve ends the pause itself once the callers have let go, after " + exact(a.Pause) + " at the latest"
	case a.Pause < leastPause:
		a.Pause, a.Sleep = leastPause, leastPause
		a.Why = fmt.Sprintf("pause %s, the least that is worth trusting, for a worst case of a planned departure of %s", exact(leastPause), written(worst))
	default:
		a.Sleep = a.Pause
		a.Why = fmt.Sprintf("pause %s = worst case of a planned departure %s + margin %s, in whole seconds", exact(a.Pause), written(worst), exact(margin))
	}
	a.Grace = seconds(Sum{{Max: a.Call}, {Max: a.Pause}, last, {Max: margin}}.Worst())
	call := ""
	if a.Call > 0 {
		call = part(f.Call) + " + "
	}
	a.Why += fmt.Sprintf("; grace %s = %spause %s + %s + margin %s", exact(a.Grace), call, exact(a.Pause), part(last), exact(margin))
	if f.Planned.Void != "" {
		a.Why = "no pause is long enough, since the window is void: " + f.Planned.Void + "; without that: " + a.Why
	}
	return a
}

// part writes a term of a sum, with where it is from if that is known.
func part(t Term) string {
	if t.Source == "" {
		return t.Name + " " + exact(t.Max)
	}
	return t.Name + " " + exact(t.Max) + " (" + t.Source + ")"
}

// seconds rounds up to whole seconds, which is what hooks and manifests take.
func seconds(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 && d <= math.MaxInt64-time.Second {
		return d - rest + time.Second
	}
	return d
}

// exact writes a delay as people set and compare them: 500ms, 95.5s, 335s, and from ten minutes on 15m, 1h15m, 8760h.
func exact(d time.Duration) string {
	if d < time.Second {
		return d.String()
	}
	if d < 10*time.Minute {
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	}
	text := d.String()
	if rest, whole := strings.CutSuffix(text, "m0s"); whole {
		text = rest + "m"
	}
	if rest, whole := strings.CutSuffix(text, "h0m"); whole {
		text = rest + "h"
	}
	return text
}
