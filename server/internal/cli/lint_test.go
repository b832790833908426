package cli

import (
	"strings"
	"testing"
)

// TestLintNamesItsFormats, of which one is its own.
func TestLintNamesItsFormats(t *testing.T) {
	a := &app{Process: Process{Getenv: func(string) string { return "" }, Out: &printed{}, Err: &printed{}}}
	cmd, _, err := a.root().Find([]string{"lint"})
	if err != nil || !strings.Contains(cmd.LocalFlags().FlagUsages(), "table, json, sarif") {
		t.Errorf("%v: --help doesn't say what --output takes:\n%s", err, cmd.LocalFlags().FlagUsages())
	}
	a.output = "xml"
	if err := a.checkOutput(cmd); err == nil || !strings.Contains(err.Error(), "none of table, json, sarif") {
		t.Errorf("xml: %v", err)
	}
}
