package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Table writes the report for a person, with the colours of a terminal if asked for.
func (r Report) Table(colour bool) string {
	var b strings.Builder
	paint := func(hue, text string) string {
		if !colour {
			return text
		}
		return "\x1b[" + hue + "m" + text + "\x1b[0m"
	}
	for _, f := range r.Findings {
		rule, _ := Find(f.Rule)
		where := fmt.Sprintf("%s:%d", printable(f.File), f.Line)
		object := ""
		if f.Object != "" {
			object = "  " + printable(f.Object)
		}
		fmt.Fprintf(&b, "%s  %s  %s %s%s\n  %s\n", paint("1", where), paint(hues[f.Severity], string(f.Severity)), f.Rule, rule.Name, object, printable(f.Message))
		for i, row := range strings.Split(f.Patch, "\n") {
			head := "  write: "
			if i > 0 {
				head = "         "
			}
			if row != "" {
				b.WriteString(paint("2", head+printable(row)) + "\n")
			}
		}
	}
	if len(r.Findings) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(printable(r.Summary()) + "\n")
	if r.Assumed != "" {
		b.WriteString(printable(r.Assumed) + "\n")
	}
	return b.String()
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
	return fmt.Sprintf("%s in %s. `eider lint --explain %s", strings.Join(parts, ", "), among, r.rules())
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

// printable replaces what a terminal could take for a command: a manifest is a stranger's.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

// Explain writes what there is to know of a rule.
func (r Rule) Explain() string {
	return fmt.Sprintf("%s %s: %s (%s)\n\n%s\n\nFound:\n\n%s\n\nWrite:\n\n%s\n\nRead more: %s\n",
		r.ID, r.Name, r.Title, r.Severity, r.Why, indented(r.Example), indented(r.Patch), r.Source)
}

func indented(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
