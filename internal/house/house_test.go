package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The rules are trusted once each of them has been seen to bite.
func TestEachRuleBites(t *testing.T) {
	long := "package room\n\nfunc long() {\n" + strings.Repeat("\t_ = 0\n", MaxFunction) + "}\n"
	for name, c := range map[string]struct{ file, source, want string }{
		"import":    {"room/a.go", "package room\n\nimport _ \"other.example/x\"\n", "no arrow"},
		"upwards":   {"room/a.go", "package room\n\nimport _ \"m.example/above\"\n", "no arrow"},
		"room":      {"new/a.go", "package new\n", "no line in imports.txt"},
		"function":  {"room/a.go", long, "62 lines"},
		"file":      {"room/a.go", "package room\n" + strings.Repeat("// x\n", MaxFile), "at most 400"},
		"init":      {"room/a.go", "package room\n\nfunc init() {}\n", "no init"},
		"variable":  {"room/a.go", "package room\n\nvar count int\n", "package variables"},
		"name":      {"room/a.go", "package util\n", "no package is called util"},
		"sleep":     {"room/a_test.go", "package room\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", "no time.Sleep"},
		"exception": {"room/a.go", "package room\n", "no longer needed"},
		"clean":     {"room/a.go", "package room\n\nvar errX = errors.New(\"x\")\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, folder, "imports.txt", "room <- allowed.example/x # why\n")
			write(t, folder, c.file, c.source)
			if c.file != "room/a.go" {
				write(t, folder, "room/b.go", "package room\n")
			}
			rules := Rules{Module: "m.example"}
			if name == "exception" {
				rules.Exceptions = map[string]string{"room/a.go:gone": "once needed"}
			}
			broken, err := rules.Check(folder)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && len(broken) != 0 || c.want != "" && !slices.ContainsFunc(broken, func(line string) bool { return strings.Contains(line, c.want) }) {
				t.Errorf("broken = %q, want a line with %q", broken, c.want)
			}
		})
	}
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	name = filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A patch is told from one that git would refuse.
func TestMutantsThatDontApply(t *testing.T) {
	const head = "# what\ndiff --git a/room/a.go b/room/a.go\n--- a/room/a.go\n+++ b/room/a.go\n"
	for name, c := range map[string]struct{ patch, want string }{
		"applies":     {head + "@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n", ""},
		"moved":       {head + "@@ -9,2 +9,1 @@\n-three\n four\n", ""},
		"first":       {head + "@@ -1,2 +1,2 @@\n one\n-two\n+2\n three\n", ""},
		"last":        {head + "@@ -3,2 +3,1 @@\n three\n-four\n", ""},
		"gone":        {head + "@@ -2,3 +2,3 @@\n two\n-tree\n+3\n four\n", "doesn't apply to room/a.go"},
		"half a line": {head + "@@ -2,3 +2,3 @@\n wo\n-three\n+3\n four\n", "doesn't apply to room/a.go"},
		"not first":   {head + "@@ -1,2 +1,2 @@\n two\n-three\n+3\n four\n", "doesn't apply to room/a.go"},
		"not last":    {head + "@@ -2,2 +2,1 @@\n two\n-three\n", "doesn't apply to room/a.go"},
		"no file":     {strings.ReplaceAll(head, "a.go", "b.go") + "@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n", "b.go"},
		"nothing":     {head, "changes nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, folder, "room/a.go", "one\ntwo\nthree\nfour\n")
			write(t, folder, "room/testdata/mutants/m.patch", c.patch)
			broken, err := Mutants(folder)
			if err != nil {
				t.Fatal(err)
			}
			if (c.want == "") != (len(broken) == 0) || !strings.Contains(strings.Join(broken, "\n"), c.want) {
				t.Errorf("broken = %q, want %q", broken, c.want)
			}
		})
	}
}
