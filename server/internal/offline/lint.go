package offline

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/lint"
)

// Verdict is the end of a command that did its work and has told all of it: only the exit code is left to say.
type Verdict struct{ Code int }

func (v *Verdict) Error() string { return "" }

// Exit codes of lint.
const (
	lintFound  = 1
	lintUnread = 2
)

// LintFormats are the values of --output that Lint knows.
func LintFormats() []string { return []string{"table", "json", "sarif"} }

type linting struct {
	Desk
	explain, failOn, version string
	window                   time.Duration
	format                   func() string
}

// Lint is the command that finds what loses requests in Kubernetes manifests. The format is asked when it runs.
func Lint(d Desk, version string, format func() string) *cobra.Command {
	l := &linting{Desk: d, version: version, format: format}
	cmd := &cobra.Command{
		Use:   "lint FILE…|FOLDER…|-",
		Short: "Find what loses requests when a pod leaves, in Kubernetes manifests",
		Long: `Find what loses requests when a pod leaves, in Kubernetes manifests: pauses that are missing, too short or don't fit
the grace period, hooks that can't run, rollouts that take every pod at once. It reads files, folders (*.yaml, *.yml,
*.json in them) and, as -, standard input; it asks no cluster and changes nothing.

Each finding says what to write instead. A finding that is none is ignored with a reason, in a comment on or above its
line, or for a whole workload by an annotation of it:

  # eider-lint: ignore E003 our base image has busybox
  eider.dev/lint-ignore: "E003: our base image has busybox"

What a manifest can't show, annotations of the pods say: eider.dev/pauses: self (the program itself goes on serving
until its callers are gone), eider.dev/pause: 15s, eider.dev/shutdown-deadline: 20s, eider.dev/window: 22s,
eider.dev/registry: eureka (its callers find it there, though no setting shows it).

It ends with 0 if nothing was found, 1 if something was, 2 if something couldn't be read.`,
		Example: `  eider lint deployment.yaml service.yaml
  helm template . | eider lint -
  kubectl kustomize overlays/prod | eider lint -
  eider lint k8s/ --fail-on error
  eider lint k8s/ --output sarif > lint.sarif
  eider lint --explain E001`,
		Args: cobra.ArbitraryArgs,
		RunE: l.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&l.explain, "explain", "", "tell all about a `RULE`, such as E001")
	flags.StringVar(&l.failOn, "fail-on", "any", "least `SEVERITY` of a finding that ends the command with 1: any, warning, error or never")
	flags.DurationVar(&l.window, "window", 0, "how long callers call a pod that leaves, as eider window says; 0 means derived from the manifests")
	_ = cmd.RegisterFlagCompletionFunc("explain", ruleNames) // they fail for an unknown flag only
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{"any", "warning", "error", "never"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func ruleNames(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	for _, r := range lint.Rules() {
		names = append(names, r.ID+"\t"+r.Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (l *linting) run(cmd *cobra.Command, args []string) error {
	if l.explain != "" {
		rule, ok := lint.Find(l.explain)
		if !ok {
			return misuse(fmt.Errorf("--explain %q is no rule; they are %s", l.explain, ruleRange()))
		}
		return l.explained(rule)
	}
	levels := map[string]lint.Severity{"any": lint.Note, "warning": lint.Warning, "error": lint.Error, "never": ""}
	level, ok := levels[l.failOn]
	switch {
	case !ok:
		return misuse(fmt.Errorf("--fail-on %q is none of any, warning, error, never", l.failOn))
	case l.window < 0:
		return misuse(fmt.Errorf("--window %s is below 0", l.window))
	case len(args) == 0:
		return misuse(errors.New("nothing to lint: name files or folders, or - for standard input"))
	}
	sources, faults := gather(args, cmd.InOrStdin())
	report := lint.Check(sources, lint.Options{Window: l.window, Command: cmd.CommandPath()})
	report.Faults = slices.Concat(faults, report.Faults)
	if report.Faults == nil {
		report.Faults = []lint.Fault{} // JSON has a list in either case
	}
	if report.Objects > 0 || len(report.Faults) == 0 || l.format() != "table" { // nothing was found where nothing was read
		if err := l.tell(report); err != nil {
			return err
		}
	}
	for _, f := range report.Faults {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.Root().Name(), f)
	}
	switch {
	case len(report.Faults) > 0:
		return &Verdict{lintUnread}
	case level != "" && slices.ContainsFunc(report.Findings, func(f lint.Finding) bool { return f.Severity.AtLeast(level) }):
		return &Verdict{lintFound}
	}
	return nil
}

// explained tells of a rule, as a person reads it or as a program does.
func (l *linting) explained(rule lint.Rule) error {
	switch l.format() {
	case "json":
		return l.printJSON(rule)
	case "sarif":
		return misuse(errors.New("--explain has no SARIF, which is of findings; ask for --output json"))
	}
	return l.print(rule.Explain())
}

func ruleRange() string {
	rules := lint.Rules()
	return rules[0].ID + " to " + rules[len(rules)-1].ID
}

func (l *linting) tell(r lint.Report) error {
	switch l.format() {
	case "json":
		return l.printJSON(r)
	case "sarif":
		return l.printJSON(r.SARIF(l.version))
	}
	return l.print(r.Page(l.Colour(), l.Width()))
}
