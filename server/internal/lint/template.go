package lint

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unfilled is the line of the first value that a template still has to fill in, 0 if there is none. To YAML, image: {{ .x }}
// is a map whose key is a map, which no object of Kubernetes has. Braces within a word that isn't in quotes are a
// template's too, in an object that makes pods, but where they may be meant for a program.
func (n node) unfilled(doc *document) (first int) {
	if !bytes.Contains(doc.text, []byte("{{")) {
		return 0
	}
	note := func(line int) {
		if first == 0 || line < first {
			first = line
		}
	}
	type part struct {
		*yaml.Node
		key  string // it is the value of
		free bool   // it may have braces
	}
	all := []part{{n.Node, "", n.get("kind").text() != "Pod" && !n.get("spec", "template", "spec").ok()}}
	for len(all) > 0 {
		at := all[len(all)-1]
		all = all[:len(all)-1]
		switch at.Kind {
		case yaml.ScalarNode:
			quoted := at.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
			if braces := strings.Contains(at.Value, "{{") && strings.Contains(at.Value, "}}"); braces && !at.free && (!quoted || at.key == "image") {
				note(at.Line)
			}
		case yaml.SequenceNode:
			for _, item := range at.Content {
				all = append(all, part{item, at.key, at.free})
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(at.Content); i += 2 {
				key := at.Content[i]
				if key.Kind == yaml.MappingNode {
					note(key.Line)
				}
				all = append(all, part{at.Content[i+1], key.Value, at.free || slices.Contains(programs, key.Value)})
			}
		}
	}
	return first
}

// programs are the keys below which braces may be meant for a program.
var programs = []string{"annotations", "command", "args", "env"}
