// Command termsvg draws what a terminal showed as an SVG: text with colour escapes in, picture out.
//
//	tmux capture-pane -e -p -t demo | go run ./termsvg -title 'eider demo' >../docs/pictures/demo.svg
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	cell   = 8.4 // of a 14 px monospaced font
	leap   = 19.0
	margin = 18.0
)

// style is what escapes have switched on.
type style struct {
	bold, dim bool
	color     string
}

type span struct {
	style
	column int
	text   string
}

func main() {
	title := flag.String("title", "terminal", "what the picture shows, for who can't see it")
	flag.Parse()
	if err := draw(os.Stdin, os.Stdout, *title); err != nil {
		fmt.Fprintln(os.Stderr, "termsvg:", err)
		os.Exit(1)
	}
}

func draw(in io.Reader, out io.Writer, title string) error {
	var lines [][]span
	columns := 0
	for s := bufio.NewScanner(in); s.Scan(); {
		spans, width := parse(strings.TrimRight(s.Text(), " "))
		lines = append(lines, spans)
		columns = max(columns, width)
	}
	for len(lines) > 0 && len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	width, height := float64(columns)*cell+2*margin, float64(len(lines))*leap+2*margin+18
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n", width, height, html.EscapeString(title))
	fmt.Fprintln(w, `<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;fill:#d6dbe5}.b{font-weight:700}.d{fill:#8b93a3}.r{fill:#ff7b72}.g{fill:#56d364}.y{fill:#e3b341}</style>`)
	fmt.Fprintf(w, `<rect width="%.0f" height="%.0f" rx="9" fill="#12161f"/><circle cx="18" cy="15" r="5" fill="#ff5f57"/><circle cx="35" cy="15" r="5" fill="#febc2e"/><circle cx="52" cy="15" r="5" fill="#28c840"/>`+"\n", width, height)
	for i, spans := range lines {
		y := margin + 18 + float64(i)*leap + 13
		for _, s := range spans {
			n := utf8.RuneCountInString(s.text)
			fmt.Fprintf(w, `<text x="%.1f" y="%.1f" textLength="%.1f" class="%s">%s</text>`+"\n", margin+float64(s.column)*cell, y, float64(n)*cell, s.class(), html.EscapeString(s.text))
		}
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

func (s style) class() string {
	var names []string
	if s.bold {
		names = append(names, "b")
	}
	if s.dim {
		names = append(names, "d")
	}
	if s.color != "" {
		names = append(names, s.color)
	}
	return strings.Join(names, " ")
}

// parse splits a line at its escapes; what is only space between two colours is left out.
func parse(line string) (spans []span, width int) {
	var now style
	var text strings.Builder
	start := 0
	flush := func() {
		t := text.String()
		if trimmed := strings.TrimLeft(t, " "); trimmed != "" {
			spans = append(spans, span{now, start + len(t) - len(trimmed), strings.TrimRight(trimmed, " ")})
		}
		start += utf8.RuneCountInString(t)
		text.Reset()
	}
	for len(line) > 0 {
		if rest, ok := strings.CutPrefix(line, "\x1b["); ok {
			codes, after, found := strings.Cut(rest, "m")
			if !found {
				break
			}
			flush()
			now = now.with(codes)
			line = after
			continue
		}
		r, size := utf8.DecodeRuneInString(line)
		text.WriteRune(r)
		line = line[size:]
	}
	flush()
	return spans, start
}

func (s style) with(codes string) style {
	for code := range strings.SplitSeq(codes, ";") {
		switch code {
		case "", "0":
			s = style{}
		case "1":
			s.bold = true
		case "2":
			s.dim = true
		case "31":
			s.color = "r"
		case "32":
			s.color = "g"
		case "33":
			s.color = "y"
		case "39":
			s.color = ""
		}
	}
	return s
}
