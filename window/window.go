// Package window answers: how long may a departed instance still be called?
//
// It is arithmetic alone: no goroutine, no I/O, no clock. A [Term] is one cause of delay, with the way its
// delays lie between the best and the worst, and with its reason. Terms that run on independent clocks are a
// [Sum]: its best and worst cases add up, and its [Spread] tells what lies between, by percentiles. A [Forecast]
// is the window of a departure that was planned and of a crash, with what it costs to keep them so short; what
// it advises is how long to serve on. A window that has no bound is void and says why: no number is better
// than one that doesn't hold.
package window

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// String writes "caller refresh 0s to 30s (fetch interval)".
func (t Term) String() string {
	span := t.Max.String()
	if t.Min != t.Max {
		span = t.Min.String() + " to " + span
	}
	if t.Source == "" {
		return t.Name + " " + span
	}
	return t.Name + " " + span + " (" + t.Source + ")"
}

// Sum is a window: terms that follow one another on independent clocks, so that their worst cases add up.
type Sum []Term

// Best adds the best cases up. It saturates: a sum beyond what a Duration holds is the longest Duration.
func (s Sum) Best() time.Duration {
	return s.add(func(t Term) time.Duration { return t.Min })
}

// Worst adds the worst cases up, saturating like Best.
func (s Sum) Worst() time.Duration {
	return s.add(func(t Term) time.Duration { return t.Max })
}

func (s Sum) add(of func(Term) time.Duration) (total time.Duration) {
	for _, t := range s {
		d := max(of(t), 0)
		if total > math.MaxInt64-d {
			return math.MaxInt64
		}
		total += d
	}
	return total
}

// Check reports everything that is wrong with any term.
func (s Sum) Check() error {
	errs := make([]error, len(s))
	for i, t := range s {
		errs[i] = t.Check()
	}
	return errors.Join(errs...)
}

// String writes the worst case with its reasons: "65s = fetch 0s to 30s (declared) + cache 0s to 35s (declared)".
func (s Sum) String() string {
	if len(s) == 0 {
		return "0s"
	}
	parts := make([]string, len(s))
	for i, t := range s {
		parts[i] = t.String()
	}
	return s.Worst().String() + " = " + strings.Join(parts, " + ")
}

// Table writes one line a term and the totals below them, in columns.
func (s Sum) Table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TERM\tBEST\tWORST\tSOURCE")
	for _, t := range s {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, t.Min, t.Max, t.Source)
	}
	fmt.Fprintf(w, "sum\t%s\t%s\t\n", s.Best(), s.Worst())
	w.Flush() // a Builder takes everything
	return b.String()
}

// Longest returns the sum with the longest worst case: what a planned departure has to wait when each
// of its callers has a window of its own. The first one wins a tie; it is nil when there are none.
func Longest(sums ...Sum) (longest Sum) {
	for i, s := range sums {
		if i == 0 || s.Worst() > longest.Worst() {
			longest = s
		}
	}
	return longest
}
