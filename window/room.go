package window

import (
	"strings"
	"time"
)

// Room is what is left of a whole when its parts have taken theirs: the longest lame-duck pause is a
// grace period without the in-flight deadline and the margin.
type Room struct {
	Whole Term
	Parts Sum
}

// Worst is what is left at the least: the shortest whole without the longest parts, never below 0.
func (r Room) Worst() time.Duration {
	parts := r.Parts.Worst() // at least 0 and saturated, so that the difference can't wrap for a whole that is at least 0
	return max(max(r.Whole.Min, 0)-parts, 0)
}

// Short is by how much the parts exceed the whole, 0 if they fit.
func (r Room) Short() time.Duration {
	return max(r.Parts.Worst()-max(r.Whole.Min, 0), 0)
}

// Fits tells whether a window fits into the room, in its worst case.
func (r Room) Fits(s Sum) bool { return s.Worst() <= r.Worst() }

// String writes the room with its reasons: "8s = grace 30s (EIDER_GRACE) − in-flight deadline 20s (default) − margin 2s".
func (r Room) String() string {
	var b strings.Builder
	b.WriteString(r.Worst().String() + " = " + r.Whole.String())
	for _, t := range r.Parts {
		b.WriteString(" − " + t.String())
	}
	if short := r.Short(); short > 0 {
		b.WriteString(", short by " + short.String())
	}
	return b.String()
}
