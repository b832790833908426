package cli

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eiderhq/eider/server/internal/node"
)

const docs = "../../../docs/"

// TestEveryFlagIsInTheDocs: docs/cli.md is the command tree, written out; so every flag is in it, and it
// has no other.
func TestEveryFlagIsInTheDocs(t *testing.T) {
	golden(t, docs+"cli.md", []byte(reference()))
}

func reference() string {
	a := &app{Process: Process{Getenv: func(string) string { return "" }, Out: &printed{}, Err: &printed{}}}
	root := a.root()
	var b bytes.Buffer
	b.WriteString("# The eider command\n\n")
	b.WriteString("Written from the command tree by `go test ./internal/cli -update` in `server/`; a test holds both together.\n\n")
	b.WriteString(prose(root.Long))
	b.WriteString("\n## Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, row := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", row.code, row.meaning)
	}
	b.WriteString(`
A registry's answer becomes a code by its kind of error; the sentence on standard error is the registry's own. Answers
go to standard output, everything else to standard error, each line of it beginning with ` + "`eider: `" + `; but for the log of
` + "`eider server`" + `, whose lines have the form that ` + "`--log-format`" + ` gives them, and the display of ` + "`eider demo`" + `.

## Output

Tables are for people and may change; JSON is for programs, and only gains fields. Durations in JSON are whole
nanoseconds and named so (` + "`cap_ns`" + `), but those of ` + "`eider window`" + `, which are seconds (` + "`worst_s`" + `); times are RFC 3339, ages in tables are by the registry's clock. Statuses are
coloured on a terminal only, and not when ` + "`NO_COLOR`" + ` is set. On a terminal a table's last column is cut to what fits,
which ` + "`…`" + ` shows; elsewhere it is whole. What a terminal could take for a command is printed as ` + "`�`" + `.

`)
	b.WriteString("## Flags of every command\n\n" + flagTable(root.PersistentFlags(), nil))
	for _, cmd := range root.Commands() {
		describe(&b, cmd)
		for _, sub := range cmd.Commands() {
			if cmd.GroupID != "" {
				describe(&b, sub)
			}
		}
	}
	b.WriteString("\n## eider completion\n\n`eider completion bash`, `fish`, `powershell` and `zsh` print a script that completes commands, flags and the names of\nservices, which it asks the registry for; `eider completion bash --help` says where to put it.\n")
	return b.String()
}

func describe(b *bytes.Buffer, cmd *cobra.Command) {
	if cmd.Hidden {
		return
	}
	cmd.DisableFlagsInUseLine = true
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", cmd.CommandPath(), cmd.Short)
	b.WriteString(code(cmd.UseLine()))
	if cmd.Long != "" {
		b.WriteString("\n" + prose(cmd.Long))
	}
	b.WriteString("\nExamples:\n\n" + code(strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n")))
	var env func(string) string
	if cmd.Name() == "server" {
		env = node.EnvName
	}
	if table := flagTable(cmd.LocalNonPersistentFlags(), env); table != "" {
		b.WriteString("\n" + table)
	}
}

// prose makes Markdown of help: what is indented there is a block here.
func prose(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		if strings.HasPrefix(part, "  ") {
			part = "```text\n" + strings.TrimPrefix(strings.ReplaceAll(part, "\n  ", "\n"), "  ") + "\n```"
		}
		b.WriteString(part + "\n")
	}
	return b.String()
}

func code(text string) string { return "```text\n" + strings.TrimSpace(text) + "\n```\n" }

func flagTable(flags *pflag.FlagSet, env func(string) string) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		kind, about := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" && f.Value.Type() != "bool" {
			name += " " + kind
		}
		fmt.Fprintf(&b, "| `%s` | %s |", strings.ReplaceAll(name, "|", `\|`), strings.ReplaceAll(f.DefValue, "|", `\|`))
		if env != nil {
			fmt.Fprintf(&b, " `%s` |", env(f.Name))
		}
		fmt.Fprintf(&b, " %s |\n", strings.ReplaceAll(about, "|", `\|`))
	})
	switch {
	case b.Len() == 0:
		return ""
	case env != nil:
		return "| flag | default | variable | |\n|---|---|---|---|\n" + b.String()
	}
	return "| flag | default | |\n|---|---|---|\n" + b.String()
}

// TestHelpIsWhole: every command says what it does, and shows how.
func TestHelpIsWhole(t *testing.T) {
	a := &app{Process: Process{Getenv: func(string) string { return "" }, Out: &printed{}, Err: &printed{}}}
	root := a.root()
	for _, cmd := range root.Commands() {
		if cmd.Hidden {
			continue
		}
		if cmd.Short == "" || cmd.Example == "" || !strings.Contains(cmd.Example, "eider "+cmd.Name()) {
			t.Errorf("eider %s: short %q, example %q; want both", cmd.Name(), cmd.Short, cmd.Example)
		}
		for _, name := range []string{"output", "json"} {
			if cmd.InheritedFlags().Lookup(name) == nil && cmd.LocalFlags().Lookup(name) == nil {
				t.Errorf("eider %s has no --%s", cmd.Name(), name)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("eider %s --%s says nothing of itself", cmd.Name(), f.Name)
			}
		})
	}
}

// TestEveryMetricIsInTheDocs, and the reverse: those of a node that serves and those of a registry in the
// middle of things.
func TestEveryMetricIsInTheDocs(t *testing.T) {
	there := map[string]bool{}
	_, at, _ := startServer(t)
	_, text := get(t, "http://"+at.HTTP+"/metrics")
	collect(there, text)
	bubble(t, func(w *world) {
		w.scene()
		defer w.serve()()
		w.eider("services")
		collect(there, w.raw("/metrics"))
	})
	page, err := os.ReadFile(docs + "metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		written[m[1]] = true
	}
	if len(there) < 10 {
		t.Errorf("only %d metrics were found", len(there))
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if !written[name] {
			t.Errorf("%s is a metric and not in docs/metrics.md", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(written)) {
		if !there[name] {
			t.Errorf("%s is in docs/metrics.md and no metric", name)
		}
	}
}

// collect adds the names of a page of metrics, but those that Go and the process have everywhere.
func collect(names map[string]bool, text string) {
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[1], "go_") && !strings.HasPrefix(m[1], "process_") && !strings.HasPrefix(m[1], "promhttp_") {
			names[m[1]] = true
		}
	}
}

// TestExitCodesAreDistinct and every one is documented.
func TestExitCodesAreDistinct(t *testing.T) {
	seen := map[int]bool{}
	for _, row := range exitCodes {
		if seen[row.code] || row.meaning == "" {
			t.Errorf("exit code %d is listed twice or means nothing", row.code)
		}
		seen[row.code] = true
	}
	for kind, code := range codeOf {
		if !seen[code] || code == exitOK {
			t.Errorf("%s ends with %d, which isn't documented as a failure", kind, code)
		}
	}
}
