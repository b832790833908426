package lint

import "fmt"

func misplacedKey() Rule {
	return Rule{
		ID: "E020", Name: "misplaced-key", Severity: Error,
		Title: "a key stands where Kubernetes doesn't read it",
		Why: `terminationGracePeriodSeconds is the pod's, beside containers; lifecycle is a container's, beside image. In each other's
place an API server that validates refuses them, and one that doesn't drops them: the pod has no hook, or 30 s.`,
		Example: `containers:
- name: orders
  terminationGracePeriodSeconds: 60`,
		Patch: `terminationGracePeriodSeconds: 60
containers:
- name: orders`,
		Source: "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodSpec",
		check: func(_ *world, l *workload) (found []Finding) {
			const grace = "terminationGracePeriodSeconds"
			complain := func(n node, key, where, place string) {
				if value := n.get(key); value.ok() {
					found = append(found, l.here(n.keyLine(key), fmt.Sprintf("%s stands in %s, where nothing reads it", key, where), key+": "+short(value.text())+"  # "+place)...)
				}
			}
			for _, list := range []string{"containers", "initContainers"} {
				for c := range l.pod.get(list).each() {
					if len(found) < maxContainers {
						complain(c, grace, "container "+short(c.get("name").text()), ofPod)
						complain(c, "preStop", "container "+short(c.get("name").text())+" itself", ofContainer+": lifecycle: {preStop: …}")
					}
				}
			}
			complain(l.pod, "lifecycle", "the pod's spec", ofContainer)
			complain(l.pod, "preStop", "the pod's spec", ofContainer+": lifecycle: {preStop: …}")
			if l.kind != "Pod" {
				complain(l.get("spec"), grace, "the spec of "+l.title(), ofPod)
				complain(l.template, grace, "the pods' template", ofPod)
			}
			return found
		},
	}
}
