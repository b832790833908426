package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eiderhq/eider/server/internal/harmless"
)

// Table writes the report for a person, with the colours of a terminal if asked for.
func (r Report) Table(colour bool) string { return r.Page(colour, 0) }

// Page is the table for a terminal of so many columns, 0 for any: sentences are set in lines, YAML stays whole, so that
// it can be copied.
func (r Report) Page(colour bool, width int) string {
	var b strings.Builder
	paint := func(hue, text string) string {
		if !colour {
			return text
		}
		return "\x1b[" + hue + "m" + text + "\x1b[0m"
	}
	written := map[string]string{} // the rule whose finding in an object has the same to write
	for _, f := range r.Findings {
		rule, _ := Find(f.Rule)
		where := fmt.Sprintf("%s:%d", harmless.Text(f.File), f.Line)
		object := ""
		if f.Object != "" {
			object = "  " + harmless.Text(f.Object)
		}
		if f.Template != "" {
			object += "  " + harmless.Text(f.Template)
		}
		fmt.Fprintf(&b, "%s  %s  %s %s%s\n", paint("1", where), paint(hues[f.Severity], string(f.Severity)), f.Rule, rule.Name, object)
		b.WriteString(set(harmless.Text(f.Message), "  ", "  ", width))
		head, patch := "  write: ", f.Patch
		if as, ok := written[f.Object+"\n"+patch]; ok && patch != "" {
			patch = "# what " + as + " says"
		}
		written[f.Object+"\n"+f.Patch] = f.Rule
		for row := range strings.SplitSeq(patch, "\n") {
			if row == "" {
				continue
			}
			for line := range strings.Lines(setYAML(harmless.Text(row), head, width)) {
				b.WriteString(paint("2", strings.TrimSuffix(line, "\n")) + "\n")
			}
			head = "         "
		}
	}
	if len(r.Findings) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(set(harmless.Text(r.Summary()), "", "  ", width))
	if r.Assumed != "" {
		b.WriteString(set(harmless.Text(r.Assumed), "", "  ", width))
	}
	return b.String()
}

// set sets words in lines of a width, the first behind head, the others behind indent; a word that is longer has a line
// of its own.
func set(text, head, indent string, width int) string {
	if width == 0 || utf8.RuneCountInString(head+text) <= width {
		return head + text + "\n"
	}
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
			b.WriteString(head)
			column = utf8.RuneCountInString(head)
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = utf8.RuneCountInString(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String() + "\n"
}

// setYAML puts the comment of a row that is too wide above it, in lines of its own.
func setYAML(row, head string, width int) string {
	code, comment, ok := strings.Cut(row, "  # ")
	words, alone := strings.CutPrefix(row, "# ")
	indent := strings.Repeat(" ", utf8.RuneCountInString(head))
	switch {
	case width == 0 || utf8.RuneCountInString(head+row) <= width:
		return head + row + "\n"
	case alone:
		return set(words, head+"# ", indent+"# ", width)
	case !ok:
		return head + row + "\n"
	}
	return set(comment, head+"# ", indent+"# ", width) + indent + code + "\n"
}

var hues = map[Severity]string{Error: "31", Warning: "33", Note: "36"}

// Summary is one line.
func (r Report) Summary() string {
	among := fmt.Sprintf("%s among %s", count(r.Workloads, "workload that serves", "workloads that serve"), count(r.Objects, "object", "objects"))
	if r.Ignored > 0 {
		among += fmt.Sprintf("; %s ignored with a reason", count(r.Ignored, "finding", "findings"))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Unchecked)) {
		among += fmt.Sprintf("; not looked at: %d of kind %s", r.Unchecked[kind], short(kind))
	}
	if len(r.Findings) == 0 {
		return "nothing found: " + among
	}
	var parts []string
	for _, s := range []Severity{Error, Warning, Note} {
		if n := r.Count(s); n > 0 {
			parts = append(parts, count(n, string(s), string(s)+"s"))
		}
	}
	return fmt.Sprintf("%s in %s. `%s --explain %s", strings.Join(parts, ", "), among, r.command, r.rules())
}

// rules is how one asks for each of those that were broken.
func (r Report) rules() string {
	ids := map[string]bool{}
	for _, f := range r.Findings {
		ids[f.Rule] = true
	}
	first, rest := r.Findings[0].Rule, len(ids)-1
	delete(ids, first)
	if rest == 0 {
		return first + "` says why"
	}
	return first + "` says why, and so of " + strings.Join(slices.Sorted(maps.Keys(ids)), ", ")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Explain writes what there is to know of a rule.
func (r Rule) Explain() string {
	return fmt.Sprintf("%s %s: %s (%s)\n\n%s\n\nFound:\n\n%s\n\nWrite:\n\n%s\n\nRead more: %s\n",
		r.ID, r.Name, r.Title, r.Severity, r.Why, indented(r.Example), indented(r.Patch), r.Source)
}

func indented(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
