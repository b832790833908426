package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider/window"
)

func eurekaInterval() Rule {
	return Rule{
		ID: "E012", Name: "eureka-interval", Severity: Error,
		Title: "callers by Eureka learn of a departure later than the grace period lasts",
		Why: `A caller by Eureka fetches its list every registryFetchIntervalSeconds (30 s), from a server that answers from a cache
(30 s), and Spring's load balancer keeps a list of its own (35 s): 95.5 s at the worst, even though the instance says that
it leaves. A grace period that doesn't hold that leaves no room for a pause that would help. Either the grace period
grows, or the callers' intervals shrink, in every caller; eider window --preset eureka tells what that costs.`,
		Example: `terminationGracePeriodSeconds: 30
containers:
- name: orders
  env:
  - {name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: "http://eureka:8761/eureka/"}`,
		Patch: `env:  # of every caller; and of the server: eureka.server.response-cache-update-interval-ms: 3000
- {name: EUREKA_CLIENT_REGISTRY_FETCH_INTERVAL_SECONDS, value: "5"}
- {name: SPRING_CLOUD_LOADBALANCER_CACHE_TTL, value: 2s}`,
		Source: "https://github.com/eiderhq/eider/blob/main/docs/window.md",
		check: func(_ *world, l *workload) []Finding {
			w := l.eureka()
			if w == nil || l.declared() || l.ownPause(l.main).kind == pauseSelf {
				return nil
			}
			if p := l.pauseOf(l.main); p.known && p.length >= w.Worst() {
				return nil // it was thought of; whether the grace period holds it is E001's
			}
			need := append(window.Sum{}, w...)
			if d, ok := l.deadlineOf(l.main); ok {
				need = append(need, d)
			}
			need = append(need, window.Fixed("margin", margin, ""))
			grace, line := l.grace()
			if need.Worst() <= grace.Max {
				return nil
			}
			found := l.here(line, fmt.Sprintf("a pause until callers by Eureka have heard of it takes %s, but the pod is killed after %s (%s)", tell(need), seconds(grace.Max), grace.Source),
				l.pausing(l.main, l.advised())+"; or shorter intervals in every caller")
			found[0].of = l.main
			return found
		},
	}
}

func eurekaNotTold() Rule {
	return Rule{
		ID: "E018", Name: "eureka-not-told", Severity: Error,
		Title: "the pause is over before Eureka is told",
		Why: `Spring tells Eureka that it leaves when its context closes, which is on SIGTERM, and SIGTERM comes when the hook has
ended. A hook that only sleeps thus pauses before the departure: none of its callers hear of it meanwhile, and soon after
they do the port is closed. The hook has to say it first, by Spring Cloud's endpoint serviceregistry, which must be
exposed (management.endpoints.web.exposure.include: health,serviceregistry; without health its probes fail), or by an
endpoint of the program's own, which an httpGet hook can call where the image has no shell.`,
		Example: `containers:
- name: orders
  env:
  - {name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: "http://eureka:8761/eureka/"}
  lifecycle:
    preStop: {sleep: {seconds: 98}}`,
		Patch: `  lifecycle:
    preStop:
      exec:  # the image needs a shell and curl
        command: [sh, -c, 'curl -fsS -X POST -H "Content-Type: application/json" -d "{\"status\":\"OUT_OF_SERVICE\"}"
          localhost:8080/actuator/serviceregistry || echo "Eureka was not told" >/proc/1/fd/2; sleep 98']`,
		Source: "https://github.com/spring-cloud/spring-cloud-netflix/issues/4488",
		check: func(_ *world, l *workload) []Finding {
			p := l.pauseOf(l.main)
			if l.eureka() == nil || l.ownPause(l.main).kind == pauseSelf || !p.known || p.length == 0 || p.kind == pauseHTTP || p.fails(l.main) || tells.MatchString(p.script) {
				return nil
			}
			return l.here(p.line, fmt.Sprintf("container %s sleeps for %s (%s) before Spring tells Eureka, on SIGTERM, that it leaves: its callers don't know of it meanwhile", l.main.name, seconds(p.length), p.what),
				l.pausing(l.main, max(p.length, l.advised(), advised(l.eureka()))))
		},
	}
}

// tells finds the word to a registry in a hook's script.
var tells = regexp.MustCompile(`(?i)service-?registry|/eureka/|out_of_service|deregister`)

// telling is a hook that has Eureka told before it pauses, whether or not that could be done.
func (l *workload) telling(length time.Duration) string {
	port := 8080
	for p := range l.main.get("ports").each() {
		if n, ok := p.get("containerPort").whole(); ok {
			port = n
		}
		break
	}
	if shellOf(l.main) == lacking {
		return fmt.Sprintf("lifecycle: {preStop: {httpGet: {port: %d, path: /leave}}}  # %s: an endpoint of your own, that says OUT_OF_SERVICE to Eureka and answers %d s later: the image has no shell\n"+
			"annotations: {eider.dev/pause: %[3]ds}  # %[4]s", port, ofContainer, wholeSeconds(length), ofPods)
	}
	return fmt.Sprintf(`lifecycle: {preStop: {exec: {command: [sh, -c, 'curl -fsS -X POST -H "Content-Type: application/json" -d "{\"status\":\"OUT_OF_SERVICE\"}" localhost:%d/actuator/serviceregistry || echo "Eureka was not told" >/proc/1/fd/2; sleep %d']}}}`,
		port, wholeSeconds(length)) + "  # " + ofContainer + "; the endpoint must be exposed: management.endpoints.web.exposure.include=health,serviceregistry"
}

// registers tells whether the pods enter Eureka, so that they are called without a Service.
func (l *workload) registers() bool {
	for _, c := range l.containers {
		if slices.ContainsFunc([]string{"eureka.client.register-with-eureka", "eureka.client.enabled", "spring.cloud.discovery.enabled"},
			func(name string) bool { return strings.EqualFold(c.settings.get(name).value, "false") }) {
			continue
		}
		if c.settings.get("eureka.client.service-url.defaultZone", "eureka.client.register-with-eureka", "eureka.client.enabled",
			"eureka.client.registry-fetch-interval-seconds", "eureka.instance.prefer-ip-address", "eureka.instance.hostname", "eureka.instance.instance-id",
			"eureka.instance.lease-renewal-interval-in-seconds").ok() || c.settings.leadsToEureka() {
			return true
		}
	}
	return false
}

// assumption says once of which workloads the own settings were taken for those of their callers, whose manifests aren't
// theirs: one that fetches as seldom as ever still has the old list.
func (w *world) assumption() string {
	first, more := "", 0
	for _, l := range w.workloads {
		switch {
		case len(l.assumed) == 0 || l.declared() || l.ownPause(l.main).kind == pauseSelf:
		case first == "":
			first = fmt.Sprintf("the %s of %s", strings.Join(l.assumed, " and the "), l.title())
		default:
			more++
		}
	}
	if more > 0 {
		first += fmt.Sprintf(" (and so of %s)", count(more, "other", "others"))
	}
	if first == "" {
		return ""
	}
	return "taken for granted: all callers have " + first + "; if not, eider.dev/window says how long they call"
}

// leadsToEureka tells of a setting of any name that holds Eureka's address, which ends in /eureka/ unless somebody has
// gone out of his way.
func (l layers) leadsToEureka() bool {
	for _, s := range l {
		for _, found := range s {
			if value := strings.TrimRight(found.value, "/"); strings.HasSuffix(value, "/eureka") && strings.HasPrefix(value, "http") {
				return true
			}
		}
	}
	return false
}

// eureka is the window of callers that find this workload by Eureka, nil if none do. Its own settings stand for theirs:
// mostly one fleet has one configuration.
func (l *workload) eureka() window.Sum {
	if !l.registered || l.heard != nil {
		return l.heard
	}
	set, said := map[string]string{}, map[string]string{}
	note := func(term, name string, s setting, d time.Duration) {
		set[name], said[term] = d.String(), l.at(s)
	}
	fetch := l.main.settings.get("eureka.client.registry-fetch-interval-seconds")
	if d, ok := fetch.duration(time.Second); ok && d > 0 {
		note("client cache", "client-cache", fetch, d)
	}
	ttl, enabled := l.main.settings.get("spring.cloud.loadbalancer.cache.ttl"), l.main.settings.get("spring.cloud.loadbalancer.cache.enabled")
	if d, ok := ttl.duration(time.Millisecond); ok { // as Spring reads a bare number
		note("load-balancer cache", "load-balancer-cache", ttl, d)
	}
	if strings.EqualFold(enabled.value, "false") {
		note("load-balancer cache", "load-balancer-cache", enabled, 0)
	}
	sum := planned("eureka", set)
	for i, t := range sum {
		if where, ok := said[t.Name]; ok {
			sum[i].Source = where
		}
	}
	l.heard, l.assumed = sum, slices.Sorted(maps.Values(said))
	return sum
}
