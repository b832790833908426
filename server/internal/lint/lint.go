// Package lint answers: will this workload lose requests when one of its pods leaves?
//
// It reads Kubernetes manifests and nothing else: no cluster, no network, no image. What it can't see (a program's own
// pause, the shell of an image, a load balancer's settings) is either said by an annotation of the manifest or left
// alone: a rule speaks when the manifest shows the fault.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/eiderhq/eider/server/internal/harmless"
)

// Severity is how bad a finding is; the words are those of SARIF.
type Severity string

const (
	Error   Severity = "error"   // requests are lost in each rollout, or in each that meets a slow request
	Warning Severity = "warning" // requests are lost when something common happens
	Note    Severity = "note"    // it can't be told from the manifest, or it is a fault of the manifest's comments
)

// AtLeast tells whether s is as bad as t.
func (s Severity) AtLeast(t Severity) bool { return s.rank() >= t.rank() }

func (s Severity) rank() int { return slices.Index([]Severity{Note, Warning, Error}, s) }

// Source is a text with manifests and the name that findings call it by.
type Source struct {
	Name string
	Text []byte
}

// Options are what the manifests don't say.
type Options struct {
	Window  time.Duration // how long callers still call a pod that leaves; 0 means derived, by workload
	Command string        // what the reader typed, and types to learn more; "" means eider lint
}

// Finding is one fault in one place.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Object   string   `json:"object"` // "Deployment/orders"; "" for a comment outside of every object
	Message  string   `json:"message"`
	Patch    string   `json:"patch,omitempty"` // the YAML to write, each line with the place where it goes

	Template string `json:"template,omitempty"` // of a stream of Helm's: what it was rendered from

	of *container // whose want of a pause or of time it is, where several rules may say the same
}

// Fault is a text or a document that can't be read; the rest is linted nevertheless.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

func (f Fault) String() string {
	if f.Line > 0 {
		return harmless.Text(fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message))
	}
	return harmless.Text(f.File + " " + f.Message)
}

// Report is what was found.
type Report struct {
	Findings  []Finding `json:"findings"`
	Faults    []Fault   `json:"faults"`
	Objects   int       `json:"objects"`
	Workloads int       `json:"workloads"` // the objects among them that make pods which serve
	Ignored   int       `json:"ignored"`   // findings that a comment or an annotation takes out, with its reason

	Unchecked map[string]int `json:"unchecked,omitempty"` // objects that make pods and weren't looked at, by kind
	Assumed   string         `json:"assumed,omitempty"`   // what the answer stands on, which no manifest shows

	command string
}

// Check reads all sources as one world, since a Service may stand in another file than its workload, and holds every
// workload to every rule.
func Check(sources []Source, o Options) Report {
	o.Command = cmp.Or(o.Command, "eider lint")
	w := read(sources, o)
	excused, faulty := w.excused()
	report := Report{Findings: faulty, Objects: len(w.objects), command: o.Command}
	for load := range w.workloads() {
		exempted, bad := load.excuses()
		var left []Finding
		for _, f := range w.hold(load) {
			if exempted[exempt{load.title(), f.Rule}] || exempted[exempt{f.Object, f.Rule}] || excused[spot{f.File, f.Rule, f.Line}] {
				report.Ignored++
				continue
			}
			left = append(left, f)
		}
		report.Findings = append(append(report.Findings, once(left)...), bad...)
		report.Workloads++
		w.assume(load)
	}
	report.Findings, report.Faults = append([]Finding{}, report.Findings...), append([]Fault{}, w.faults...)
	report.Unchecked, report.Assumed = w.unchecked, w.assumption()
	w.trace(report.Findings)
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	report.Findings = slices.Compact(report.Findings)
	return report
}

// once leaves out what follows from another finding: who is told of a missing pause (E002), or of one that no grace
// period like this holds (E012), with the grace period to write, needn't be told of the grace period too (E001).
func once(found []Finding) []Finding {
	causes := map[*container]Severity{}
	for _, f := range found {
		if f.of != nil && f.Rule != "E001" && (causes[f.of] == "" || f.Severity.AtLeast(causes[f.of])) {
			causes[f.of] = f.Severity
		}
	}
	left := slices.DeleteFunc(found, func(f Finding) bool {
		cause := causes[f.of]
		return f.Rule == "E001" && cause != "" && cause.AtLeast(f.Severity)
	})
	for i := range left {
		left[i].of = nil // a finding mustn't keep its workload
	}
	return left
}

// hold holds a workload to every rule.
func (w *world) hold(load *workload) (found []Finding) {
	if w.rules == nil {
		w.rules = Rules()
	}
	for _, rule := range w.rules {
		if rule.check == nil {
			continue
		}
		for _, f := range rule.check(w, load) {
			f.Rule, f.Severity = rule.ID, cmp.Or(f.Severity, rule.Severity)
			f.Object = cmp.Or(f.Object, load.title())
			found = append(found, f)
		}
	}
	return found
}

// Count tells how many findings there are of a severity.
func (r Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}
