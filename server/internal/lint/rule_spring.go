package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func endpointClosed() Rule {
	return Rule{
		ID: "E019", Name: "endpoint-closed", Severity: Error,
		Title: "a probe or a hook asks for an endpoint that the program doesn't expose",
		Why: `Spring Boot exposes health over HTTP, and nothing else. management.endpoints.web.exposure.include replaces that: who exposes
serviceregistry for his hook and forgets health takes the probes' endpoint away, so that they get 404 and no new pod becomes
ready; who forgets serviceregistry has a hook that tells Eureka nothing, and a rollout shows no sign of it. Settings that
exclude an endpoint, or that forbid to write to it, do the same. Where the manifest says nothing of it the program's own
application.yml may, which isn't seen from here: a warning. What the manifest says replaces the list in application.yml, so
that all that is exposed there is to be named here too, prometheus for one: the patch names it if an annotation
prometheus.io/path, a ServiceMonitor or a PodMonitor among what was read asks for it. MANAGEMENT_SERVER_PORT moves all
endpoints to a port of their own: a probe that goes on asking the program's port for them gets 404.`,
		Example: `env:
- {name: MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE, value: serviceregistry}
readinessProbe:
  httpGet: {path: /actuator/health/readiness, port: 8080}`,
		Patch: `env:
- name: MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE
  value: serviceregistry,health  # and what else application.yml exposes: this replaces its list`,
		Source: "https://docs.spring.io/spring-boot/reference/actuator/endpoints.html#actuator.endpoints.exposing",
		check: func(_ *world, l *workload) (found []Finding) {
			hook := l.pauseOf(l.main)
			probe, path := l.probed()
			for _, b := range l.barriers(l.endpoints()) {
				harm := fmt.Sprintf("its %s asks for %s and is refused, and no pod gets ready", probe, short(path))
				if b.endpoint == registryEndpoint {
					if !slices.ContainsFunc(hook.calls, call.toRegistry) {
						continue // which the patch of a pause opens
					}
					harm = "its hook is refused, and Eureka isn't told"
				}
				f := Finding{File: b.at.file, Line: b.at.line, Patch: joined(l.entries(l.opening(b)), l.guarding(b)),
					Message: fmt.Sprintf("container %s needs its endpoint %s, which %s: %s is %q; %s", l.main.name, b.endpoint, b.fault, b.at.name, short(b.at.value), harm)}
				switch {
				case b.unseen:
					f.Severity, f.Message = Note, fmt.Sprintf("container %s needs its endpoint %s; whether %s names it can't be told from here", l.main.name, b.endpoint, b.at.name)
				case !b.at.ok():
					f = l.here(hook.line, fmt.Sprintf("container %s needs its endpoint %s, which nothing here exposes, nor does Spring Boot by itself: unless its jar does, %s", l.main.name, b.endpoint, harm), f.Patch)[0]
					f.Severity = Warning
				}
				found = append(found, f)
			}
			return append(found, l.misaimed()...)
		},
	}
}

// misaimed are the probes that ask the program's own port for an endpoint which a setting has moved to another.
func (l *workload) misaimed() (found []Finding) {
	own := l.main.settings.get("management.server.port")
	moved, err := strconv.Atoi(own.value)
	if err != nil || moved <= 0 {
		return nil // which is a barrier, or not known
	}
	harms := map[string]string{"readinessProbe": "no pod gets ready", "livenessProbe": "its pods are killed over and over", "startupProbe": "its pods are killed before they serve"}
	for _, probe := range probes {
		asked := l.main.get(probe, "httpGet")
		path, port := asked.get("path").text(), l.main.portOf(asked.get("port").text())
		if !l.healths(path) || port == 0 || port == moved || slices.ContainsFunc(append(l.containers, l.sidecars...), func(c *container) bool { return c != l.main && c.opens(port) }) {
			continue // another container answers there
		}
		found = append(found, l.here(asked.get("port").line(), fmt.Sprintf("the %s of container %s asks port %d for %s, but Spring's endpoints are at %d (%s): it gets 404, and %s",
			probe, l.main.name, port, short(path), moved, l.at(own), harms[probe]), fmt.Sprintf("port: %d  # in httpGet of the %s", moved, probe))...)
	}
	return found
}

// healths tells of a path that it is the endpoint health's.
func (l *workload) healths(path string) bool {
	base := "/actuator"
	if s := l.main.settings.get("management.endpoints.web.base-path"); s.ok() {
		base = trimmed(s.value)
	}
	return strings.Contains(path+"/", base+"/health/")
}

// registryEndpoint is Spring Cloud's, which has a registry told.
const registryEndpoint = "serviceregistry"

// endpoints are those of Spring that probes ask for, and that a hook has to call.
func (l *workload) endpoints() (needed []string) {
	if probe, _ := l.probed(); probe != "" {
		needed = append(needed, "health")
	}
	if l.registered && clientOf(l.main) != "" || slices.ContainsFunc(l.hookOf(l.main).calls, call.toRegistry) {
		needed = append(needed, registryEndpoint)
	}
	return needed
}

// probed is a probe that asks the actuator for health, and its path.
func (l *workload) probed() (probe, path string) {
	for _, probe := range probes {
		if path := l.main.get(probe, "httpGet", "path").text(); l.healths(path) {
			return probe, path
		}
	}
	return "", ""
}

// entries are rows for a container's env, with env itself where there is none.
func (l *workload) entries(rows ...string) string {
	if !l.main.get("env").ok() && slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, "- name") }) {
		rows = slices.Insert(rows, 0, "env:  # "+ofContainer)
	}
	return strings.Join(rows, "\n")
}

// graceful is what to write, beside a pause, so that the program then finishes what it has in flight.
func (l *workload) graceful() []string {
	if s := l.main.settings.get("server.shutdown"); !l.spring || s.ok() && !strings.EqualFold(s.value, "immediate") {
		return nil
	}
	return []string{l.entry("SERVER_SHUTDOWN", "graceful", "before Spring Boot 3.4 it is immediate unless set")}
}

// probes are the kinds that a container may have.
var probes = []string{"startupProbe", "readinessProbe", "livenessProbe"}

// boots tells of a program of Spring Boot, by its settings or by what its probes ask for.
func (l *workload) boots() bool {
	for _, probe := range probes {
		if strings.Contains(l.main.get(probe, "httpGet", "path").text(), "/actuator/health") {
			return true
		}
	}
	for _, layer := range l.main.settings {
		for name := range layer {
			if strings.HasPrefix(name, "spring") {
				return true
			}
		}
	}
	return false
}
