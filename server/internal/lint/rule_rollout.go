package lint

import (
	"cmp"
	"fmt"
)

func allAtOnce() Rule {
	return Rule{
		ID: "E007", Name: "all-at-once", Severity: Error,
		Title: "a rollout takes every pod away before a new one serves",
		Why: `With maxUnavailable as large as the number of replicas, or with Recreate, Kubernetes may stop all old pods first. No
pause helps then: there is nobody to go to until the new ones are ready. One replica is enough for a rollout without an
outage, if the second comes before the first goes. Where the pods hold a volume that only one of them can mount, it
can't be helped, and nothing is said.`,
		Example: `spec:
  replicas: 1
  strategy:
    rollingUpdate: {maxSurge: 0, maxUnavailable: 1}`,
		Patch: `  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}`,
		Source: "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#strategy",
		check: func(_ *world, l *workload) []Finding {
			if l.claimsVolume() {
				return nil
			}
			_, key, _, _ := l.strategy()
			patch := map[string]string{"Deployment": "strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
				"Rollout": "strategy: {canary: {maxSurge: 1, maxUnavailable: 0}}", "CloneSet": "updateStrategy: {maxSurge: 1, maxUnavailable: 0}"}[l.rolled.kind]
			switch {
			case l.kind == "DaemonSet" && l.get("spec", "updateStrategy", "rollingUpdate", "maxUnavailable").text() == "100%":
				return l.here(l.keyLine("spec", "updateStrategy"), "a rollout stops the pods of all nodes at once", "updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}")
			case !l.rolls() || !l.allAtOnce():
				return nil
			case l.recreates():
				found := l.here(l.keyLine("spec", "strategy"), "Recreate stops all pods before it starts the next: every rollout is an outage", patch)
				found[0].Severity = Warning // somebody has chosen it
				return found
			}
			return []Finding{{File: l.rolled.file.name, Line: cmp.Or(l.rolled.keyLine("spec", key), l.rolled.line()), Object: l.rolled.title(),
				Message: fmt.Sprintf("a rollout may take away all of at least %s before a new one serves", count(l.replicas(), "pod", "pods")), Patch: patch}}
		},
	}
}

// claimsVolume tells of pods that share one claim: mostly only one of them can mount it, so that the old has to go
// before the new comes.
func (l *workload) claimsVolume() bool {
	for volume := range l.pod.get("volumes").each() {
		if volume.get("persistentVolumeClaim").ok() {
			return true
		}
	}
	return false
}
