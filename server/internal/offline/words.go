package offline

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/eiderhq/eider/server/internal/outlook"
)

// seconds writes a delay as people set it: 95.5s, 335s, 500ms, and from ten minutes on 15m, 2h.
func seconds(s outlook.Seconds) string {
	d := time.Duration(s)
	switch {
	case d == math.MaxInt64:
		return "for ever"
	case d < 0:
		return "-" + seconds(-s)
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return decimal(d.Seconds(), 2) + "s"
	case d < 10*time.Minute:
		return decimal(d.Seconds(), 1) + "s"
	}
	text := d.Round(time.Second).String()
	text, _ = strings.CutSuffix(text, "m0s")
	if strings.HasSuffix(text, "s") {
		return text
	}
	hours, whole := strings.CutSuffix(text+"m", "h0m")
	if whole {
		return hours + "h"
	}
	return text + "m"
}

// span writes what a term may take.
func span(t outlook.Term) string {
	if t.Min == t.Max {
		return seconds(t.Max)
	}
	return seconds(t.Min) + " to " + seconds(t.Max)
}

// decimal writes a number to at most so many places, without the zeros at its end.
func decimal(f float64, places int) string {
	text := strconv.FormatFloat(f, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// rate writes how often a thing happens: 1,234, 56, 3.3, 0.02, 0.
func rate[N ~float64](n N) string {
	f := float64(n)
	switch {
	case f == 0:
		return "0"
	case f < 0.01:
		return strconv.FormatFloat(f, 'g', 1, 64)
	case f < 10:
		return decimal(f, 2)
	}
	text := strconv.FormatFloat(f, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// count writes 1 caller, 2 callers.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// saved writes how much shorter a window gets: −15s, or – for nothing, and +15s for one that gets longer.
func saved(s outlook.Seconds) string {
	switch {
	case s == 0:
		return "–"
	case s < 0:
		return "+" + seconds(-s)
	}
	return "−" + seconds(s)
}
