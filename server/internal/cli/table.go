package cli

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/harmless"
)

// table is text in columns, or sentences, for a person.
type table struct {
	colour bool
	width  int // columns that a row may take, 0 for any
	rows   [][]cell
	out    strings.Builder
}

// cell is one text, perhaps in a colour.
type cell struct {
	text string
	hue  string // an SGR parameter, "" for none
}

// The hues, by what they mean.
const (
	good  = "32"
	bad   = "31"
	warn  = "33"
	moves = "36"
	dim   = "2"
)

// row adds one row of plain texts or cells.
func (t *table) row(columns ...any) {
	var row []cell
	for _, c := range columns {
		one, ok := c.(cell)
		if !ok {
			one = cell{text: c.(string)}
		}
		if one.text == "" {
			one = cell{text: "-"}
		}
		one.text = harmless.Text(one.text)
		row = append(row, one)
	}
	t.rows = append(t.rows, row)
}

// say ends the rows so far and adds a line of its own.
func (t *table) say(sentence string) {
	t.flush()
	t.out.WriteString(harmless.Text(sentence))
	t.out.WriteByte('\n')
}

// leastLast is what the last column of a table keeps, however narrow the terminal: a row that is still too
// wide wraps, since half an address is worse than two lines.
const leastLast = 12

// flush writes the rows in columns, two blanks apart. On a terminal what doesn't fit is cut off the last column.
func (t *table) flush() {
	widths := t.widths()
	for _, row := range t.rows {
		for i, c := range row {
			c.text = cut(c.text, widths[i])
			t.out.WriteString(c.paint(t.colour))
			if i < len(row)-1 {
				t.out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		t.out.WriteByte('\n')
	}
	t.rows = nil
}

// widths returns how wide each column is drawn.
func (t *table) widths() (widths []int) {
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	if t.width == 0 || len(widths) == 0 {
		return widths
	}
	left, last := t.width, len(widths)-1
	for _, w := range widths[:last] {
		left -= w + 2
	}
	widths[last] = min(widths[last], max(left, leastLast))
	return widths
}

// cut shortens a text to a width, and shows that it did.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// String returns everything so far.
func (t *table) String() string {
	t.flush()
	return t.out.String()
}

func (c cell) paint(colour bool) string {
	if !colour || c.hue == "" {
		return c.text
	}
	return "\x1b[" + c.hue + "m" + c.text + "\x1b[0m"
}

// oneLine joins lines by blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// statusCell colours a status: what can be called, what moves, what can't be.
func statusCell(s eider.Status, doubt eider.Suspicion) cell {
	hue := bad
	switch {
	case s == eider.Up && doubt == 0:
		hue = good
	case s == eider.Up:
		hue = warn
	case s == eider.Starting || s == eider.Draining:
		hue = moves
	case s == eider.Left:
		hue = dim
	}
	return cell{s.String(), hue}
}

func (a *app) writeJSON(v any, indent bool) error {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return &exit{exitFailure, err}
	}
	return a.print(text.String())
}
