package offline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiderhq/eider/server/internal/lint"
)

// ended is what a run of eider-lint left.
type ended struct {
	code      int
	out, errs string
}

func linted(t *testing.T, in string, args ...string) ended {
	t.Helper()
	var out, errs strings.Builder
	code := LintMain("v1.2.3", args, strings.NewReader(in), &out, &errs, func(string) string { return "" })
	return ended{code, out.String(), errs.String()}
}

const s8 = "../lint/testdata/s8/"

func TestLintExitCodes(t *testing.T) {
	none, err := os.ReadFile(s8 + "none.yaml")
	if err != nil {
		t.Fatal(err)
	}
	statefulset := strings.Replace(string(none), "Deployment", "StatefulSet", 1) // E002 is a warning there
	for name, c := range map[string]struct {
		in   string
		args []string
		code int
		says string // on standard error, or else on standard output
	}{
		"clean":             {args: []string{s8 + "good.yaml"}, says: "nothing found: 1 workload that serves among 2 objects"},
		"found":             {args: []string{s8 + "short.yaml"}, code: 1, says: "E001"},
		"stdin":             {in: string(none), args: []string{"-"}, code: 1, says: "stdin:17  error  E002"},
		"stdin is empty":    {args: []string{"-"}, code: 2, says: "stdin holds no Kubernetes object"},
		"folder":            {args: []string{s8}, code: 1, says: s8 + "shell.yaml"},
		"missing":           {args: []string{s8 + "good.yaml", "nowhere.yaml"}, code: 2, says: "eider-lint: nowhere.yaml can't be read"},
		"missing and found": {args: []string{"nowhere.yaml", s8 + "none.yaml"}, code: 2, says: "eider-lint: nowhere.yaml can't be read"},
		"unreadable":        {in: "a: [\n---\n" + string(none), args: []string{"-"}, code: 2, says: "eider-lint: stdin:1: this document isn't YAML"},
		"nothing named":     {code: 2, says: "nothing to lint"},
		"fail on error":     {args: []string{"--fail-on", "error", s8 + "none.yaml"}, code: 1, says: "E002"},
		"fail on never":     {args: []string{"--fail-on", "never", s8 + "none.yaml"}, says: "E002"},
		"warning passes":    {in: statefulset, args: []string{"--fail-on", "error", "-"}, says: "warning  E002"},
		"warning fails":     {in: statefulset, args: []string{"--fail-on", "warning", "-"}, code: 1, says: "warning  E002"},
		"any fails":         {in: statefulset, args: []string{"-"}, code: 1, says: "1 warning in 1 workload"},
		"fail on nonsense":  {args: []string{"--fail-on", "sometimes", "-"}, code: 2, says: `--fail-on "sometimes" is none of`},
		"window":            {args: []string{"--window", "20s", s8 + "good.yaml"}, code: 1, says: "E004"},
		"negative window":   {args: []string{"--window", "-2s", s8 + "good.yaml"}, code: 2, says: "below 0"},
		"explain":           {args: []string{"--explain", "e003"}, says: "E003 hook-cannot-run: "},
		"explain as JSON":   {args: []string{"--explain", "E003", "--json"}, says: "\"id\": \"E003\",\n  \"name\": \"hook-cannot-run\","},
		"explain as SARIF":  {args: []string{"--explain", "E003", "-o", "sarif"}, code: 2, says: "ask for --output json"},
		"in its own name":   {args: []string{s8 + "none.yaml"}, code: 1, says: "`eider-lint --explain E002`"},
		"template":          {in: "{{- if .a }}\na: b\n{{- end }}\n", args: []string{"-"}, code: 2, says: "`helm template . | eider-lint -`"},
		"explain nonsense":  {args: []string{"--explain", "E999"}, code: 2, says: "they are E000 to "},
		"format nonsense":   {args: []string{"-o", "xml", "-"}, code: 2, says: `--output "xml" is none of`},
		"flag nonsense":     {args: []string{"--nope"}, code: 2, says: "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			got := linted(t, c.in, c.args...)
			if got.code != c.code {
				t.Errorf("ended with %d, want %d\n%s%s", got.code, c.code, got.out, got.errs)
			}
			said := got.out
			if c.code == 2 {
				said = got.errs
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("said\n%s\nwithout %q", said, c.says)
			}
		})
	}
}

// TestLintTakesItsOwnWords: without any it doesn't take those that the process was started with, as -update of a test.
func TestLintTakesItsOwnWords(t *testing.T) {
	all := os.Args
	os.Args = []string{"offline.test", "--nope"}
	defer func() { os.Args = all }()
	if got := linted(t, ""); !strings.Contains(got.errs, "nothing to lint") {
		t.Errorf("%+v", got)
	}
}

// TestLintFolder: what isn't a manifest by its name isn't read, nor what a link leads out to.
func TestLintFolder(t *testing.T) {
	outside, folder := t.TempDir(), t.TempDir()
	none, err := os.ReadFile(s8 + "none.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, none, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.yaml", "b.yml", "UP.YAML", "deep/er/c.json", "d.txt", ".git/e.yaml"} {
		write(filepath.Join(folder, name))
	}
	write(filepath.Join(outside, "secret.yaml"))
	for to, from := range map[string]string{"out.yaml": filepath.Join(outside, "secret.yaml"), "outer": outside, "in.yaml": "a.yaml", "loop": ".", "lost.yaml": "nowhere"} {
		if err := os.Symlink(from, filepath.Join(folder, to)); err != nil {
			t.Skip(err)
		}
	}
	got := linted(t, "", "-o", "json", folder)
	var report lint.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != 2 {
		t.Fatalf("%d %v\n%s%s", got.code, err, got.out, got.errs)
	}
	found := map[string]bool{}
	for _, f := range report.Findings {
		name, _ := filepath.Rel(folder, f.File)
		found[filepath.ToSlash(name)] = true
	}
	for _, name := range []string{"a.yaml", "b.yml", "UP.YAML", "deep/er/c.json", "in.yaml"} {
		if !found[name] {
			t.Errorf("%s wasn't linted", name)
		}
		delete(found, name)
	}
	for name := range found {
		t.Errorf("%s was linted", name)
	}
	unread := map[string]string{"out.yaml": "leads out of the folder", "outer": "leads out of the folder", "lost.yaml": "no such file"}
	for _, f := range report.Faults {
		name, _ := filepath.Rel(folder, f.File)
		if want, ok := unread[name]; !ok || !strings.Contains(f.Message, want) {
			t.Errorf("a fault: %v", f)
		}
		delete(unread, name)
	}
	if len(unread) > 0 {
		t.Errorf("nothing is said of %v", unread)
	}
}

// TestLintOfNothing ends with 2 and says on standard error alone why: a folder without manifests isn't a clean one.
func TestLintOfNothing(t *testing.T) {
	empty, hidden := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(hidden, ".hidden"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hidden, ".hidden", "a.yaml"), []byte("a: b"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{empty}, {hidden}, {empty, "nowhere.yaml"}} {
		got := linted(t, "", args...)
		if got.code != 2 || got.out != "" || !strings.Contains(got.errs, "no *.yaml, *.yml or *.json") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if got := linted(t, "", empty, s8+"good.yaml"); got.code != 2 || !strings.Contains(got.out, "nothing found: 1 workload") {
		t.Errorf("beside a good one: %+v", got)
	}
	if got := linted(t, "", "--json", s8+"good.yaml"); got.code != 0 || !strings.Contains(got.out, `"faults": []`) {
		t.Errorf("without faults: %+v", got)
	}
}

// TestLintWritesNoTerminalCodes: a manifest is a stranger's, and so is its name.
func TestLintWritesNoTerminalCodes(t *testing.T) {
	none, err := os.ReadFile(s8 + "none.yaml")
	if err != nil {
		t.Fatal(err)
	}
	evil := strings.ReplaceAll(string(none), "name: orders\n        image", "name: \"or\\e[2Jders\\a\"\n        image")
	for _, args := range [][]string{{"-"}, {"-", "\x1b[2Jnowhere"}} {
		got := linted(t, evil, args...)
		if got.code == 0 || strings.ContainsAny(got.out+got.errs, "\x1b\a") {
			t.Errorf("%q wrote %q %q", args, got.out, got.errs)
		}
	}
}

// TestLintColours: on a terminal only.
func TestLintColours(t *testing.T) {
	coloured := func(colour bool) string {
		var out strings.Builder
		cmd := Lint(Desk{Out: &out, Colour: func() bool { return colour }, Width: func() int { return 0 }}, "", func() string { return "table" })
		cmd.SetArgs([]string{s8 + "none.yaml"})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err == nil {
			t.Error("nothing was found")
		}
		return out.String()
	}
	if text := coloured(true); !strings.Contains(text, "\x1b[31merror\x1b[0m") {
		t.Errorf("no colours: %q", text)
	}
	if text := coloured(false); strings.Contains(text, "\x1b") {
		t.Errorf("colours: %q", text)
	}
}
