package lint

import (
	"fmt"
	"slices"
	"strings"
)

func unreadConfig() Rule {
	return Rule{
		ID: "E023", Name: "unread-config", Severity: Warning,
		Title: "a ConfigMap that the program is given isn't among what was read",
		Why: `What a program is told stands in ConfigMaps as often as in its manifest: Eureka's address, with which callers call a pod
that leaves for 95.5 s and not for 2 s, or how long it takes to shut down. Of one that isn't here lint knows nothing, and that
it finds nothing means nothing. Give it with the workload: what helm template or kubectl kustomize renders has it, and so
has kubectl get configmap NAME -o yaml. Or say in the pods' annotations what one would look for: eider.dev/registry: eureka of
a client of Eureka, to which its rules then apply, eider.dev/registry: none of one whom callers find by its Service alone,
eider.dev/pauses: self, or eider.dev/window. It is a note where Eureka is known of already, where one value is taken, where
the ConfigMap is optional, and where files are mounted into what doesn't look like a program of Spring Boot. Secrets aren't
asked for: who keeps Eureka's address in one says eider.dev/registry.`,
		Example: `containers:
- name: orders
  envFrom:
  - configMapRef: {name: orders-config}  # and no ConfigMap orders-config was read`,
		Patch: `metadata:  # of the pods' template; or lint the ConfigMap, too
  annotations: {eider.dev/registry: eureka}  # or none`,
		Source: "https://github.com/eiderhq/eider/blob/main/docs/lint.md#what-a-manifest-cant-show",
		check: func(_ *world, l *workload) (found []Finding) {
			if l.declared() || l.annotation(registryKey).ok() || l.ownPause(l.main).kind == pauseSelf {
				return nil
			}
			for _, a := range l.absences() {
				unknown := fmt.Sprintf("Eureka's address, by which callers call a pod that leaves for %s? a shutdown's deadline?", seconds(planned("eureka", nil).Worst()))
				if l.registered {
					unknown = "its callers' intervals? a shutdown's deadline?"
				}
				f := l.here(a.line, fmt.Sprintf("container %s takes %s from ConfigMap %s, which isn't among what was read: what it sets isn't known (%s)", l.main.name, a.what, short(a.name), unknown),
					l.asking(a.name))
				if !a.grave || l.registered {
					f[0].Severity = Note
				}
				found = append(found, f...)
			}
			return found
		},
	}
}

// asking is how to have a ConfigMap looked into, or what to say instead.
func (l *workload) asking(name string) string {
	in := ""
	if l.get("metadata", "namespace").ok() {
		in = " -n " + short(l.namespace)
	}
	return fmt.Sprintf("# lint it too, by kubectl get configmap %s%s -o yaml, or with all that helm template or kubectl kustomize renders\n# or write annotations: {%s: eureka}, or none  # %s",
		short(name), in, registryKey, ofPods)
}

// registryKey is the annotation that says by what callers find the pods, where no setting shows it.
const registryKey = "eider.dev/registry"

// absence is a ConfigMap that the main container is given and that isn't here.
type absence struct {
	name, what string
	line       int
	grave      bool // it may hold whatever the program is told
}

// absences are one for each such ConfigMap, the gravest of its uses.
func (l *workload) absences() (out []absence) {
	add := func(ref node, what string, grave bool) {
		name := ref.get("name").text()
		if name == "" || slices.Contains(everywhere, name) || l.world.named[place{"ConfigMap", l.namespace, name}] != nil {
			return
		}
		a := absence{name, what, ref.get("name").line(), grave && !ref.get("optional").yes()}
		switch i := slices.IndexFunc(out, func(o absence) bool { return o.name == name }); {
		case i >= 0 && a.grave && !out[i].grave:
			out[i] = a
		case i < 0 && len(out) < maxComplaints:
			out = append(out, a)
		}
	}
	for from := range l.main.get("envFrom").each() {
		add(from.get("configMapRef"), "its environment", true)
	}
	for env := range l.main.get("env").each() {
		add(env.get("valueFrom", "configMapKeyRef"), short(env.get("name").text()), false)
	}
	mounts := map[string]bool{}
	for mount := range l.main.get("volumeMounts").each() {
		mounts[mount.get("name").text()] = true
	}
	for volume := range l.pod.get("volumes").each() {
		if !mounts[volume.get("name").text()] {
			continue
		}
		add(volume.get("configMap"), "files", l.spring)
		for part := range volume.get("projected", "sources").each() {
			add(part.get("configMap"), "files", l.spring)
		}
	}
	return out
}

// everywhere are the ConfigMaps that a cluster itself puts into each namespace: certificates, of which nobody has a manifest.
var everywhere = []string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}

// registry is what an annotation says that callers find the pods by, "" if nothing.
func (l *workload) registry() string { return strings.ToLower(l.annotation(registryKey).text()) }
