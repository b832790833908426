package lint

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// pauses are the rules whose patches are a hook and a grace period.
var pauses = []string{"E001", "E002", "E003", "E004", "E012", "E014", "E018", "E021"}

// TestPatches: who writes what lint says, each line where its comment says, has a manifest in which the same rules find
// nothing more: one grace period, one pause, for all of them.
func TestPatches(t *testing.T) {
	patched := 0
	for _, name := range append(manifests(t), "../offline/testdata/orders.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		before := Check([]Source{{name, text}}, Options{})
		after := text
		for _, f := range before.Findings {
			if slices.Contains(pauses, f.Rule) {
				after = write(t, after, f)
				patched++
			}
		}
		report := Check([]Source{{name, after}}, Options{})
		for _, f := range report.Findings {
			if slices.Contains(pauses, f.Rule) {
				t.Errorf("%s, as its findings have it:\n%s\n\nstill has\n%+v", name, after, f)
			}
		}
		for _, f := range report.Faults {
			t.Errorf("%s: %s\n%s", name, f, after)
		}
		if len(after) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
	if patched < 20 {
		t.Errorf("%d patches were written", patched)
	}
}

// write puts the lines of a finding's patch where they say that they go: into the container that the message names, or
// the pods' spec or metadata.
func write(t *testing.T, text []byte, f Finding) []byte {
	t.Helper()
	kind, name, _ := strings.Cut(f.Object, "/")
	var out strings.Builder
	for _, doc := range split(text) {
		var o map[string]any
		if err := yaml.Unmarshal(doc.text, &o); err != nil {
			t.Fatal(err)
		}
		metadata, _ := o["metadata"].(map[string]any)
		if o["kind"] == kind && metadata["name"] == name {
			for row := range strings.Lines(f.Patch) {
				writeRow(t, o, f, row)
			}
		}
		back, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(o) > 0 {
			out.WriteString("---\n" + string(back))
		}
	}
	return []byte(out.String())
}

func writeRow(t *testing.T, o map[string]any, f Finding, row string) {
	t.Helper()
	_, comment, _ := strings.Cut(row, "  # ")
	template := o
	if o["kind"] != "Pod" {
		template = o["spec"].(map[string]any)["template"].(map[string]any)
	}
	pod := template["spec"].(map[string]any)
	var at map[string]any
	switch {
	case strings.HasPrefix(comment, ofPods):
		at = template["metadata"].(map[string]any)
	case strings.HasPrefix(comment, ofPod):
		at = pod
	case strings.HasPrefix(comment, ofContainer):
		for _, c := range pod["containers"].([]any) {
			if c := c.(map[string]any); at == nil || strings.Contains(f.Message, "container "+c["name"].(string)+" ") {
				at = c
			}
		}
	default:
		t.Errorf("%s %s doesn't say where its patch goes: %q", f.File, f.Rule, row)
		return
	}
	var keys map[string]any
	if err := yaml.Unmarshal([]byte(row), &keys); err != nil {
		t.Errorf("%v: %s", err, row)
	}
	if old, ok := at["annotations"].(map[string]any); ok && keys["annotations"] != nil {
		maps.Copy(old, keys["annotations"].(map[string]any))
		return
	}
	maps.Copy(at, keys)
}

// TestTheHookHoldsForEveryImage: what lint writes for a client of Eureka it finds nothing in, whatever the image is.
func TestTheHookHoldsForEveryImage(t *testing.T) {
	text, err := os.ReadFile("../offline/testdata/orders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"registry.example.com/orders:1.4.2", "orders", "eclipse-temurin:21-jre", "orders:1-alpine", "ghcr.io/a/b@sha256:0a",
		"gcr.io/distroless/java21-debian12", "paketobuildpacks/run-jammy-tiny"} {
		after := []byte(strings.Replace(string(text), "image: example/orders:1", "image: "+image, 1))
		before := Check([]Source{{"x", after}}, Options{})
		if len(before.Findings) == 0 || string(after) == string(text) {
			t.Errorf("%s: nothing to mend", image)
		}
		for _, f := range before.Findings {
			after = write(t, after, f)
		}
		if r := Check([]Source{{"x", after}}, Options{}); len(r.Findings) > 0 {
			t.Errorf("%s:\n%s\n%s", image, after, r.Table(false))
		}
	}
}
