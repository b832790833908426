package offline

import (
	"strings"
	"unicode/utf8"

	"github.com/eiderhq/eider/server/internal/harmless"
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

// leastLast is what the last column needs: where there is less room it goes on a line of its own, indented.
const (
	leastLast = 14
	indented  = 4
)

// row adds a row of texts or cells.
func (p *page) row(columns ...any) {
	var row []cell
	for _, c := range columns {
		one, ok := c.(cell)
		if !ok {
			one = cell{text: c.(string)}
		}
		one.text = harmless.Text(one.text)
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
	for _, line := range wrap(harmless.Text(sentence), width-len(indent)) {
		p.out.WriteString(strings.TrimRight(indent+p.paint(cell{line, hue}), " ") + "\n")
	}
}

// flush writes the rows in columns, two blanks apart. What doesn't fit into the last one goes on below it.
func (p *page) flush() {
	widths := p.widths()
	for _, row := range p.rows {
		var line strings.Builder
		column := 0
		for i, c := range row {
			if i == len(row)-1 && i == len(widths)-1 {
				if p.width > 0 && p.width-column < leastLast && c.text != "" {
					line.WriteString("\n" + strings.Repeat(" ", indented))
					column = indented
				}
				for n, part := range wrap(c.text, widths[i]) {
					if n > 0 {
						line.WriteString("\n" + strings.Repeat(" ", column))
					}
					line.WriteString(p.paint(cell{part, c.hue}))
				}
				break
			}
			line.WriteString(p.paint(c))
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			column += widths[i] + 2
		}
		p.out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	p.rows = nil
}

// wrap sets words in lines of a width; a word that is longer has one of its own, or several if it is a path. There is at
// least one line.
func wrap(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		for utf8.RuneCountInString(word) > width {
			slash := strings.LastIndexByte(word[:min(max(width, 0), len(word))], '/')
			if slash < 0 {
				break
			}
			lines, word = append(lines, word[:slash+1]), word[slash+1:]
		}
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	if len(lines) == 0 {
		return []string{""}
	}
	return lines
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
	if left < leastLast {
		left = p.width - indented
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

// page returns an empty one for this desk.
func (d Desk) page() *page { return &page{colour: d.Colour(), width: d.Width()} }
