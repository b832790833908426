package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const bare1 = `apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  template:
    spec:
      containers:
      - name: orders
        image: orders
        ports: [{containerPort: 80}]
        readinessProbe: {tcpSocket: {port: 80}}
`

const json1 = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "or\ud83d\ude00ders"},
  "spec": {"template": {"spec": {
    "containers": [
      {"name": "orders", "image": "orders", "readinessProbe": {"tcpSocket": {"port": 80}},
       "ports": [{"containerPort": 80}]}]}}}}`

// TestRead: the shapes that manifests come in, each with its line.
func TestRead(t *testing.T) {
	indented := strings.ReplaceAll(strings.TrimSuffix(bare1, "\n"), "\n", "\n  ")
	for name, c := range map[string]struct{ text, want string }{
		"plain":             {bare1, "E002@8 error"},
		"byte order mark":   {"\xef\xbb\xbf" + bare1, "E002@8 error"},
		"utf-16":            {utf16le("\ufeff---\na: b\n---\n" + bare1), "E002@11 error"},
		"utf-16, no mark":   {utf16le(bare1), "E002@8 error"},
		"utf-16, big end":   {swapped(utf16le("\ufeff" + bare1)), "E002@8 error"},
		"windows":           {strings.ReplaceAll(bare1, "\n", "\r\n"), "E002@8 error"},
		"helm":              {"---\n# Source: shop/templates/orders.yaml\n" + bare1, "E002@10 error"},
		"stream":            {"---\na: b\n---\n" + bare1 + "---\n" + bare1, "E002@11 error, E002@23 error"},
		"marker with tag":   {"--- # the first\n" + bare1 + "...\n# between\n" + bare1, "E002@9 error, E002@22 error"},
		"directive":         {"%YAML 1.1\n---\n" + bare1, "E002@10 error"},
		"marker in text":    {"a: |\n  ---\n  b\n---\n" + bare1, "E002@12 error"},
		"list":              {"apiVersion: v1\nkind: List\nitems:\n- " + indented, "E002@11 error"},
		"list of lists":     {"apiVersion: v1\nkind: DeploymentList\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - " + strings.ReplaceAll(indented, "\n", "\n  "), "E002@14 error"},
		"json":              {json1, "E002@4 error"},
		"json stream":       {json1 + "\n" + json1, "E002@4 error, E002@9 error"},
		"json in a stream":  {"---\n" + json1 + "\n---\n" + bare1, "E002@5 error, E002@15 error"},
		"flow that is YAML": {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: x},\n spec: {template: {spec: {containers: [\n {name: x, image: x, ports: [{containerPort: 1}], readinessProbe: {}}]}}}}", "E002@3 error"},
		"anchor":            {strings.Replace(bare1, "- name: orders", "- &c\n        name: orders", 1) + "      - *c\n", "E002@8 error"},
		"merge":             {"x: &x\n  image: orders\n  ports: [{containerPort: 80}]\n  readinessProbe: {}\n" + strings.Replace(bare1, "        image: orders\n        ports: [{containerPort: 80}]\n        readinessProbe: {tcpSocket: {port: 80}}\n", "        <<: *x\n", 1), "E002@12 error"},
		"merge of many":     {"x: &x\n  image: orders\ny: &y {ports: [{containerPort: 80}], readinessProbe: {}}\n" + strings.Replace(bare1, "        image: orders\n        ports: [{containerPort: 80}]\n        readinessProbe: {tcpSocket: {port: 80}}\n", "        <<: [*x, *y]\n", 1), "E002@11 error"},
		"last key counts":   {strings.Replace(bare1, "        image: orders\n", "        image: orders\n        ports: []\n", 1), "E002@8 error"},
		"nothing":           {"a: b", "clean"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Check([]Source{{"x.yaml", []byte(c.text)}}, Options{})
			if name == "nothing" {
				if len(r.Faults) != 1 || !strings.Contains(r.Faults[0].Message, "no Kubernetes object") {
					t.Errorf("faults: %v", r.Faults)
				}
				r.Faults = nil
			}
			if got := verdict(r); got != c.want || len(r.Faults) > 0 {
				t.Errorf("%s, want %s; %v\n%s", got, c.want, r.Faults, c.text)
			}
		})
	}
}

// utf16le is ASCII, or a mark and ASCII, as PowerShell writes it.
func utf16le(text string) string {
	var b strings.Builder
	for _, r := range text {
		b.Write([]byte{byte(r), byte(r >> 8)})
	}
	return b.String()
}

func swapped(text string) string {
	out := []byte(text)
	for i := 0; i+1 < len(out); i += 2 {
		out[i], out[i+1] = out[i+1], out[i]
	}
	return string(out)
}

// TestFaults: what can't be read is said with its line, and the rest is linted.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"middle":     {bare1 + "---\na:\n  - b\n c\n---\n" + bare1, "x.yaml:13: this document isn't YAML: "},
		"tab":        {"a: b\n---\na:\n\tb: c\n---\n" + bare1, "x.yaml:4: this document isn't YAML: "},
		"template":   {"{{- if .Values.a }}\na: b\n{{- end }}\n---\n" + bare1, "helm template . | eider lint -"},
		"binary":     {"\x7fELF\x02\x00{{\x00" + bare1, "x.yaml isn't text"},
		"bad anchor": {"a: *b\n---\n" + bare1, "unknown anchor"},
		"laughs":     {laughs(12) + "---\n" + bare1, "x.yaml:1: the aliases of this document stand for"},
		"circle":     {"a: &a [*a]\n---\n" + bare1, "x.yaml:1: "},
		"lists":      {strings.Repeat("{apiVersion: v1, kind: List, items: [", 12) + strings.Repeat("]}", 12) + "\n---\n" + bare1, "lists within lists"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Check([]Source{{"x.yaml", []byte(c.text)}}, Options{})
			if len(r.Faults) != 1 || !strings.Contains(r.Faults[0].String(), c.want) {
				t.Errorf("faults %v, want %q", r.Faults, c.want)
			}
			if name == "binary" {
				return // of which nothing can be said
			}
			if n := r.Count(Error); n == 0 || n != strings.Count(c.text, bare1) {
				t.Errorf("%d findings beside the fault", n)
			}
		})
	}
}

// TestTemplatesThatAreYAML: what a template still has to fill in reads as YAML, of maps that are keys; it is a fault, and never
// a workload less. What may hold braces may go on.
func TestTemplatesThatAreYAML(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(bare1, old, new, 1) }
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"image":           {with("image: orders", "image: {{ .Values.image }}"), 9},
		"part of it":      {with("image: orders", "image: orders:{{ .Values.tag }}"), 9},
		"in quotes":       {with("image: orders", `image: "{{ .Values.image }}:{{ .Values.tag }}"`), 9},
		"replicas":        {with("spec:\n  template", "spec:\n  replicas: {{ .Values.replicas }}\n  template"), 5},
		"function":        {with("name: orders}", "name: orders, namespace: x}\n# a comment") + "status: {{ quote .x }}\n", 13},
		"item":            {with("[{containerPort: 80}]", "\n        - {{ .Values.port }}"), 11},
		"key":             {with("ports: [{containerPort: 80}]", "{{ .Values.key }}: x"), 10},
		"annotation":      {with("metadata: {name: orders}", "metadata:\n  name: orders\n  annotations:\n    a: {{ .Values.a }}"), 6},
		"name":            {with("metadata: {name: orders}", "metadata:\n  name: x-{{ .Release.Name }}"), 4},
		"list":            {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(with("image: orders", "image: {{ .a }}"), "\n", "\n  "), 12},
		"Service":         {"apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Release.Name }}\n", 4},
		"said by others":  {with("metadata: {name: orders}", "metadata:\n  name: orders\n  annotations:\n    vault: ok {{ with secret }}\n    a: '{{ b }}'"), 0},
		"argument":        {with("image: orders", "image: orders\n        args: [a, '{{.x}}']\n        command:\n        - --format=a{{.Name}}\n        env:\n        - name: x\n          value: a{{b}}"), 0},
		"block of text":   {with("image: orders", "image: orders\n        workingDir: |-\n          {{ x }}"), 0},
		"one brace apart": {with("image: orders", "image: orders\n        resources: {limits: {cpu: 1}}"), 0},
		"ConfigMap":       {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: x {{ b }}\n  c: |\n    {{ d }}\n---\n" + bare1, 0},
		"JSON":            {strings.Replace(json1, `"name": "or`, `"annotations": {"a": "{{ b }}"}, "labels": {"b": "{{c}}"}, "name": "or`, 1), 0},
	} {
		r := Check([]Source{{"x.yaml", []byte(c.text)}}, Options{})
		if c.line == 0 {
			if len(r.Faults) > 0 || r.Workloads != 1 {
				t.Errorf("%s: %d workloads, %v", name, r.Workloads, r.Faults)
			}
			continue
		}
		if len(r.Faults) != 1 || r.Faults[0].Line != c.line || !strings.Contains(r.Faults[0].Message, "`helm template . | eider lint -`") || len(r.Findings) > 0 {
			t.Errorf("%s: %v, want one of line %d; %v", name, r.Faults, c.line, r.Findings)
		}
	}
}

// TestHelmSaysFromWhat: of what Helm has rendered a finding names the template, in its own document and in no other.
func TestHelmSaysFromWhat(t *testing.T) {
	r := Check([]Source{{"-", []byte(bare1 + "---\n# Source: shop/templates/orders.yaml\n" + bare1 + "---\n# a comment\n" + bare1)}, {"x", []byte(bare1)}}, Options{})
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.Template)
	}
	if want := []string{"", "shop/templates/orders.yaml", "", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q\n%s", got, want, r.Table(false))
	}
	if !strings.Contains(r.Table(false), "Deployment/orders  shop/templates/orders.yaml\n") {
		t.Error(r.Table(false))
	}
}

// laughs is a document of a few lines that stands for 10^n containers.
func laughs(n int) string {
	var b strings.Builder
	b.WriteString("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nl0: &l0 {name: x, image: x, ports: [{containerPort: 1}]}\n")
	for i := range n {
		fmt.Fprintf(&b, "l%d: &l%d [%s*l%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*l%d, ", i), 9), i)
	}
	fmt.Fprintf(&b, "spec: {template: {spec: {containers: *l%d}}}\n", n)
	return b.String()
}

// TestTooLong: what is longer than any manifest is refused, and costs nothing.
func TestTooLong(t *testing.T) {
	r := Check([]Source{{"big.yaml", make([]byte, MaxText+1)}, {"x.yaml", []byte(bare1)}}, Options{})
	if len(r.Faults) != 1 || !strings.Contains(r.Faults[0].String(), "lint it in parts") || r.Count(Error) != 1 {
		t.Errorf("faults %v, findings %v", r.Faults, r.Findings)
	}
}

// TestDeep: neither parser falls into a stranger's pit.
func TestDeep(t *testing.T) {
	for name, text := range map[string]string{
		"json":       strings.Repeat(`{"a":`, 50_000),
		"json whole": strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
		"json list":  `{"a":` + strings.Repeat(`[`, 50_000),
		"flow":       strings.Repeat("[", 50_000),
		"dashes":     strings.Repeat("- ", 20_000),
		"question":   strings.Repeat("? ", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			r := Check([]Source{{"x", []byte(text)}}, Options{})
			if len(r.Faults) != 1 || !strings.Contains(r.Faults[0].Message, "isn't YAML") {
				t.Errorf("it was read: %v", r.Faults)
			}
		})
	}
}

// FuzzLint: nothing that strangers write makes it panic, hang, or point to a line that isn't there.
func FuzzLint(f *testing.F) {
	for _, text := range []string{bare1, json1, laughs(3), "a: &a [*a]", "%YAML 9\n---\n{{", "? - - a\n: b", "\"\\ud800\"", "{\"a\": \"\\ud800\"}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := Check([]Source{{"x", text}}, Options{})
		lines := strings.Count(string(text), "\n") + 1
		for _, found := range r.Findings {
			if found.Line < 1 || found.Line > lines {
				t.Errorf("%v points past the %d lines", found, lines)
			}
			if rule, ok := Find(found.Rule); !ok || found.Message == "" || found.Severity.rank() < 0 || rule.ID != found.Rule {
				t.Errorf("%+v isn't whole", found)
			}
		}
		if strings.ContainsRune(r.Table(false), '\x1b') {
			t.Error("the table has a terminal's code")
		}
	})
}

// TestOthersAreForgotten: the tree of an object that no rule looks into isn't kept, however large it is.
func TestOthersAreForgotten(t *testing.T) {
	w := read([]Source{{"x", []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: b}\ndata: {c: d}\n---\n" + bare1)}}, Options{})
	if len(w.objects) != 2 || w.objects[0].Node != nil || w.objects[0].title() != "Secret/a" || w.objects[0].namespace != "b" {
		t.Errorf("a Secret is kept: %+v", w.objects[0])
	}
	if w.objects[1].Node != nil {
		t.Error("a Deployment is kept before its turn")
	}
	if l := first(w); l == nil || l.Node == nil || l.keyLine("spec") != 9 {
		t.Error("a Deployment is forgotten")
	}
	for range w.workloads() {
	}
	if w.objects[1].Node != nil {
		t.Error("a Deployment is kept after its turn")
	}
}
