package lint

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed docs.md
var docsHead string

// Docs is docs/lint.md.
func Docs() string {
	var b strings.Builder
	b.WriteString(docsHead)
	b.WriteString("| rule | severity | |\n|---|---|---|\n")
	for _, r := range Rules() {
		fmt.Fprintf(&b, "| [%s](#%s) %s | %s | %s |\n", r.ID, r.anchor(), r.Name, r.Severity, r.Title)
	}
	for _, r := range Rules() {
		fmt.Fprintf(&b, "\n### %s %s\n\n%s (%s).\n\n%s", r.ID, r.Name, strings.ToUpper(r.Title[:1])+r.Title[1:], r.Severity, r.Markdown())
	}
	return b.String()
}

func (r Rule) anchor() string { return strings.ToLower(r.ID) + "-" + r.Name }

// Markdown is the rule's section of docs/lint.md, without its head.
func (r Rule) Markdown() string {
	return fmt.Sprintf("%s\n\nFound:\n\n```yaml\n%s\n```\n\nWrite:\n\n```yaml\n%s\n```\n\nRead more: <%s>\n", r.Why, r.Example, r.Patch, r.Source)
}
