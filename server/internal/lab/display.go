package lab

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// display draws over its own lines on a terminal; elsewhere it only says what begins.
type display struct {
	out   io.Writer
	live  bool
	quiet bool
	width int
	lines int // drawn, to be drawn over
}

func newDisplay(o *Options) *display {
	width := o.Width
	if width <= 0 {
		width = 100
	}
	return &display{out: o.Err, live: o.Live && !o.JSON, quiet: o.JSON, width: min(width, 140)}
}

// say tells what begins.
func (d *display) say(text string) {
	if d.quiet {
		return
	}
	d.clear()
	fmt.Fprintln(d.out, text)
}

func (d *display) frame(scene string, at time.Duration, fleets []*fleet) {
	if !d.live {
		return
	}
	var states []fleetState
	for _, f := range fleets {
		states = append(states, f.look())
	}
	d.draw(render(scene, at, states, d.width))
}

func (d *display) draw(lines []string) {
	var b strings.Builder
	if d.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", d.lines)
	}
	for _, line := range lines {
		b.WriteString("\x1b[2K" + line + "\n")
	}
	for extra := len(lines); extra < d.lines; extra++ {
		b.WriteString("\x1b[2K\n")
	}
	if extra := d.lines - len(lines); extra > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", extra)
	}
	d.lines = len(lines)
	_, _ = io.WriteString(d.out, b.String())
}

// clear takes the display away, for what is printed next.
func (d *display) clear() {
	if d.lines > 0 {
		fmt.Fprintf(d.out, "\x1b[%dA\x1b[J", d.lines)
		d.lines = 0
	}
}

// fleetState is one fleet at one moment.
type fleetState struct {
	counts
	way       string
	restarts  int
	lastPause time.Duration
	rows      []instanceState
}

type instanceState struct{ id, state string }

func (f *fleet) look() fleetState {
	s := fleetState{counts: f.tally.counts(time.Now()), way: f.way}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.restarts = f.restarts
	if n := len(f.pauses); n > 0 {
		s.lastPause = f.pauses[n-1]
	}
	for _, in := range f.instances {
		s.rows = append(s.rows, instanceState{in.id, in.state})
	}
	return s
}

const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// render draws a frame: a line a fleet, and beneath it a bar an instance.
func render(scene string, at time.Duration, fleets []fleetState, width int) []string {
	lines := []string{fit(fmt.Sprintf("%s  %s%4.1f s%s", paint(bold, "eider demo · "+scene), dim, at.Seconds(), plain), width), ""}
	for _, f := range fleets {
		lines = append(lines, fit(fleetLine(f), width))
		most := 1
		for _, n := range f.ByRate {
			most = max(most, n)
		}
		for _, in := range f.rows {
			n := f.ByRate[in.id]
			bar := strings.Repeat("█", n*24/most)
			lines = append(lines, fit(fmt.Sprintf("    %-10s %s%s %4d/s  %s", service+"/"+in.id, paint(stateColor(in.state), bar), strings.Repeat(" ", 24-utf8.RuneCountInString(bar)), n, paint(stateColor(in.state), in.state)), width))
		}
		lines = append(lines, "")
	}
	return lines
}

func fleetLine(f fleetState) string {
	rate := 0
	for _, n := range f.ByRate {
		rate += n
	}
	failed := paint(green, "0 failed")
	if f.Failed > 0 {
		failed = paint(red, fmt.Sprintf("%d failed", f.Failed)) + " (" + kindsText(f.Kinds) + ")"
	}
	text := fmt.Sprintf("  %s %s %4d/s  %6d requests  %3d restarts  %s", paint(bold, fmt.Sprintf("%-9s", f.way)), spark(f.Rate), rate, f.requests(), f.restarts, failed)
	if f.lastPause > 0 {
		text += "  last pause " + duration(milliseconds(f.lastPause))
	}
	return text
}

func stateColor(state string) string {
	switch {
	case state == "UP":
		return green
	case strings.HasPrefix(state, "killed"):
		return red
	}
	return yellow // on its way out, or back
}

// spark draws the last two seconds' throughput.
func spark(rate []int) string {
	rate = rate[max(0, len(rate)-20):]
	most := 1
	for _, n := range rate {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range rate {
		b.WriteRune([]rune(" ▁▂▃▄▅▆▇█")[n*8/most])
	}
	return b.String()
}

func paint(color, text string) string { return color + text + plain }

// fit cuts a line to the terminal's width; escape sequences take no room.
func fit(line string, width int) string {
	seen := 0
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			i += strings.IndexByte(line[i:], 'm') + 1
			continue
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		if seen++; seen > width {
			return line[:i] + plain
		}
		i += size
	}
	return line
}
