package lint

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// excuse is a comment or an annotation that takes findings of a rule out, with its reason.
type excuse struct {
	rule, reason string
}

func badExcuse() Rule {
	return Rule{
		ID: "E000", Name: "ignored-without-reason", Severity: Warning,
		Title: "a finding is ignored without a reason",
		Why: `Whoever reads the manifest in a year wants to know why a fault is none here. A comment or an annotation that ignores
without a reason, or a rule that doesn't exist, ignores nothing and is a finding itself.`,
		Example: `  # eider-lint: ignore E003
  preStop: {exec: {command: [sh, -c, sleep 15]}}`,
		Patch: `  # eider-lint: ignore E003 our base image has busybox
  preStop: {exec: {command: [sh, -c, sleep 15]}}`,
		Source: "https://github.com/eiderhq/eider/blob/main/docs/lint.md",
	}
}

// spot is a line and a rule that a comment speaks of.
type spot struct {
	file, rule string
	line       int
}

// excused are the spots that comments excuse; those that excuse nothing are findings.
func (w *world) excused() (spots map[spot]bool, faulty []Finding) {
	spots = map[spot]bool{}
	for _, f := range w.files {
		for at, comment := range f.comments {
			excuses, fault := readExcuses(comment.text)
			if fault != "" {
				faulty = append(faulty, complaint(f.name, at, "", "this comment "+fault))
			}
			for _, e := range excuses {
				spots[spot{f.name, e.rule, comment.of}] = true
			}
		}
	}
	return spots, faulty
}

func complaint(file string, line int, object, message string) Finding {
	r := badExcuse()
	return Finding{Rule: r.ID, Severity: r.Severity, File: file, Line: line, Object: object, Message: message}
}

// exempt is a rule for one object.
type exempt struct{ object, rule string }

// excuses are those of the annotation eider.dev/lint-ignore, of a workload or what stands before it, and what is wrong
// with them.
func (l *workload) excuses() (rules map[exempt]bool, faulty []Finding) {
	rules = map[exempt]bool{}
	add := func(o *object, excused map[string]bool) {
		for rule := range excused {
			rules[exempt{o.title(), rule}] = true
		}
	}
	own, faulty := l.readIgnored(l.annotation(ignored))
	add(l.object, own)
	for _, o := range append(l.ingresses(), l.services...) {
		if o.asExcuses == nil { // it may stand before thousands of workloads
			var bad []Finding
			o.asExcuses, bad = o.readIgnored(o.annotation(ignored))
			faulty = append(faulty, bad...)
		}
		add(o, o.asExcuses)
	}
	return rules, faulty
}

const ignored = "eider.dev/lint-ignore"

// readIgnored reads "E003: our base image has busybox; E004: …", up to a number of faults that nobody reads to the end.
func (o *object) readIgnored(n node) (rules map[string]bool, faulty []Finding) {
	rules = map[string]bool{}
	for part := range strings.SplitSeq(n.text(), ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		excuses, fault := readExcuses(strings.Replace(part, ":", " ", 1))
		if fault != "" {
			faulty = append(faulty, complaint(o.file.name, n.line(), o.title(), ignored+" "+fault))
		}
		if len(faulty) == maxComplaints {
			break
		}
		for _, e := range excuses {
			rules[e.rule] = true
		}
	}
	return rules, faulty
}

const maxComplaints = 20 // of one annotation

// readExcuses reads "E003,E004 our base image has busybox".
func readExcuses(text string) (excuses []excuse, fault string) {
	ids, reason := strings.TrimSpace(text), ""
	if m := reasoned.FindStringSubmatch(ids); m != nil {
		ids, reason = m[1], strings.TrimSpace(m[2])
	}
	for id := range strings.SplitSeq(ids, ",") {
		rule, ok := Find(strings.TrimSpace(id))
		switch {
		case !ok:
			return nil, fmt.Sprintf("ignores %q, which is no rule; write: ignore E003 and why", short(id))
		case rule.check == nil:
			return nil, "ignores " + rule.ID + ", which can't be ignored"
		case reason == "":
			return nil, "ignores " + rule.ID + " without a reason; write it behind the rule"
		}
		excuses = append(excuses, excuse{rule: rule.ID, reason: reason})
	}
	return excuses, ""
}

type comment struct {
	text string
	of   int // the line that it speaks of
}

var (
	ignoring = regexp.MustCompile(`(?:^|\s)#\s*eider-lint:\s*ignore\b:?(.*)$`)
	reasoned = regexp.MustCompile(`^([A-Za-z0-9-]+(?:\s*,\s*[A-Za-z0-9-]+)*)(?:\s+|$)(.*)$`)
	block    = regexp.MustCompile(`(?:^|[\s:-])[|>][-+0-9]{0,2}\s*(?:#.*)?$`)
)

// comments are those that say what to ignore, by their line. One that stands alone speaks of the next line; within a
// block of text nothing is a comment.
func comments(text []byte) map[int]comment {
	out := map[int]comment{}
	var above []int
	within, i := -1, -1 // the least indentation that isn't text any more; the line before
	for line := range bytes.Lines(text) {
		i++
		row := strings.TrimRight(string(line), "\r\n")
		bare := strings.TrimLeft(row, " ")
		indent := len(row) - len(bare)
		if bare == "" || within >= 0 && indent > within {
			continue
		}
		within = -1
		m := ignoring.FindStringSubmatch(row)
		switch {
		case bare[0] == '#' && m != nil:
			out[i+1] = comment{text: m[1]}
			above = append(above, i+1)
			continue
		case bare[0] == '#':
			continue
		case m != nil:
			out[i+1] = comment{text: m[1], of: i + 1}
		}
		for _, at := range above {
			out[at] = comment{text: out[at].text, of: i + 1}
		}
		above = above[:0]
		if block.MatchString(row) {
			within = indent
			for strings.HasPrefix(bare, "- ") {
				within += len(bare) - len(strings.TrimLeft(bare[2:], " "))
				bare = strings.TrimLeft(bare[2:], " ")
			}
		}
	}
	return out
}
