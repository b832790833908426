package lint

import (
	"bytes"
	"slices"
)

// trace is where a document begins that Helm has rendered, and the template that it names above it.
type trace struct {
	first int
	name  string
}

// follow notes what a document was rendered from: of a stream of a hundred, a line says little.
func (w *world) follow(file string, doc document) {
	name := ""
	for row := range bytes.Lines(doc.text) {
		row = bytes.TrimSpace(row)
		if from, ok := bytes.CutPrefix(row, []byte("# Source: ")); ok {
			name = short(string(from))
			break
		}
		if len(row) > 0 && row[0] != '#' && !marker(row, "---") {
			break
		}
	}
	before := w.traces[file]
	if name == "" && len(before) == 0 || len(before) == maxObjects {
		return
	}
	if w.traces == nil {
		w.traces = map[string][]trace{}
	}
	w.traces[file] = append(before, trace{doc.first, name})
}

// trace says of findings what the document was rendered from in which they are.
func (w *world) trace(found []Finding) {
	for i, f := range found {
		of := w.traces[f.File]
		at, exact := slices.BinarySearchFunc(of, f.Line, func(t trace, line int) int { return t.first - line })
		if !exact {
			at--
		}
		if at >= 0 {
			found[i].Template = of[at].name
		}
	}
}
