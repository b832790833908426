package lint

import (
	"fmt"

	"github.com/eiderhq/eider/window"
)

func unknownPause() Rule {
	return Rule{
		ID: "E021", Name: "unknown-pause", Severity: Note,
		Title: "how long the hook pauses can't be told from the manifest",
		Why: `A preStop of httpGet lasts until the endpoint has answered, with whatever status: a pause, if it waits before it answers,
and none at all if it answers at once, as one for health does, or one that isn't there. It is a GET: an endpoint that
acts on POST alone, as Spring's shutdown and serviceregistry, does nothing. Which of them it is, the manifest doesn't
show, so that nothing is known of the pause, nor whether the grace period holds it. eider.dev/pause says it.`,
		Example: `lifecycle:
  preStop: {httpGet: {path: /leave, port: 8080}}`,
		Patch: `metadata:  # of the pods' template
  annotations: {eider.dev/pause: 15s}`,
		Source: "https://github.com/eiderhq/eider/blob/main/docs/lint.md#what-a-manifest-cant-show",
		check: func(_ *world, l *workload) []Finding {
			p := l.pauseOf(l.main)
			if p.kind != pauseHTTP || p.known || l.ownPause(l.main).kind == pauseSelf || !l.elsewhere() {
				return nil
			}
			return l.here(p.line, fmt.Sprintf("the hook of container %s gets %s, and how long that takes to answer isn't said: callers may call the pod for %s",
				l.main.name, short(l.main.get("lifecycle", "preStop", "httpGet", "path").text()), tell(l.windowOf())),
				joined(fmt.Sprintf("annotations: {eider.dev/pause: %ds}  # %s, if it waits so long; a sleep if it doesn't wait", wholeSeconds(l.advised()), ofPods),
					l.holding(l.main, window.Sum{window.Fixed("pause", l.advised(), "")})))
		},
	}
}
