package eider_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Code in the README is code of an example, which is compiled: each line of a go block stands in one.
func TestHouseReadmeCodeIsCompiled(t *testing.T) {
	examples := map[string]bool{}
	for _, name := range glob(t, "examples", ".go") {
		for line := range strings.Lines(read(t, name)) {
			examples[strings.TrimSpace(line)] = true
		}
	}
	blocks := 0
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1) {
		blocks++
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" && !examples[line] {
				t.Errorf("README.md has a line that no example has: %s", line)
			}
		}
	}
	if blocks == 0 {
		t.Error("README.md shows no code")
	}
}

// Every file that a document names is there.
func TestHouseDocumentsLinkToWhatIsThere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	documents := append(glob(t, "docs", ".md"), "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
	for _, name := range documents {
		for _, found := range link.FindAllStringSubmatch(read(t, name), -1) {
			target := found[1]
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), target)); err != nil {
				t.Errorf("%s links to %s, which isn't there", name, target)
			}
		}
	}
}

func glob(t *testing.T, folder, suffix string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, suffix) {
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs/cases.md lists every case, and what it calls held has a test and a mutant named for it.
func TestHouseCases(t *testing.T) {
	tests, mutants := map[string]bool{}, map[string]bool{}
	named := regexp.MustCompile(`func Test([DRK]\d+)[A-Z]|name: "([DRK]\d+)[A-Z]`)
	for _, name := range glob(t, ".", ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "registrytest") {
			for _, found := range named.FindAllStringSubmatch(read(t, name), -1) {
				tests[found[1]+found[2]] = true
			}
		}
	}
	for _, name := range glob(t, ".", ".patch") {
		id, _, _ := strings.Cut(filepath.Base(name), "-")
		mutants[strings.ToUpper(id)] = true
	}
	states := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([DRK]\d+) \|.*\| (held|part \(.+\)|open: .+) \|$`).FindAllStringSubmatch(read(t, "docs/cases.md"), -1) {
		states[row[1]], _, _ = strings.Cut(row[2], " ")
	}
	for letter, most := range map[string]int{"D": 22, "R": 18, "K": 22} {
		for n := 1; n <= most; n++ {
			id := letter + strconv.Itoa(n)
			switch states[id] {
			case "held", "part":
				if !tests[id] || !mutants[id] {
					t.Errorf("%s is said to be %s: test named for it: %v, mutant: %v", id, states[id], tests[id], mutants[id])
				}
			case "open:":
			default:
				t.Errorf("docs/cases.md has no row for %s, or its state is none of held, part (…), open: …", id)
			}
		}
	}
}

// What a module's code imports is a requirement of its own, and says so: `go mod tidy` keeps it.
func TestHouseRequirementsAreTidy(t *testing.T) {
	modules := glob(t, ".", "go.mod")
	if len(modules) < 4 {
		t.Fatalf("only %v", modules)
	}
	for _, mod := range modules {
		folder := filepath.Dir(mod)
		imports := map[string]bool{}
		for _, name := range glob(t, folder, ".go") {
			inner := false
			for _, other := range modules {
				dir := filepath.Dir(other)
				inner = inner || dir != folder && dir != "." && strings.HasPrefix(name, dir+"/")
			}
			if inner {
				continue
			}
			for _, found := range regexp.MustCompile(`(?m)^(?:import )?\s*(?:[\w.]+ )?"([a-z0-9.-]+\.[a-z]+/[^"]+)"$`).FindAllStringSubmatch(read(t, name), -1) {
				imports[found[1]] = true
			}
		}
		for _, found := range regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) v\S+ // indirect$`).FindAllStringSubmatch(read(t, mod), -1) {
			for path := range imports {
				if path == found[1] || strings.HasPrefix(path, found[1]+"/") {
					t.Errorf("%s calls %s indirect, and %s is imported: run go mod tidy", mod, found[1], path)
					break
				}
			}
		}
	}
}

// Every attack of docs/security.md names tests that are there.
func TestHouseAttacksHaveTheirTests(t *testing.T) {
	there := map[string]bool{}
	for _, folder := range []string{".", "server"} {
		for _, name := range glob(t, folder, "_test.go") {
			for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, name), -1) {
				there[found[1]] = true
			}
		}
	}
	_, table, _ := strings.Cut(read(t, "docs/security.md"), "| attack |")
	rows := 0
	for _, row := range regexp.MustCompile(`(?m)^\| [^-].*\|$`).FindAllString(table, -1) {
		rows++
		tests := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(row, -1)
		if len(tests) == 0 {
			t.Errorf("no test is named in: %s", row)
		}
		for _, found := range tests {
			if !there[found[1]] {
				t.Errorf("docs/security.md names %s, which isn't there", found[1])
			}
		}
	}
	if rows < 4 {
		t.Errorf("only %d attacks were found", rows)
	}
}
