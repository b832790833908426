package lint

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// node is a place in a manifest. The zero node is absent, and so is all that one asks an absent or unfitting node for,
// so that rules may ask a stranger's manifest for anything.
//
// Aliases are followed one at a time, as they are asked for; nothing ever expands a whole tree, so a manifest of
// aliases to aliases is as small here as it is written.
type node struct{ *yaml.Node }

// steps bounds chains of aliases and of merges, which may be circles.
const steps = 16

func (n node) ok() bool {
	return n.Node != nil && n.Kind != 0 && !(n.Kind == yaml.ScalarNode && n.Tag == "!!null")
}

// solid is what an alias stands for.
func (n node) solid() node {
	for range steps {
		switch {
		case n.Node == nil:
			return node{}
		case n.Kind == yaml.AliasNode:
			n.Node = n.Alias
		case n.Kind == yaml.DocumentNode && len(n.Content) > 0:
			n.Node = n.Content[0]
		default:
			return n
		}
	}
	return node{}
}

// get walks down by keys. Of a key written twice the last counts, as for kubectl.
func (n node) get(path ...string) node {
	for _, key := range path {
		n = n.child(key, steps)
	}
	return n.solid()
}

func (n node) child(key string, merges int) node {
	n = n.solid()
	if n.Node == nil || n.Kind != yaml.MappingNode || merges == 0 {
		return node{}
	}
	var merged node
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		switch name := n.Content[i]; {
		case name.Value == key && name.Kind == yaml.ScalarNode:
			return node{n.Content[i+1]}
		case name.Tag == "!!merge":
			merged = node{n.Content[i+1]}
		}
	}
	if merged = merged.solid(); merged.Node == nil || merged.Kind == yaml.MappingNode {
		return merged.child(key, merges-1)
	}
	for each := range merged.each() {
		if found := each.child(key, merges-1); found.Node != nil {
			return found
		}
	}
	return node{}
}

// text is a scalar as written, "" if there is none.
func (n node) text() string {
	if n = n.solid(); n.ok() && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// whole is a scalar's whole number.
func (n node) whole() (int, bool) {
	i, err := strconv.Atoi(n.text())
	return i, err == nil
}

// integer is a whole number as Kubernetes' API takes one from YAML or JSON: one that isn't a text, and 60.0 too.
func (n node) integer() (int, bool) {
	if n = n.solid(); !n.ok() || n.Kind != yaml.ScalarNode {
		return 0, false
	}
	switch n.ShortTag() {
	case "!!int":
		var i int
		err := n.Decode(&i)
		return i, err == nil
	case "!!float":
		f, err := strconv.ParseFloat(n.Value, 64)
		return int(f), err == nil && f == math.Trunc(f) && math.Abs(f) < math.MaxInt32
	}
	return 0, false
}

// meant is the whole number of seconds that somebody had in mind who wrote "60", 60.5 or 60s.
func (n node) meant() (int, bool) {
	if i, ok := n.integer(); ok {
		return i, true
	}
	d, ok := duration(n.text(), time.Second)
	return wholeSeconds(d), ok
}

func (n node) yes() bool { return n.text() == "true" }

// texts are the scalars of a sequence; a scalar stands for a sequence of one.
func (n node) texts() (out []string) {
	if n = n.solid(); n.ok() && n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	for item := range n.each() {
		out = append(out, item.text())
	}
	return out
}

// each goes through the elements of a sequence.
func (n node) each() iter.Seq[node] {
	return func(yield func(node) bool) {
		if n = n.solid(); n.Node == nil || n.Kind != yaml.SequenceNode {
			return
		}
		for _, item := range n.Content {
			if !yield(node{item}.solid()) {
				return
			}
		}
	}
}

// pairs goes through the keys and values of a mapping, without those merged in.
func (n node) pairs() iter.Seq2[string, node] {
	return func(yield func(string, node) bool) {
		if n = n.solid(); n.Node == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, node{n.Content[i+1]}.solid()) {
				return
			}
		}
	}
}

// keyLine is the line that the key of the last step of a path stands on: where one points to when the value is a block.
func (n node) keyLine(path ...string) int {
	for _, key := range path[:len(path)-1] {
		n = n.get(key)
	}
	n = n.solid()
	if n.Node == nil || n.Kind != yaml.MappingNode {
		return 0
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == path[len(path)-1] {
			return n.Content[i].Line
		}
	}
	return n.Line
}

// line is where the node stands, 0 if it doesn't.
func (n node) line() int {
	if n.Node == nil {
		return 0
	}
	return n.Line
}

// short cuts a long or many-lined scalar so that it may stand in a message.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return text
}
