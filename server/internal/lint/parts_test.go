package lint

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAListIsItsItems: a list costs what its items do, and finds what they do, however it is written; one that can't be
// cut where it seems so is read whole.
func TestAListIsItsItems(t *testing.T) {
	item := strings.ReplaceAll(strings.TrimSuffix(bare1, "\n"), "\n", "\n  ") + "\n"
	deep := "  - " + strings.ReplaceAll(strings.TrimSuffix(bare1, "\n"), "\n", "\n    ") + "\n"
	for name, c := range map[string]struct {
		text    string
		cut     int // into so many parts
		want    string
		objects int
	}{
		"kubectl":         {"apiVersion: v1\nitems:\n- " + item + "- " + item + "kind: List\nmetadata:\n  resourceVersion: \"\"\n", 2, "E002@10 error, E002@21 error", 2},
		"indented":        {"---\nkind: DeploymentList\napiVersion: apps/v1\nitems:\n  # the first\n" + deep + "\n" + deep, 2, "E002@13 error, E002@25 error", 2},
		"windows":         {strings.ReplaceAll("apiVersion: v1\nkind: List\nitems:\n- "+item+"- "+item, "\n", "\r\n"), 2, "E002@11 error, E002@22 error", 2},
		"JSON":            {"{\"apiVersion\": \"v1\", \"items\": [\n" + json1 + ",\n" + json1 + "],\n\"kind\": \"List\"}\n", 2, "E002@5 error, E002@10 error", 2},
		"lists in a list": {"apiVersion: v1\nkind: List\nitems:\n- " + item + "- apiVersion: v1\n  kind: List\n  items:\n  - " + strings.ReplaceAll(item, "\n", "\n  ") + "\n", 2, "E002@11 error, E002@25 error", 2},
		"anchor":          {"apiVersion: v1\nkind: List\nitems:\n- &a\n  " + item + "- *a\n", 2, "E002@12 error", 2},
		"text":            {"apiVersion: v1\nkind: List\nitems:\n- kind: \"x\n- y\"\n- " + item, 3, "E002@13 error", 1},
		"one":             {"apiVersion: v1\nkind: List\nitems:\n- " + item, 0, "E002@11 error", 1},
		"twice":           {"apiVersion: v1\nkind: List\nitems:\n- " + item + "- " + item + "items:\n- " + item, 0, "E002@34 error", 1},
		"no list":         {"apiVersion: v1\nkind: Menu\nitems:\n- " + item + "- " + item, 0, "clean", 1},
		"JSON of no list": {"{\"apiVersion\": \"v1\", \"items\": [" + json1 + "," + json1 + "], \"kind\": \"Menu\"}", 0, "clean", 1},
		"JSON stream":     {"{\"apiVersion\": \"v1\", \"items\": [" + json1 + "," + json1 + "], \"kind\": \"List\"}\n" + json1, 0, "E002@4 error, E002@8 error, E002@13 error", 3},
	} {
		t.Run(name, func(t *testing.T) {
			cut := 0
			for doc := range split([]byte(c.text)) {
				if parts, ok := doc.cut(); ok {
					cut = len(parts)
				}
			}
			if cut != c.cut {
				t.Errorf("it is cut into %d, want %d", cut, c.cut)
			}
			r := Check([]Source{{"x", []byte(c.text)}}, Options{})
			if got := verdict(r); got != c.want || len(r.Faults) > 0 || r.Objects != c.objects {
				t.Errorf("%s of %d objects, want %s of %d; %v\n%s", got, r.Objects, c.want, c.objects, r.Faults, c.text)
			}
		})
	}
}

// TestFewAreKept: of what was read no more is kept than others ask for, and no finding keeps its workload.
func TestFewAreKept(t *testing.T) {
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "%s---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: b}\n---\n", bare1, i)
	}
	text.WriteString(strings.Replace(bare1, "      containers:\n", "      volumes: [{name: c, configMap: {name: c7}}]\n      containers:\n", 1))
	w := read([]Source{{"x", []byte(text.String())}}, Options{})
	for range w.workloads() {
	}
	kept := []string{}
	for _, o := range w.objects {
		if o.Node != nil {
			kept = append(kept, o.title())
		}
	}
	if diff := cmp.Diff([]string{"ConfigMap/c7"}, kept); diff != "" {
		t.Error(diff)
	}
	for _, f := range Check([]Source{{"x", []byte(text.String())}}, Options{}).Findings {
		if f.of != nil {
			t.Errorf("%s keeps its workload", f.Rule)
		}
	}
}

// TestFindingsAreAdded: four times the findings take four times the memory to collect, not sixteen times.
func TestFindingsAreAdded(t *testing.T) {
	probes := "        livenessProbe: {periodSeconds: a, timeoutSeconds: b, failureThreshold: c, successThreshold: d}\n"
	one := bare1 + probes + strings.ReplaceAll(probes, "liveness", "startup") + "---\n"
	taken := func(n int) uint64 {
		var before, after runtime.MemStats
		text := []byte(strings.Repeat(one, n))
		runtime.ReadMemStats(&before)
		if r := Check([]Source{{"x", text}}, Options{}); r.Workloads != n {
			t.Fatalf("%d workloads", r.Workloads)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := taken(150), taken(600); many > 7*few {
		t.Errorf("150 workloads took %d bytes, 600 took %d", few, many)
	}
}

// TestTooMuch: what is more than any manifest is refused, and said.
func TestTooMuch(t *testing.T) {
	many := "apiVersion: v1\nkind: X\ndata: [" + strings.Repeat("1,", maxNodes) + "]\n---\n" + bare1
	r := Check([]Source{{"x", []byte(many)}}, Options{})
	if len(r.Faults) != 1 || !strings.Contains(r.Faults[0].String(), "x:1: this document has more than a million values") || r.Count(Error) != 1 {
		t.Errorf("faults %v, findings %v", r.Faults, r.Findings)
	}
	w := &world{size: MaxTexts - len(bare1)}
	w.readAll([]Source{{"x", []byte(bare1)}, {"y", []byte(bare1)}})
	if len(w.faults) != 1 || w.faults[0].File != "y" || len(w.objects) != 1 {
		t.Errorf("faults %v, %d objects", w.faults, len(w.objects))
	}
}
