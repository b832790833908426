package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A survivor is told with what was run, and whether its tests never see it or sometimes do.
func TestSurvivors(t *testing.T) {
	for name, c := range map[string]struct{ test, want string }{
		"killed": {`if !kept { t.Fatal("gone") }`, ""},
		"never":  {``, "stay green, twice; to repeat it: git apply room/testdata/mutants/m.patch && (cd room && go test -count=1 -failfast -timeout 1m0s . -run TestKept)"},
		"sometimes": {`if os.Mkdir("seen", 0o700) != nil && !kept { t.Fatal("gone") }`,
			"only sometimes: green first, then red"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := t.TempDir()
			for file, text := range map[string]string{
				"go.mod":    "module m.example\n\ngo 1.25\n",
				"room/a.go": "package room\n\n// so it is\nconst kept = true\n",
				"room/a_test.go": "package room\n\nimport (\n\"os\"\n\"testing\"\n)\n\nvar _ = os.Mkdir\n\nfunc TestKept(t *testing.T) {\n" +
					c.test + "\n}\n",
				"room/testdata/mutants/m.patch": "# it isn't kept\n# run: ./room -run TestKept\ndiff --git a/room/a.go b/room/a.go\n--- a/room/a.go\n+++ b/room/a.go\n" +
					"@@ -1,4 +1,4 @@\n package room\n \n // so it is\n-const kept = true\n+const kept = false\n",
			} {
				file = filepath.Join(tree, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m, _, err := read(tree, "room/testdata/mutants/m.patch")
			if err != nil {
				t.Fatal(err)
			}
			verdict := ""
			if err := m.try(tree, time.Minute); err != nil {
				verdict = err.Error()
			}
			if (c.want == "") != (verdict == "") || !strings.Contains(verdict, c.want) {
				t.Errorf("the verdict is %q, want %q", verdict, c.want)
			}
		})
	}
}
