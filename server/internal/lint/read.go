package lint

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxText is how many bytes of one source are read; the largest charts render to 5 MB.
const MaxText = 64 << 20

// Bounds on what a stranger's text may cost, each far above what one finds.
const (
	maxObjects = 200_000 // of all sources; a list of aliases to lists could name more than any machine holds
	maxLists   = 8       // lists within lists
	maxNodes   = 1 << 20 // of a document, aliases counted as what they stand for
)

// object is one Kubernetes object and where it stands.
type object struct {
	node
	kind, name, namespace string
	file                  *file

	asVariables, asFiles settings // of a ConfigMap, once asked for
	asCorefile           *pause
	asExcuses            map[string]bool // of what stands before workloads, by rule
}

// file is a source and its lines, which the comments are read from.
type file struct {
	name  string
	lines []string
}

func (o *object) title() string { return o.kind + "/" + o.name }

// annotation is of the object's own metadata.
func (o *object) annotation(key string) node { return o.get("metadata", "annotations", key) }

// read makes objects of sources; what can't be read is a fault and no reason to stop.
func read(sources []Source, o Options) *world {
	w := &world{options: o}
	for _, src := range sources {
		w.readSource(src)
	}
	if len(w.objects) == 0 && len(w.faults) == 0 && len(sources) > 0 {
		w.faults = append(w.faults, Fault{File: sourceNames(sources), Message: "holds no Kubernetes object: nothing was checked"})
	}
	return w
}

func sourceNames(sources []Source) string {
	if len(sources) == 1 {
		return sources[0].Name
	}
	return fmt.Sprintf("%d files", len(sources))
}

func (w *world) readSource(src Source) {
	if len(src.Text) > MaxText {
		w.faults = append(w.faults, Fault{File: src.Name, Message: fmt.Sprintf("has %d bytes, more than the %d that are read; lint it in parts", len(src.Text), MaxText)})
		return
	}
	text := decode(src.Text)
	if bytes.IndexByte(text, 0) >= 0 {
		w.faults = append(w.faults, Fault{File: src.Name, Message: "isn't text: write it as UTF-8"})
		return
	}
	f := &file{name: src.Name, lines: strings.Split(string(text), "\n")}
	w.files = append(w.files, f)
	for _, doc := range split(text) {
		root, err := parse(doc.text)
		if err != nil {
			w.faults = append(w.faults, unreadable(src.Name, doc, err, w.options.Command))
			continue
		}
		if aliased := shift(root, doc.first-1); aliased && weigh(root, map[*yaml.Node]int{}) > maxNodes {
			w.faults = append(w.faults, Fault{File: src.Name, Line: doc.first, Message: "the aliases of this document stand for more than a million values, or for themselves; it wasn't checked"})
			continue
		}
		w.take(node{root}.solid(), f, maxLists)
	}
}

// take adds an object, or those of a list.
func (w *world) take(n node, f *file, depth int) {
	kind := n.get("kind").text()
	if kind == "" || !n.get("apiVersion").ok() || len(w.objects) >= maxObjects {
		return // values of a chart, a setting of a CI: many files of a folder aren't manifests
	}
	if items := n.get("items"); strings.HasSuffix(kind, "List") && items.ok() {
		for item := range items.each() {
			if depth == 0 || len(w.objects) >= maxObjects {
				w.faults = append(w.faults, Fault{File: f.name, Line: n.line(), Message: "lists too many objects, or lists within lists; the rest of them wasn't checked"})
				return
			}
			w.take(item, f, depth-1)
		}
		return
	}
	o := &object{node: n, kind: kind, name: strings.Clone(n.get("metadata", "name").text()),
		namespace: cmp.Or(strings.Clone(n.get("metadata", "namespace").text()), "default"), file: f}
	if !slices.Contains(asked, kind) && !o.get("spec", "template").ok() {
		o.node = node{} // most of a cluster's objects, and most of its bytes, are nobody's business here
	}
	w.objects = append(w.objects, o)
}

// asked are the kinds that rules look into, besides those with a template of pods.
var asked = []string{"Pod", "Service", "Ingress", "ConfigMap", "Namespace", "BackendConfig", "GCPBackendPolicy", "HorizontalPodAutoscaler", "Rollout"}

// document is a part of a stream and the number of its first line.
type document struct {
	text  []byte
	first int
}

// split cuts a stream at its document markers, so that one document's fault leaves the others. By YAML's rules a
// marker at the start of a line is one wherever it stands.
func split(text []byte) (docs []document) {
	doc, directive := document{first: 1}, false
	line := 1
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		row := text[:end]
		switch {
		case marker(row, "---") && !directive:
			docs = append(docs, doc)
			doc = document{first: line}
		case marker(row, "---"):
			directive = false
		case bytes.HasPrefix(row, []byte("%")) && len(bytes.TrimSpace(doc.text)) == 0:
			directive = true
		}
		doc.text = append(doc.text, row...)
		if marker(row, "...") {
			docs = append(docs, doc)
			doc = document{first: line + 1}
		}
		text = text[end:]
		line++
	}
	return append(docs, doc)
}

func marker(row []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(row, []byte(mark))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// parse reads one document. A parser that meets a stranger's bytes may have a fault of its own: that is an error too.
func parse(text []byte) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("the YAML parser gave up: %v", r)
		}
	}()
	if root, ok := parseJSON(text); ok {
		return root, nil
	}
	root = &yaml.Node{}
	if err := yaml.Unmarshal(text, root); err != nil {
		return nil, err
	}
	return root, nil
}

// shift makes the lines of a document those of its source, and tells whether it has aliases.
func shift(n *yaml.Node, by int) (aliased bool) {
	for rest := []*yaml.Node{n}; len(rest) > 0; {
		n, rest = rest[len(rest)-1], rest[:len(rest)-1]
		n.Line += by
		aliased = aliased || n.Kind == yaml.AliasNode
		rest = append(rest, n.Content...)
	}
	return aliased
}

// weigh counts the nodes of a document as if each alias were what it stands for; a circle weighs more than any bound.
func weigh(n *yaml.Node, known map[*yaml.Node]int) (nodes int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if nodes, ok := known[n]; ok {
		return nodes
	}
	known[n] = maxNodes + 1
	for _, part := range n.Content {
		nodes = min(nodes+weigh(part, known), maxNodes)
	}
	known[n] = nodes + 1
	return nodes + 1
}

// unreadable says where in the source the parser stopped, and what people mostly did then.
func unreadable(name string, doc document, err error, command string) Fault {
	fault := Fault{File: name, Line: doc.first, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(fault.Message); m != nil {
		line, _ := strconv.Atoi(m[1])
		if strings.HasPrefix(m[2], "did not find expected") {
			line++ // of these errors the parser counts lines from 0
		}
		line = min(line, bytes.Count(bytes.TrimSpace(doc.text), []byte("\n"))+1)
		fault.Line, fault.Message = doc.first-1+line, m[2]
	}
	if bytes.Contains(doc.text, []byte("{{")) {
		fault.Message += "; it looks like a template: lint what it renders to, `helm template . | " + command + " -`"
	}
	fault.Message = "this document isn't YAML: " + fault.Message
	return fault
}
