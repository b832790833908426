package lint

import "fmt"

func sidecarLeavesFirst() Rule {
	return Rule{
		ID: "E008", Name: "sidecar-leaves-first", Severity: Error,
		Title: "a proxy in the pod stops while the program still serves through it",
		Why: `All ordinary containers get SIGTERM at once, each after its own hook. While one pauses, a proxy beside it that has no
pause is gone already, and with it the way in, or the way out to the database. A proxy that pauses as long as the program
stays; one that is a restartable init container (since Kubernetes 1.29) is stopped after the others by itself.`,
		Example: `containers:
- name: orders
  lifecycle: {preStop: {sleep: {seconds: 15}}}
- name: cloud-sql-proxy
  image: gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.18`,
		Patch: `initContainers:
- name: cloud-sql-proxy
  image: gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.18
  restartPolicy: Always  # a sidecar: started before, stopped after
containers:
- name: orders
  lifecycle: {preStop: {sleep: {seconds: 15}}}`,
		Source: "https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/",
		check: func(_ *world, l *workload) (found []Finding) {
			p := l.pauseOf(l.main)
			if p.kind == pauseNone || p.fails(l.main) || p.stopsAtOnce() {
				return nil
			}
			for _, c := range l.containers {
				between := outbound(c) || outbound(l.main) && c.get("ports").ok()
				if c == l.main || !between {
					continue
				}
				q := l.pauseOf(c)
				message := ""
				switch {
				case q.kind == pauseNone || q.stopsAtOnce():
					message = fmt.Sprintf("container %s stops at once, while %s still serves for its pause (%s)", c.name, l.main.name, p.what)
				case !q.fails(c) && (!q.known || !p.known || q.length >= p.length):
					continue
				case q.fails(c):
					message = fmt.Sprintf("container %s stops at once, as its hook fails, while %s still serves for its pause (%s)", c.name, l.main.name, p.what)
				default:
					message = fmt.Sprintf("container %s stops after %s, while %s still serves for %s", c.name, seconds(q.length), l.main.name, seconds(p.length))
				}
				found = append(found, l.here(c.line(), message, "restartPolicy: Always  # and move it to initContainers: then it stops after the others")...)
			}
			return found
		},
	}
}
