package offline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocsSayWhatTheCommandSays: in docs/window.md and README.md a block that begins with "$ eider window" or lint goes on with what
// that command says; a line "…" stands for some that are left out.
func TestDocsSayWhatTheCommandSays(t *testing.T) {
	for _, name := range []string{filepath.Join(docs, "window.md"), filepath.Join(docs, "..", "README.md")} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parts, blocks := strings.Split(string(page), "```"), 0
		for i := 1; i < len(parts); i += 2 {
			_, block, _ := strings.Cut(parts[i], "\n")
			line, said, _ := strings.Cut(block, "\n")
			line, window := strings.CutPrefix(line, "$ eider window")
			line, lint := strings.CutPrefix(line, "$ eider lint ")
			if !window && !lint {
				continue
			}
			blocks++
			say := place{width: 118}.run
			if lint {
				say = lintSays
			}
			out, err := say(strings.TrimSpace(line))
			if err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
			}
			if strings.Contains(said, "…\n") {
				excerpt(t, name+": "+line, said, out)
				continue
			}
			parts[i] = strings.TrimSuffix(parts[i], said) + out // said is empty in a block that is new
		}
		if blocks == 0 {
			t.Errorf("%s shows no eider window", name)
		}
		golden(t, name, []byte(strings.Join(parts, "```")))
	}
}

// lintSays is what eider lint says of a manifest of the tests, as if it lay in the folder that the command runs in.
func lintSays(manifest string) (string, error) {
	folder := "testdata"
	if _, err := os.Stat(filepath.Join(folder, manifest)); err != nil {
		folder = filepath.Join("..", "lint", "testdata", "s8")
	}
	var out strings.Builder
	cmd := Lint(Desk{Out: &out, Colour: func() bool { return false }, Width: func() int { return 0 }}, "", func() string { return "table" })
	cmd.SetArgs([]string{filepath.Join(folder, manifest)})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	if _, found := errors.AsType[*Verdict](err); found {
		err = nil
	}
	return strings.ReplaceAll(out.String(), folder+string(filepath.Separator), ""), err
}

// excerpt demands that the lines of each part are in the output, one part behind the other.
func excerpt(t *testing.T, of, said, out string) {
	t.Helper()
	rest := "\n" + out
	for part := range strings.SplitSeq("\n"+said, "…\n") {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Errorf("%s doesn't say, or not in this order:\n%s\nIt says:\n%s", of, part, out)
			return
		}
		rest = "\n" + after
	}
}

// TestWindowAndLintSayTheSame: what to set is one number, whichever of the two is asked.
func TestWindowAndLintSayTheSame(t *testing.T) {
	o := answer(t, "--preset eureka")
	said, err := lintSays("orders.yaml")
	for _, want := range []string{fmt.Sprintf("sleep %d'", whole(o.Recommend.Sleep)), fmt.Sprintf("terminationGracePeriodSeconds: %d ", whole(o.Recommend.Grace))} {
		if err != nil || !strings.Contains(said, want) {
			t.Errorf("eider window says %q and lint doesn't (%v):\n%s", want, err, said)
		}
	}
}
