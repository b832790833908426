package lint

func notReadyPublished() Rule {
	return Rule{
		ID: "E011", Name: "not-ready-published", Severity: Warning,
		Title: "callers are sent to pods that aren't ready, and to those that leave",
		Why: `publishNotReadyAddresses lists a pod from its first moment to its last, ready or not: also while it terminates. A pause
can't end the calls then, since the list keeps the pod until it's gone. It is meant for members of a cluster that look for
each other, by a headless Service of their own; callers need a second one without it.`,
		Example: `kind: Service
spec:
  publishNotReadyAddresses: true
  selector: {app: orders}`,
		Patch: `kind: Service
spec:
  publishNotReadyAddresses: false
  selector: {app: orders}`,
		Source: "https://kubernetes.io/docs/reference/kubernetes-api/service-resources/service-v1/#ServiceSpec",
		check: func(_ *world, l *workload) (found []Finding) {
			for _, s := range l.services {
				line := s.get("spec", "publishNotReadyAddresses").line()
				old := s.annotation("service.alpha.kubernetes.io/tolerate-unready-endpoints")
				switch {
				case s.get("spec", "publishNotReadyAddresses").yes():
				case old.yes():
					line = old.line()
				default:
					continue
				}
				if s.headless() && (l.get("spec", "serviceName").text() == s.name || l.calledOtherwise()) {
					continue
				}
				found = append(found, Finding{File: s.file.name, Line: line, Object: s.title(),
					Message: "lists pods that aren't ready, and those that leave until they are gone: no pause ends their calls", Patch: "publishNotReadyAddresses: false"})
			}
			return found
		},
	}
}

func (o *object) headless() bool { return o.get("spec", "clusterIP").text() == "None" }

// calledOtherwise tells whether a Service for callers selects the pods too.
func (l *workload) calledOtherwise() bool {
	for _, s := range l.services {
		if !s.get("spec", "publishNotReadyAddresses").yes() {
			return true
		}
	}
	return false
}
