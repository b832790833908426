package lint

import (
	"cmp"
	"fmt"
	"maps"
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
it leaves. That is the window; the pause is to be as long, and the grace period has to hold the pause and what comes after
it. One that is shorter leaves no room for a pause that would help. Either the grace period grows, or the callers'
intervals shrink, in every caller; eider window --preset eureka tells what that costs.`,
		Example: `terminationGracePeriodSeconds: 30
containers:
- name: orders
  env:
  - {name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: "http://eureka:8761/eureka/"}`,
		Patch: `terminationGracePeriodSeconds: 135  # the hook's call 5 s + pause 98 s + requests in flight 30 s + margin 2 s
# or shorter intervals, in every caller's env, and in the server's (eureka.server.response-cache-update-interval-ms: 3000):
# - name: EUREKA_CLIENT_REGISTRY_FETCH_INTERVAL_SECONDS
#   value: "5"
# - name: SPRING_CLOUD_LOADBALANCER_CACHE_TTL
#   value: 2s`,
		Source: "https://github.com/eiderhq/eider/blob/main/docs/window.md",
		check: func(_ *world, l *workload) []Finding {
			w := l.eureka()
			if w == nil || l.declared() || l.ownPause(l.main).kind == pauseSelf {
				return nil
			}
			if p := l.pauseOf(l.main); p.known && p.length >= w.Worst() {
				return nil // it was thought of; whether the grace period holds it is E001's
			}
			need := append(l.calling(), window.Fixed("pause", advised(w), ""))
			write := l.holding(l.main, need)
			if write == "" {
				return nil
			}
			grace, line := l.grace()
			found := l.here(line, fmt.Sprintf("callers by Eureka may call a pod that leaves for %s, and the pod is killed after %s (%s)", tell(w), seconds(grace.Max), grace.Source),
				write+"; or shorter intervals in every caller")
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
they do the port is closed. The hook has to say it first, by a POST of OUT_OF_SERVICE or DOWN, as JSON, to Spring Cloud's
endpoint serviceregistry, which must be exposed (E019), at the port and path where it is, or by an endpoint of the
program's own, which an httpGet hook can call where the image has no shell. Whoever may call either takes the instance out
of service: let that not be everybody who may call the program, but give the endpoints a port of their own
(MANAGEMENT_SERVER_PORT, which no Service and no Ingress leads to), or have Spring Security let in 127.0.0.1 alone. What a
script or a program of the image's own does isn't seen: that is a note, until eider.dev/pause says how long it pauses after
it has told Eureka.`,
		Example: `containers:
- name: orders
  env:
  - {name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: "http://eureka:8761/eureka/"}
  lifecycle:
    preStop: {sleep: {seconds: 98}}`,
		Patch: `  env:
  - name: MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE
    value: health,serviceregistry  # and what else application.yml exposes: this replaces its list
  - name: SERVER_SHUTDOWN  # before Spring Boot 3.4 it is immediate unless set
    value: graceful
  lifecycle:
    preStop:
      exec:  # the image needs sh and curl
        command: [sh, -c, 'curl -fsS --max-time 5 -X POST -H "Content-Type: application/json" -d "{\"status\":\"OUT_OF_SERVICE\"}"
          localhost:8080/actuator/serviceregistry || echo "Eureka was not told" >/proc/1/fd/2; sleep 98']`,
		Source: "https://github.com/spring-cloud/spring-cloud-netflix/issues/4488",
		check: func(_ *world, l *workload) []Finding {
			p := l.pauseOf(l.main)
			if l.eureka() == nil || l.ownPause(l.main).kind == pauseSelf || p.kind == pauseHTTP || p.kind == pauseNone || p.stopsAtOnce() || p.fails(l.main) {
				return nil
			}
			fault, sure := l.untold(p)
			found := l.here(p.line, "container "+l.main.name+" "+fault, l.pausing(l.main, max(p.length, l.advised(), advised(l.eureka()))))
			switch {
			case fault == "" || !sure && l.annotation("eider.dev/pause").ok(): // whoever says how long it pauses has thought of it
				return nil
			case !sure:
				found[0].Severity = Note
			}
			return found
		},
	}
}

// telling is a hook that has Eureka told before it pauses, whether or not that could be done.
func (l *workload) telling(length time.Duration) []string {
	a, body, insecure := l.actuator(), `"{\"status\":\"OUT_OF_SERVICE\"}"`, ""
	var ask string
	switch client := clientOf(l.main); client {
	case "":
		return []string{fmt.Sprintf("lifecycle: {preStop: {httpGet: {port: %d, path: /leave}}}  # %s: an endpoint of your own, since the image has nothing to call with; it does serviceRegistry.setStatus(registration, \"OUT_OF_SERVICE\") and then Thread.sleep(%d_000)",
			a.port, ofContainer, wholeSeconds(length)), fmt.Sprintf("annotations: {eider.dev/pause: %ds}  # %s: how long /leave waits before it answers, which nothing else here shows", wholeSeconds(length), ofPods)}
	case "wget":
		if a.secure {
			insecure = "--no-check-certificate "
		}
		ask = fmt.Sprintf(`timeout %d wget -q -O /dev/null %s--header "Content-Type: application/json" --post-data %s %s`, wholeSeconds(calls), insecure, body, a.url("127.0.0.1", registryEndpoint))
	default:
		if a.secure {
			insecure = "-k "
		}
		ask = fmt.Sprintf(`curl -fsS --max-time %d %s-X POST -H "Content-Type: application/json" -d %s %s`, wholeSeconds(calls), insecure, body, a.url("localhost", registryEndpoint))
	}
	return []string{fmt.Sprintf(`lifecycle: {preStop: {exec: {command: [sh, -c, '%s || echo "Eureka was not told" >/proc/1/fd/2; sleep %d']}}}  # %s; the image needs sh and %s`,
		ask, wholeSeconds(length), ofContainer, clientOf(l.main))}
}

// calls is how long a hook waits for the program to tell Eureka: one that hangs must not eat the grace period.
const calls = 5 * time.Second

// calling is what that takes of the grace period.
func (l *workload) calling() window.Sum {
	if clientOf(l.main) == "" {
		return nil
	}
	return window.Sum{window.Fixed("call", calls, "")}
}

// settled are the settings that a hook and the shutdown after it need.
func (l *workload) settled() (rows []string) {
	advice := ""
	if l.registered {
		for _, b := range l.barriers(l.endpoints()) {
			if row := l.opening(b); !b.unseen && !slices.Contains(rows, row) {
				rows = append(rows, row)
				advice = cmp.Or(advice, l.guarding(b))
			}
		}
	}
	rows = append(rows, l.graceful()...)
	if advice != "" {
		rows = append(rows, advice)
	}
	return rows
}

// guarding is what to think of before an endpoint is opened that takes an instance out of service, "" where it's at a port
// of its own.
func (l *workload) guarding(b barrier) string {
	server, own := l.main.settings.get("server.port"), l.main.settings.get("management.server.port")
	if b.endpoint != registryEndpoint || b.name != exposure || own.ok() && own.value != cmp.Or(server.value, "8080") {
		return ""
	}
	return guard
}

const guard = "# whoever may call serviceregistry takes the instance out of service: keep others from it by a port of its own (MANAGEMENT_SERVER_PORT; probes and hook then ask there) or a rule of Spring Security"

// registers tells whether the pods enter Eureka, so that they are called without a Service. An annotation knows it better
// than settings do, of which some are in the program's jar.
func (l *workload) registers() bool {
	if said := l.registry(); said == "eureka" || said == "none" {
		return said == "eureka"
	}
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
	first := w.assumed
	if w.assuming > 1 {
		first += fmt.Sprintf(" (and so of %s)", count(w.assuming-1, "other", "others"))
	}
	if first == "" {
		return ""
	}
	return "taken for granted: all callers are set as " + first + "; if not, eider.dev/window says how long they call"
}

// assume notes of a workload that was held to the rules what was taken for its callers'.
func (w *world) assume(l *workload) {
	if len(l.assumed) == 0 || l.declared() || l.ownPause(l.main).kind == pauseSelf {
		return
	}
	if w.assuming++; w.assuming == 1 {
		told := make([]string, len(l.assumed))
		for i, setting := range l.assumed {
			name, where, _ := strings.Cut(setting, ", ")
			told[i] = fmt.Sprintf("%s (%s)", name, where)
		}
		w.assumed = fmt.Sprintf("%s is: %s", l.title(), strings.Join(told, ", "))
	}
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
