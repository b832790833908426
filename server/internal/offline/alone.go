package offline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// LintMain is the command lint as a program of its own; it returns the exit code.
func LintMain(version string, args []string, in io.Reader, out, errs io.Writer, getenv func(string) string) int {
	format, short := "table", false
	asked := func() string {
		if short {
			return "json"
		}
		return format
	}
	coloured := terminal(out) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	desk := Desk{Out: out, JSON: func() bool { return asked() == "json" }, Colour: func() bool { return coloured }, Width: func() int { return columns(out) }}
	cmd := Lint(desk, version, asked)
	cmd.Use = strings.Replace(cmd.Use, "lint", "eider-lint", 1)
	cmd.Example = strings.ReplaceAll(cmd.Example, "eider lint", "eider-lint")
	cmd.Version = version
	if version == "" {
		cmd.Version = "unknown"
	}
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.Flags().StringVarP(&format, "output", "o", "table", "`FORMAT` of the answer: "+strings.Join(LintFormats(), ", "))
	cmd.Flags().BoolVar(&short, "json", false, "short for --output json")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if !slices.Contains(LintFormats(), format) {
			return misuse(fmt.Errorf("--output %q is none of %s", format, strings.Join(LintFormats(), ", ")))
		}
		return run(cmd, words)
	}
	cmd.SetArgs(append([]string{}, args...)) // of nil cobra makes the words that the process was started with
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	err := cmd.Execute()
	if verdict, ok := errors.AsType[*Verdict](err); ok {
		return verdict.Code
	}
	if err != nil {
		fmt.Fprintf(errs, "eider-lint: %s\neider-lint: `eider-lint --help` shows how it is used\n", err)
		return lintUnread
	}
	return 0
}

// columns is how wide a terminal is, 0 for what is none.
func columns(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// terminal tells whether somebody looks at what is written.
func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
