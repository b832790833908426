package lint

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// cut parts a list into its items, as kubectl writes it: block YAML whose items stand each behind a dash of their own, or
// JSON, also several values after one another. What is written otherwise, or may mean something else, stays whole.
func (d document) cut() (parts []document, ok bool) {
	base := 0
	if marker(d.text, "---") {
		base = 3
	}
	if start := bytes.TrimLeft(d.text[base:], " \t\r\n"); len(start) > 0 && start[0] == '{' {
		return d.cutJSON(base)
	}
	return d.cutYAML()
}

func (d document) cutYAML() (parts []document, ok bool) {
	from, to := d.items()
	if from == 0 {
		return nil, false
	}
	head := node{}
	if root, err := parse(append(bytes.Clone(d.text[:from]), d.text[to:]...)); err == nil {
		head = node{root}
	}
	if !strings.HasSuffix(head.get("kind").text(), "List") || !head.get("apiVersion").ok() {
		return nil, false
	}
	at, line, indent := from, d.first+bytes.Count(d.text[:from], []byte("\n")), -1
	for row := range bytes.Lines(d.text[from:to]) {
		bare := bytes.TrimLeft(row, " ")
		within := len(row) - len(bare)
		switch empty := len(bytes.TrimSpace(bare)) == 0 || bare[0] == '#'; {
		case !empty && indent < 0:
			indent = within
			fallthrough
		case !empty && within == indent && marker(bare, "-"):
			parts = append(parts, document{text: d.text[at:at], first: line, item: true})
		case !empty && within <= indent:
			return nil, false
		}
		at += len(row)
		line++
		if len(parts) > 0 {
			last := &parts[len(parts)-1]
			last.text = last.text[:len(last.text)+len(row)]
		}
	}
	return parts, len(parts) > 1
}

// items is where the items of a list may stand: behind the one row "items:", up to the next key.
func (d document) items() (from, to int) {
	at, within := 0, false
	for row := range bytes.Lines(d.text) {
		if within && bytes.IndexByte([]byte(" -#\r\n"), row[0]) < 0 {
			within, to = false, at
		}
		at += len(row)
		if string(bytes.TrimRight(row, " \r\n")) == "items:" {
			if from > 0 {
				return 0, 0
			}
			from, within = at, true
		}
	}
	if within {
		to = at
	}
	return from, to
}

// cutJSON goes through a list's keys, and takes the values of its items as they stand.
func (d document) cutJSON(base int) (parts []document, ok bool) {
	text := d.text[base:]
	dec := json.NewDecoder(bytes.NewReader(text))
	var said struct{ kind, version string }
	line, counted := d.first, 0
	take := func(raw json.RawMessage) {
		end := int(dec.InputOffset())
		start := end - len(raw)
		line += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		parts = append(parts, document{text: text[start:end], first: line})
	}
	_, err := dec.Token()
	for err == nil && dec.More() {
		var key json.Token
		var raw json.RawMessage
		if key, err = dec.Token(); err != nil {
			break
		}
		if key != "items" {
			err = dec.Decode(&raw)
			switch key {
			case "kind":
				said.kind = string(raw)
			case "apiVersion":
				said.version = string(raw)
			}
			continue
		}
		if open, _ := dec.Token(); open != json.Delim('[') || parts != nil {
			return nil, false
		}
		for err == nil && dec.More() {
			if err = dec.Decode(&raw); err == nil {
				take(raw)
			}
		}
		if err == nil {
			_, err = dec.Token()
		}
	}
	if err != nil {
		return nil, false
	}
	if _, err = dec.Token(); err != nil {
		return nil, false
	}
	if _, err := dec.Token(); err != io.EOF { // one more value
		return nil, false
	}
	return parts, len(parts) > 1 && strings.HasSuffix(said.kind, `List"`) && said.version != ""
}
