package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eiderhq/eider/internal/near"
)

// readFile sets what a YAML file says, one mapping of setting to value, and returns every fault as path:line.
func readFile(path string, data []byte, rows map[string]row) []error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // nothing said
	} else if err != nil {
		return []error{syntax(path, err)}
	}
	var faults []error
	fault := func(line int, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s:%d: %w", path, line, fmt.Errorf(format, args...)))
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		fault(more.Line, "a second document; a settings file has one")
	} else if !errors.Is(err, io.EOF) {
		faults = append(faults, syntax(path, err))
	}
	if len(doc.Content) != 1 {
		return faults
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return faults // comments alone
	}
	if top.Kind != yaml.MappingNode {
		fault(top.Line, "the file must be lines of setting: value, as in lease: 20s")
		return faults
	}
	first := make(map[string]int)
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		name := key.Value
		r, known := rows[name]
		switch line, twice := first[name]; {
		case key.Kind != yaml.ScalarNode || key.Anchor != "":
			fault(key.Line, "a setting's name must be a plain word")
		case !known:
			fault(key.Line, "%.40q is no setting%s", name, meant(name, rows))
		case twice:
			fault(key.Line, "%s is set in line %d already", name, line)
		default:
			first[name] = key.Line
			if err := setValue(r, value); err != nil {
				fault(value.Line, "%s: %w", name, err)
			}
		}
	}
	return faults
}

// setValue sets a value of the right type, and of none that YAML has guessed otherwise.
func setValue(r row, value *yaml.Node) error {
	if value.Kind != yaml.ScalarNode || value.Anchor != "" {
		return fmt.Errorf("must be one plain %s", r.kind)
	}
	want := map[string]string{"bool": "!!bool", "number": "!!int"}[r.kind]
	switch tag := value.ShortTag(); {
	case tag == "!!null":
		return errors.New("has no value; give it one or remove the line")
	case want != "" && tag != want, want == "" && tag != "!!str" && r.kind != "duration" && r.kind != "ip:port":
		return fmt.Errorf("must be a %s, %.40q is a %s", plain(r.kind), value.Value, strings.TrimPrefix(tag, "!!"))
	}
	return r.set(value.Value)
}

func plain(kind string) string {
	if kind == "bool" || kind == "number" {
		return kind
	}
	return "text (in quotes if need be)"
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

func syntax(path string, err error) error {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if m[1] == "" {
		return fmt.Errorf("%s: not YAML: %s", path, m[2])
	}
	return fmt.Errorf("%s:%s: not YAML: %s", path, m[1], m[2])
}

// meant names the setting that was probably meant.
func meant(name string, rows map[string]row) string {
	best := near.Name(strings.ReplaceAll(strings.ToLower(name), "_", "-"), slices.Sorted(maps.Keys(rows)), 2)
	if best == "" {
		return "; eider server --help lists them"
	}
	return "; did you mean " + best + "?"
}
