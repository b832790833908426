package lint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxText is how many bytes of one source are read; the largest charts render to 5 MB.
const MaxText = 64 << 20

// MaxTexts is how many bytes are read of all sources together.
const MaxTexts = 256 << 20

// Bounds on what a stranger's text may cost, each far above what one finds.
const (
	maxObjects = 200_000 // of all sources; a list of aliases to lists could name more than any machine holds
	maxLists   = 8       // lists within lists
	maxNodes   = 1 << 20 // of a document, aliases counted as what they stand for; an object of a cluster has fewer bytes
)

// object is one Kubernetes object and where it stands. The tree of one that makes pods is let go once it was read, and
// read again when its turn comes: of all that rules look into these are the most and the largest, and each is looked at
// once. What others ask for, Services among them, is kept; a ConfigMap is read again by the first who asks for it.
type object struct {
	node
	doc                   *document
	at                    []int // where it stands in lists of the document
	pods                  bool  // it makes pods that stay
	kind, name, namespace string
	file                  *file

	asVariables, asFiles settings // of a ConfigMap, once asked for
	asCorefile           *pause
	asExcuses            map[string]bool // of what stands before workloads, by rule
}

// file is a source and its comments.
type file struct {
	name     string
	comments map[int]comment // by their line
}

func (o *object) title() string { return o.kind + "/" + o.name }

// annotation is of the object's own metadata.
func (o *object) annotation(key string) node { return o.get("metadata", "annotations", key) }

// read makes objects of sources; what can't be read is a fault and no reason to stop.
func read(sources []Source, o Options) *world {
	w := &world{options: o}
	w.readAll(sources)
	if len(w.objects) == 0 && len(w.faults) == 0 && len(sources) > 0 {
		w.faults = append(w.faults, Fault{File: sourceNames(sources), Message: "holds no Kubernetes object: nothing was checked"})
	}
	return w
}

func (w *world) readAll(sources []Source) {
	for _, src := range sources {
		if w.size += len(src.Text); w.size > MaxTexts {
			w.faults = append(w.faults, Fault{File: src.Name, Message: fmt.Sprintf("isn't read: all texts up to it have more than the %d bytes that are read together; lint them in parts", MaxTexts)})
			w.size -= len(src.Text)
			continue
		}
		w.readSource(src)
	}
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
	f := &file{name: src.Name, comments: comments(text)}
	w.files = append(w.files, f)
	for doc := range split(text) {
		w.follow(f.name, doc)
		if !w.readParts(doc, f) {
			w.readDocument(doc, f)
		}
	}
}

// readParts reads a document that is a list item by item, so that it costs no more than its items do. It does nothing
// unless each of them can be read by itself.
func (w *world) readParts(doc document, f *file) bool {
	parts, ok := doc.cut()
	objects, faults := len(w.objects), len(w.faults)
	for i := 0; ok && i < len(parts); i++ {
		ok = len(w.objects) < maxObjects && w.readPart(parts[i], f)
	}
	if !ok {
		w.objects, w.faults = w.objects[:objects], w.faults[:faults]
	}
	return ok
}

func (w *world) readPart(part document, f *file) bool {
	root, err := part.read()
	if err != nil {
		return false
	}
	n := node{root}.solid()
	if part.item {
		for item := range n.each() {
			w.take(item, &part, []int{0}, f, maxLists-1)
		}
		return n.Node != nil && n.Kind == yaml.SequenceNode
	}
	w.take(n, &part, nil, f, maxLists-1)
	return true
}

func (w *world) readDocument(doc document, f *file) {
	root, err := doc.read()
	if heavy, ok := errors.AsType[heavyError](err); ok {
		w.faults = append(w.faults, Fault{File: f.name, Line: doc.first, Message: heavy.Error()})
		return
	}
	if err != nil {
		w.faults = append(w.faults, unreadable(f.name, doc, err, w.options.Command))
		return
	}
	w.take(node{root}.solid(), &doc, nil, f, maxLists)
}

// heavyError is of a document that would cost more than a manifest does.
type heavyError string

func (e heavyError) Error() string { return string(e) + "; it wasn't checked" }

// read parses a document, with the lines of its source.
func (d document) read() (*yaml.Node, error) {
	if d.values() > maxNodes {
		return nil, heavyError("this document has more than a million values")
	}
	root, err := parse(d.text)
	if err != nil {
		return nil, err
	}
	if aliased := shift(root, d.first-1); aliased && weigh(root, map[*yaml.Node]int{}) > maxNodes {
		return nil, heavyError("the aliases of this document stand for more than a million values, or for themselves")
	}
	return root, nil
}

// values is no less than a document has, counted by what stands between them.
func (d document) values() (n int) {
	for _, b := range d.text {
		switch b {
		case ',', ':', '[', '{', '-', '?', '\n':
			n++
		}
	}
	return n
}

// take adds an object, or those of a list.
func (w *world) take(n node, doc *document, at []int, f *file, depth int) {
	kind := n.get("kind").text()
	if kind == "" || !n.get("apiVersion").ok() || len(w.objects) >= maxObjects {
		return // values of a chart, a setting of a CI: many files of a folder aren't manifests
	}
	if items := n.get("items"); strings.HasSuffix(kind, "List") && items.ok() {
		i := 0
		for item := range items.each() {
			if depth == 0 || len(w.objects) >= maxObjects {
				w.faults = append(w.faults, Fault{File: f.name, Line: n.line(), Message: "lists too many objects, or lists within lists; the rest of them wasn't checked"})
				return
			}
			w.take(item, doc, append(slices.Clip(at), i), f, depth-1)
			i++
		}
		return
	}
	if line := n.unfilled(doc); line > 0 {
		w.faults = append(w.faults, Fault{File: f.name, Line: line, Message: "here a template isn't filled in: " + rendered(w.options.Command)})
		return
	}
	o := &object{node: n, doc: doc, at: at, kind: kind, name: strings.Clone(n.get("metadata", "name").text()),
		namespace: cmp.Or(strings.Clone(n.get("metadata", "namespace").text()), "default"), file: f}
	if o.pods = newWorkload(o) != nil; !o.pods {
		w.passOver(o)
	}
	alone := len(at) == 0 || len(at) == 1 && doc.item
	if !slices.Contains(asked, kind) || o.pods || kind == "ConfigMap" && alone { // of ConfigMaps few are asked for
		o.node = node{} // most of a cluster's objects, and most of its bytes, are nobody's business here
	}
	w.objects = append(w.objects, o)
}

// asked are the kinds that rules look into, besides those that make pods.
var asked = []string{"Service", "Ingress", "ConfigMap", "Namespace", "BackendConfig", "GCPBackendPolicy", "HorizontalPodAutoscaler", "Rollout", "ServiceMonitor", "PodMonitor"}

// document is a part of a stream, or of a list in one, and the number of its first line.
type document struct {
	text  []byte
	first int
	item  bool // it is a list of one item
}

// split cuts a stream at its document markers, so that one document's fault leaves the others. By YAML's rules a
// marker at the start of a line is one wherever it stands.
func split(text []byte) iter.Seq[document] {
	return func(yield func(document) bool) {
		start, first, directive := 0, 1, false
		line, at := 1, 0
		for row := range bytes.Lines(text) {
			switch {
			case marker(row, "---") && !directive:
				if !yield(document{text: text[start:at], first: first}) {
					return
				}
				start, first = at, line
			case marker(row, "---"):
				directive = false
			case bytes.HasPrefix(row, []byte("%")) && len(bytes.TrimSpace(text[start:at])) == 0:
				directive = true
			}
			at += len(row)
			line++
			if marker(row, "...") {
				if !yield(document{text: text[start:at], first: first}) {
					return
				}
				start, first = at, line
			}
		}
		yield(document{text: text[start:], first: first})
	}
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

// rendered is what to lint instead of a template.
func rendered(command string) string {
	return "lint what it renders to, `helm template . | " + command + " -`"
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
		fault.Message += "; it looks like a template: " + rendered(command)
	}
	fault.Message = "this document isn't YAML: " + fault.Message
	return fault
}
