package lint

import "fmt"

func unknownPause() Rule {
	return Rule{
		ID: "E021", Name: "unknown-pause", Severity: Note,
		Title: "how long the hook pauses can't be told from the manifest",
		Why: `A preStop of httpGet lasts as long as the program takes to answer: a pause, if that endpoint waits, and none at all if it
answers at once, as one for health does. Which of them it is, the manifest doesn't show, so that nothing is known of the
pause, nor whether the grace period holds it. eider.dev/pause says it.`,
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
			return l.here(p.line, fmt.Sprintf("container %s calls %s before it stops, and how long that pauses isn't said: callers may call it for %s",
				l.main.name, short(l.main.get("lifecycle", "preStop", "httpGet", "path").text()), tell(l.windowOf())),
				fmt.Sprintf("annotations: {eider.dev/pause: %ds}  # %s, if it waits so long; a sleep if it doesn't wait", wholeSeconds(l.advised()), ofPods))
		},
	}
}
