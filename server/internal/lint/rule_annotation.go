package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func unreadableAnnotation() Rule {
	return Rule{
		ID: "E017", Name: "unreadable-annotation", Severity: Warning,
		Title: "an annotation for lint can't be read, so nothing follows from it",
		Why: `What a manifest can't show, annotations say: a window, a pause, a deadline, that the program pauses by itself, by what
callers find it. One that is written wrong would be taken for none, and the workload held to a number that nobody meant.`,
		Example: `annotations: {eider.dev/window: 22 seconds}`,
		Patch:   `annotations: {eider.dev/window: 22s}`,
		Source:  "https://github.com/eiderhq/eider/blob/main/docs/lint.md#what-a-manifest-cant-show",
		check: func(_ *world, l *workload) (found []Finding) {
			for _, name := range []string{"eider.dev/window", "eider.dev/pause", "eider.dev/shutdown-deadline"} {
				n := l.annotation(name)
				if _, ok := duration(n.text(), time.Second); n.ok() && !ok {
					found = append(found, l.here(n.line(), fmt.Sprintf("%s is %q, which is no duration", name, short(n.text())), name+": 20s")...)
				}
			}
			if n := l.annotation("eider.dev/pauses"); n.ok() && n.text() != "self" {
				found = append(found, l.here(n.line(), fmt.Sprintf("eider.dev/pauses is %q; the only word is self", short(n.text())), "eider.dev/pauses: self")...)
			}
			if n := l.annotation(registryKey); n.ok() && !slices.Contains([]string{"eureka", "none"}, l.registry()) {
				found = append(found, l.here(n.line(), fmt.Sprintf("%s is %q; its words are eureka and none", registryKey, short(n.text())), registryKey+": eureka")...)
			}
			for _, annotations := range []node{l.template.get("metadata", "annotations"), l.get("metadata", "annotations")} {
				for name := range annotations.pairs() {
					if strings.HasPrefix(name, "eider.dev/") && !slices.Contains(annotated, name) && len(found) < maxComplaints {
						found = append(found, l.here(annotations.keyLine(name), fmt.Sprintf("%s is nothing that lint knows; it knows %s", short(name), strings.Join(annotated, ", ")), "")...)
					}
				}
			}
			return found
		},
	}
}

// annotated are the annotations that lint reads.
var annotated = []string{"eider.dev/lint-ignore", "eider.dev/pause", "eider.dev/pauses", registryKey, "eider.dev/shutdown-deadline", "eider.dev/window"}
