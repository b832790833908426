package offline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// page is text for a person: sentences, and columns.
type page struct {
	colour bool
	width  int // columns that a line may take, 0 for any
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
	strong = "1"
	dim    = "2"
	good   = "32"
	warn   = "33"
	plain  = "36"
)

// proseWidth is how wide sentences are set where nothing else bounds them.
const proseWidth = 100

// leastLast is what the last column keeps, however narrow the terminal is: half a source is worse than a wrapped line.
const leastLast = 24

// row adds a row of texts or cells.
func (p *page) row(columns ...any) {
	var row []cell
	for _, c := range columns {
		one, ok := c.(cell)
		if !ok {
			one = cell{text: c.(string)}
		}
		one.text = printable(one.text)
		row = append(row, one)
	}
	p.rows = append(p.rows, row)
}

// say ends the rows so far and sets a sentence, whose further lines are indented as its first.
func (p *page) say(sentence, hue string) {
	p.flush()
	width := proseWidth
	if p.width > 0 {
		width = min(p.width, proseWidth)
	}
	indent := sentence[:len(sentence)-len(strings.TrimLeft(sentence, " "))]
	line := ""
	for word := range strings.FieldsSeq(printable(sentence)) {
		switch {
		case line == "":
			line = indent + word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			p.line(line, hue)
			line = indent + word
		default:
			line += " " + word
		}
	}
	p.line(line, hue)
}

func (p *page) line(text, hue string) {
	p.out.WriteString(p.paint(cell{text, hue}))
	p.out.WriteByte('\n')
}

// flush writes the rows in columns, two blanks apart. What doesn't fit is cut off the last column.
func (p *page) flush() {
	widths := p.widths()
	for _, row := range p.rows {
		var line strings.Builder
		for i, c := range row {
			c.text = cut(c.text, widths[i])
			line.WriteString(p.paint(c))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		p.out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	p.rows = nil
}

func (p *page) widths() (widths []int) {
	for _, row := range p.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	if p.width == 0 || len(widths) == 0 {
		return widths
	}
	left, last := p.width, len(widths)-1
	for _, w := range widths[:last] {
		left -= w + 2
	}
	widths[last] = min(widths[last], max(left, leastLast))
	return widths
}

// String returns everything so far.
func (p *page) String() string {
	p.flush()
	return p.out.String()
}

func (p *page) paint(c cell) string {
	if !p.colour || c.hue == "" || c.text == "" {
		return c.text
	}
	return "\x1b[" + c.hue + "m" + c.text + "\x1b[0m"
}

// cut shortens a text to a width, and shows that it did.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// printable takes away what could steer a terminal: names and sources may come from strangers.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, text)
}
