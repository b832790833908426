package lint

import (
	"fmt"
	"slices"
	"strings"
)

func probeNotExposed() Rule {
	return Rule{
		ID: "E019", Name: "probe-not-exposed", Severity: Error,
		Title: "a probe asks for an endpoint that the program doesn't expose",
		Why: `management.endpoints.web.exposure.include replaces Spring's default, which is health. Who exposes serviceregistry for
his hook and forgets health takes the probes' endpoint away: they get 404, no new pod becomes ready, and the livenessProbe
has each restarted.`,
		Example: `env:
- {name: MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE, value: serviceregistry}
readinessProbe:
  httpGet: {path: /actuator/health/readiness, port: 8080}`,
		Patch:  `- {name: MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE, value: "health,serviceregistry"}`,
		Source: "https://docs.spring.io/spring-boot/reference/actuator/endpoints.html#actuator.endpoints.exposing",
		check: func(_ *world, l *workload) (found []Finding) {
			exposed := l.main.settings.get("management.endpoints.web.exposure.include")
			if !exposed.ok() || exposed.value == "" {
				return nil // of a list in a file that isn't one scalar nothing is known
			}
			ids := strings.FieldsFunc(exposed.value, func(r rune) bool { return r == ',' || r == ' ' })
			if slices.Contains(ids, "*") || slices.Contains(ids, "health") {
				return nil
			}
			for _, probe := range probes {
				path := l.main.get(probe, "httpGet", "path").text()
				if !strings.Contains(path+"/", "/actuator/health/") {
					continue
				}
				return []Finding{{File: exposed.file, Line: exposed.line,
					Message: fmt.Sprintf("container %s exposes %s alone, but its %s asks for %s: that is 404, and no pod gets ready", l.main.name, short(exposed.value), probe, short(path)),
					Patch:   fmt.Sprintf("%s: \"health,%s\"", exposed.name, strings.Join(ids, ","))}}
			}
			return nil
		},
	}
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
