package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestManifests holds every manifest of testdata to the verdict that its first line states ("# want: E001@15 error, …" or
// "# want: clean"); below it the manifest argues why. Those of testdata/rules/ID are of one rule: bad ones break it,
// good ones look as if they did.
func TestManifests(t *testing.T) {
	files := manifests(t)
	broken := map[string]bool{}
	whole := map[string]bool{}
	for _, name := range files {
		t.Run(strings.TrimPrefix(name, "testdata/"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			head, rest, _ := strings.Cut(string(text), "\n")
			want, ok := strings.CutPrefix(head, "# want: ")
			if !ok || !strings.HasPrefix(rest, "# ") {
				t.Fatal("the first line is no verdict, or the second argues for none")
			}
			report := Check([]Source{{name, text}}, Options{})
			for _, f := range report.Faults {
				t.Error(f)
			}
			if report.Objects == 0 {
				t.Error("it holds no object")
			}
			if got := verdict(report); got != want {
				t.Errorf("the verdict is\n\t%s\nand should be\n\t%s\n%s", got, want, report.Table(false))
			}
			rule := filepath.Base(filepath.Dir(name))
			if filepath.Dir(filepath.Dir(name)) != "testdata/rules" {
				return
			}
			if bad := strings.HasPrefix(filepath.Base(name), "bad"); bad != strings.Contains(want, rule) {
				t.Errorf("a file of %s with this name has a wrong verdict: %s", rule, want)
			} else if bad {
				broken[rule] = true
			} else {
				whole[rule] = true
			}
		})
	}
	for _, r := range Rules() {
		if !broken[r.ID] || !whole[r.ID] {
			t.Errorf("testdata/rules/%s has no bad manifest, or no good one", r.ID)
		}
	}
}

func manifests(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.yaml")
	more, err2 := filepath.Glob("testdata/*/*/*.yaml")
	if err != nil || err2 != nil || len(files)+len(more) == 0 {
		t.Fatal(err, err2)
	}
	return append(files, more...)
}

func verdict(r Report) string {
	var parts []string
	for _, f := range r.Findings {
		parts = append(parts, fmt.Sprintf("%s@%d %s", f.Rule, f.Line, f.Severity))
	}
	if parts == nil {
		return "clean"
	}
	return strings.Join(parts, ", ")
}

// TestRulesAreWhole: what a person reads of a rule is all there, and its examples are YAML.
func TestRulesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for i, r := range Rules() {
		if r.ID != fmt.Sprintf("E%03d", i) || seen[r.Name] || !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(r.Name) {
			t.Errorf("rule %d is called %s %q", i, r.ID, r.Name)
		}
		seen[r.Name] = true
		if r.Title == "" || r.Why == "" || r.Source == "" || r.Severity.rank() < 0 {
			t.Errorf("%s lacks its title, why, source or severity", r.ID)
		}
		if strings.HasSuffix(r.Title, ".") || !strings.HasSuffix(r.Why, ".") {
			t.Errorf("%s: a title is no sentence, a reason is", r.ID)
		}
		for _, text := range []string{r.Example, r.Patch} {
			if root, err := parse([]byte(text)); err != nil || root.Kind == 0 {
				t.Errorf("%s: %v in\n%s", r.ID, err, text)
			}
		}
	}
	for _, name := range []string{"e001", "E001", "grace-budget"} {
		if r, ok := Find(name); !ok || r.ID != "E001" {
			t.Errorf("%s isn't found", name)
		}
	}
}

// TestTable holds what a person reads of every bad manifest to a golden file: the numbers, where they stand, and the YAML.
func TestTable(t *testing.T) {
	var b strings.Builder
	for _, name := range manifests(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if r := Check([]Source{{strings.TrimPrefix(name, "testdata/"), text}}, Options{}); len(r.Findings) > 0 {
			b.WriteString(r.Table(false) + "\n")
		}
	}
	golden(t, "testdata/table.golden", b.String())
}

// TestWhatIsNotLookedAt is said: of a Rollout alone one would think that nothing was found.
func TestWhatIsNotLookedAt(t *testing.T) {
	text := strings.Replace(bare1, "kind: Deployment", "kind: Rollout", 1)
	r := Check([]Source{{"x.yaml", []byte(text + "---\n" + text + "---\n" + strings.Replace(bare1, "kind: Deployment", "kind: Job", 1))}}, Options{})
	const want = "nothing found: 0 workloads that serve among 3 objects; not looked at: 2 of kind Rollout"
	if got := r.Summary(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	many := strings.Builder{}
	for i := range 2 * maxKinds {
		many.WriteString(strings.Replace(text, "Rollout", fmt.Sprintf("Rollout%d", i), 1) + "---\n")
	}
	if n := len(Check([]Source{{"x.yaml", []byte(many.String())}}, Options{}).Unchecked); n != maxKinds {
		t.Errorf("%d kinds are named", n)
	}
}

// TestRolloutOfNothing: a Rollout whose Deployment isn't there has no pods to look at, which is said; others' Rollouts are
// other kinds.
func TestRolloutOfNothing(t *testing.T) {
	for group, want := range map[string]string{
		"argoproj.io/v1alpha1":  "nothing found: 0 workloads that serve among 1 object; not looked at: 1 of kind Rollout (its Deployment isn't here)",
		"rollouts.kruise.io/v1": "nothing found: 0 workloads that serve among 1 object",
	} {
		text := "apiVersion: " + group + "\nkind: Rollout\nmetadata: {name: a}\nspec: {workloadRef: {kind: Deployment, name: b}}\n"
		if got := Check([]Source{{"x", []byte(text)}}, Options{}).Summary(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", group, got, want)
		}
	}
}

// TestCallersAreAssumed once: a callee's own intervals are its callers' only if somebody has given them the same.
func TestCallersAreAssumed(t *testing.T) {
	text, err := os.ReadFile("testdata/rules/E012/good-fits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := Check([]Source{{"a.yaml", text}, {"b.yaml", []byte(strings.ReplaceAll(string(text), "name: orders", "name: bills"))}}, Options{})
	if strings.Count(r.Table(false), "all callers are set as Deployment/orders is: EUREKA_CLIENT_REGISTRY_FETCH_INTERVAL_SECONDS (line") != 1 || !strings.Contains(r.Assumed, "1 other)") {
		t.Errorf("it says %q", r.Assumed)
	}
	if r := Check([]Source{{"a.yaml", text}}, Options{Window: time.Second}); r.Assumed != "" {
		t.Errorf("with a window that is declared it says %q", r.Assumed)
	}
	if r := Check([]Source{{"a.yaml", []byte(bare1)}}, Options{}); r.Assumed != "" {
		t.Errorf("without Eureka it says %q", r.Assumed)
	}
}

// TestPage: on a terminal no word is cut, and what one copies is whole.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("testdata/charts/petclinic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := Check([]Source{{"x.yaml", text}}, Options{})
	hooks := 0
	for line := range strings.Lines(r.Page(false, 80)) {
		line = strings.TrimSuffix(line, "\n")
		bare := strings.TrimSpace(line)
		if strings.HasPrefix(bare, "lifecycle: ") {
			hooks++
			if node, err := parse([]byte(bare)); err != nil || node.Kind == 0 || !strings.HasSuffix(bare, "}}}") {
				t.Errorf("a hook is cut: %v in %s", err, line)
			}
			continue
		}
		if len(line) > 80 && strings.Contains(bare, " ") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if hooks == 0 {
		t.Error("there is no hook")
	}
	if words := strings.Fields(strings.ReplaceAll(r.Page(false, 80), "# ", "")); len(words) != len(strings.Fields(strings.ReplaceAll(r.Table(false), "# ", ""))) {
		t.Errorf("words got lost:\n%s", r.Page(false, 80))
	}
}
