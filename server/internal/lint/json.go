package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sort"

	"go.yaml.in/yaml/v3"
)

// parseJSON reads a document that is JSON, which YAML parsers take with exceptions (half of a surrogate pair).
// Several values after one another are one List.
func parseJSON(text []byte) (*yaml.Node, bool) {
	if marker(text, "---") {
		text = append([]byte("   "), text[3:]...)
	}
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) == 0 || start[0] != '{' {
		return nil, false
	}
	p := &jsonParser{Decoder: json.NewDecoder(bytes.NewReader(text))}
	p.UseNumber()
	for i, b := range text {
		if b == '\n' {
			p.ends = append(p.ends, i)
		}
	}
	var values []*yaml.Node
	for {
		value, err := p.value(maxDepth)
		switch {
		case err == io.EOF && len(values) == 1:
			return values[0], true
		case err == io.EOF:
			return jsonList(values), true
		case err != nil:
			return nil, false
		}
		values = append(values, value)
	}
}

func jsonList(values []*yaml.Node) *yaml.Node {
	word := func(text string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: 1}
	}
	items := &yaml.Node{Kind: yaml.SequenceNode, Content: values, Line: 1}
	return &yaml.Node{Kind: yaml.MappingNode, Line: 1, Content: []*yaml.Node{
		word("apiVersion"), word("v1"), word("kind"), word("List"), word("items"), items}}
}

type jsonParser struct {
	*json.Decoder
	ends []int // offsets of the line ends
}

func (p *jsonParser) line() int {
	return sort.SearchInts(p.ends, int(p.InputOffset())-1) + 1
}

// maxDepth bounds how deep values nest, since reading one within another takes stack.
const maxDepth = 1000

func (p *jsonParser) value(depth int) (*yaml.Node, error) {
	token, err := p.Token()
	if err != nil {
		return nil, err
	}
	if depth == 0 {
		return nil, fmt.Errorf("values nest deeper than %d", maxDepth)
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.line()}
	switch v := token.(type) {
	case json.Delim:
		n.Kind = yaml.MappingNode
		if v == '[' {
			n.Kind = yaml.SequenceNode
		}
		for p.More() {
			part, err := p.value(depth - 1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, part)
		}
		if _, err := p.Token(); err != nil {
			return nil, err
		}
	case nil:
		n.Tag, n.Value = "!!null", "null"
	case string:
		n.Tag, n.Value, n.Style = "!!str", v, yaml.DoubleQuotedStyle
	default:
		n.Value = fmt.Sprint(v)
	}
	return n, nil
}
