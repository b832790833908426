package lab

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// display draws over its own lines on a terminal; elsewhere it says what begins, and every few seconds how it goes.
type display struct {
	out   io.Writer
	live  bool
	quiet bool
	plain bool // no colours
	size  func() (width, height int)
	lines int // drawn, to be drawn over
	told  time.Duration
}

// tellEvery is how often progress is told where nothing can be drawn.
const tellEvery = 5 * time.Second

func newDisplay(o *Options) *display {
	d := &display{out: o.Err, live: o.Live && !o.JSON, quiet: o.JSON, plain: o.Plain, size: o.Size}
	if d.size == nil {
		d.size = func() (int, int) { return 100, 40 }
	}
	return d
}

// say tells what begins: on a terminal until there is something to draw, so that it doesn't stay between results.
func (d *display) say(text string) {
	if d.quiet {
		return
	}
	d.told = 0
	if d.live {
		width, _ := d.size()
		d.draw([]string{fit(text, width)})
		return
	}
	fmt.Fprintln(d.out, text)
}

func (d *display) frame(scene string, at time.Duration, fleets []*fleet) {
	if d.quiet || !d.live && at < d.told+tellEvery {
		return
	}
	d.told = at
	var states []fleetState
	for _, f := range fleets {
		states = append(states, f.look())
	}
	if !d.live {
		for _, line := range summary(scene, at, states) {
			fmt.Fprintln(d.out, bare(line))
		}
		return
	}
	d.draw(d.lay(scene, at, states))
}

// lay lays a frame out for the terminal as it is now.
func (d *display) lay(scene string, at time.Duration, states []fleetState) []string {
	width, height := d.size()
	lines := render(scene, at, states, width)
	if len(lines) >= height { // a frame that scrolls can't be drawn over
		lines = summary(scene, at, states)
		lines = lines[:max(0, min(len(lines), height-1))]
	}
	for i := range lines {
		lines[i] = fit(lines[i], width)
		if d.plain {
			lines[i] = bare(lines[i])
		}
	}
	return lines
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
	killed    bool // one of its instances was killed: what was in flight there is lost
	hung      bool // one hangs, or hung: what was on its way there timed out
	rows      []instanceState
	lost      string // what has become of its registry; "" while it serves
}

type instanceState struct{ id, state string }

func (f *fleet) look() fleetState {
	s := fleetState{counts: f.tally.counts(time.Now()), way: f.way}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.restarts, s.hung, s.lost = f.restarts, f.hung, f.lost
	if n := len(f.pauses); n > 0 {
		s.lastPause = f.pauses[n-1]
	}
	for _, in := range f.instances {
		s.rows = append(s.rows, instanceState{in.id, in.state})
		s.killed = s.killed || strings.HasPrefix(in.state, "killed")
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
	lines := []string{headline(scene, at), ""}
	room := min(24, max(6, width-60)) // of a bar
	for _, f := range fleets {
		lines = append(lines, fleetLine(f, width))
		most := 1
		for _, n := range f.ByRate {
			most = max(most, n)
		}
		for _, in := range f.rows {
			n := f.ByRate[in.id]
			bar := strings.Repeat("█", n*room/most)
			gap := strings.Repeat(" ", room-n*room/most)
			lines = append(lines, fmt.Sprintf("    %-10s %s%s %4d/s  %s", service+"/"+in.id, paint(stateColor(in.state), bar), gap, n, paint(stateColor(in.state), in.state)))
		}
		if f.lost != "" {
			lines = append(lines, fmt.Sprintf("    %-10s %s%s", "registry", strings.Repeat(" ", room+len(" 1234/s  ")), paint(stateColor(f.lost), f.lost)))
		}
		lines = append(lines, "")
	}
	return lines
}

// summary is a frame for little room.
func summary(scene string, at time.Duration, fleets []fleetState) []string {
	lines := []string{headline(scene, at)}
	for _, f := range fleets {
		lines = append(lines, fleetLine(f, 0))
	}
	return lines
}

func headline(scene string, at time.Duration) string {
	return fmt.Sprintf("%s  %s%4.1f s%s", paint(bold, "eider demo · "+scene), dim, at.Seconds(), plain)
}

// fleetLine leaves out what there is no room for; never what has failed.
func fleetLine(f fleetState, width int) string {
	rate := 0
	for _, n := range f.ByRate {
		rate += n
	}
	failed, color := fmt.Sprintf("%d failed", f.Failed), green
	switch {
	case f.killed && f.Failed > 0 && f.Failed == f.Kinds[whyCut]:
		failed, color = fmt.Sprintf("%d cut in flight", f.Failed), yellow
	case f.hung && f.Failed > 0 && f.Failed == f.Kinds[whyTimeout]:
		failed, color = fmt.Sprintf("%d stuck", f.Failed), yellow
	case f.Failed > 0:
		color = red
	}
	text := fmt.Sprintf("  %s %4d/s %7d requests %4d restarts  %s", paint(bold, fmt.Sprintf("%-8s", f.way)), rate, f.requests(), f.restarts, paint(color, failed))
	if width >= 84 {
		text = strings.Replace(text, plain, plain+spark(f.Rate), 1)
	}
	if f.Failed > 0 && color == red && width >= 116 {
		text += " (" + kindsText(f.Kinds) + ")"
	} else if f.lastPause > 0 && width >= 108 {
		text += "  last pause " + duration(milliseconds(f.lastPause))
	}
	return text
}

func stateColor(state string) string {
	switch {
	case state == "UP":
		return green
	case strings.HasPrefix(state, "killed"), strings.HasPrefix(state, "frozen"), strings.HasPrefix(state, "hangs"):
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

// bare takes escapes out.
func bare(line string) string {
	for {
		before, after, found := strings.Cut(line, "\x1b")
		if !found {
			return line
		}
		_, after, _ = strings.Cut(after, "m")
		line = before + after
	}
}

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
