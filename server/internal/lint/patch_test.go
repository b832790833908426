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
var pauses = []string{"E001", "E002", "E003", "E004", "E012", "E014", "E015", "E018", "E019", "E021"}

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
	for doc := range split(text) {
		var o map[string]any
		if err := yaml.Unmarshal(doc.text, &o); err != nil {
			t.Fatal(err)
		}
		metadata, _ := o["metadata"].(map[string]any)
		if o["kind"] == kind && metadata["name"] == name {
			rows := strings.Split(f.Patch, "\n")
			for i := 0; i < len(rows); i++ {
				if row := rows[i]; strings.HasPrefix(row, "- --") {
					writeArgument(o, f, row)
				} else if strings.HasPrefix(row, "- ") {
					i++
					writeEntry(t, o, f, row+"\n"+rows[i])
				} else if !strings.HasPrefix(row, "env:") && row != guard {
					writeRow(t, o, f, row)
				}
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

// containerOf is the one that a finding's message names, or else the first.
func containerOf(pod map[string]any, f Finding) (at map[string]any) {
	for _, c := range pod["containers"].([]any) {
		if c := c.(map[string]any); at == nil || strings.Contains(f.Message, "container "+c["name"].(string)+" ") {
			at = c
		}
	}
	return at
}

func podOf(o map[string]any) (template, pod map[string]any) {
	template = o
	if o["kind"] != "Pod" {
		template = o["spec"].(map[string]any)["template"].(map[string]any)
	}
	return template, template["spec"].(map[string]any)
}

// writeArgument puts an argument in the place of the one of its name.
func writeArgument(o map[string]any, f Finding, row string) {
	row, _, _ = strings.Cut(strings.TrimPrefix(row, "- "), "  # ")
	name, _, _ := strings.Cut(row, "=")
	_, pod := podOf(o)
	args, _ := containerOf(pod, f)["args"].([]any)
	for i, arg := range args {
		if strings.HasPrefix(arg.(string), name+"=") {
			args[i] = row
		}
	}
}

// writeEntry puts an entry into the container's env, in place of one of its name.
func writeEntry(t *testing.T, o map[string]any, f Finding, text string) {
	t.Helper()
	var entries []map[string]any
	if err := yaml.Unmarshal([]byte(text), &entries); err != nil || len(entries) != 1 || !strings.Contains(text, "  # in the container's env") {
		t.Fatalf("%v: no entry that says where it goes: %s", err, text)
	}
	_, pod := podOf(o)
	c := containerOf(pod, f)
	old, _ := c["env"].([]any)
	if len(old) == 0 && !strings.Contains(f.Patch, "env:  # ") {
		t.Errorf("%s says nothing of env: %s", f.Rule, f.Patch)
	}
	old = slices.DeleteFunc(old, func(e any) bool { return e.(map[string]any)["name"] == entries[0]["name"] })
	c["env"] = append(old, entries[0])
	if _, ok := entries[0]["value"].(string); !ok {
		t.Errorf("%s: a value of env is a string: %s", f.Rule, text)
	}
}

func writeRow(t *testing.T, o map[string]any, f Finding, row string) {
	t.Helper()
	_, comment, _ := strings.Cut(row, "  # ")
	template, pod := podOf(o)
	var at map[string]any
	switch {
	case strings.HasPrefix(comment, ofPods):
		at = template["metadata"].(map[string]any)
	case strings.HasPrefix(comment, ofPod):
		at = pod
	case strings.HasPrefix(comment, ofContainer):
		at = containerOf(pod, f)
	case strings.HasPrefix(comment, "in httpGet of the "):
		probe := containerOf(pod, f)[strings.TrimPrefix(comment, "in httpGet of the ")].(map[string]any)
		at = probe["httpGet"].(map[string]any)
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
