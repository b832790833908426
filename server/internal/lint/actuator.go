package lint

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// actuator is where Spring's endpoints are called, as far as the manifest tells.
type actuator struct {
	secure         bool
	port           int
	path           string // of all endpoints: "/actuator"
	portBy, pathBy string // which setting or probe says so, "" for a guess
}

// url is how a program of the pod calls an endpoint; host is its own name, or its address where a program tries only one.
func (a actuator) url(host, endpoint string) string {
	scheme := ""
	if a.secure {
		scheme = "https://"
	}
	return fmt.Sprintf("%s%s:%d%s/%s", scheme, host, a.port, a.path, endpoint)
}

// actuator asks the settings first, then a probe of health, which is an endpoint as well, then the container's ports.
func (l *workload) actuator() actuator {
	a := actuator{port: 8080}
	set := l.main.settings.get
	server, own := set("server.port"), set("management.server.port")
	for _, s := range []setting{server, own} {
		if n, err := strconv.Atoi(s.value); err == nil && n > 0 {
			a.port, a.portBy = n, l.at(s)
		}
	}
	before := set("server.servlet.context-path", "spring.webflux.base-path")
	if own.ok() && own.value != cmp.Or(server.value, "8080") { // a server of its own
		before = set("management.server.base-path")
	}
	base, path := set("management.endpoints.web.base-path"), "/actuator"
	if base.ok() {
		path, a.pathBy = trimmed(base.value), l.at(base)
	}
	a.path = path
	if before.ok() {
		a.path, a.pathBy = trimmed(before.value)+path, l.at(before)
	}
	for _, name := range probes {
		asked := l.main.get(name, "httpGet")
		at := strings.Index(asked.get("path").text()+"/", path+"/health/")
		port := l.main.portOf(asked.get("port").text())
		if at < 0 || port == 0 || a.portBy != "" && port != a.port {
			continue
		}
		a.port, a.secure = port, strings.EqualFold(asked.get("scheme").text(), "https")
		if a.portBy == "" {
			a.portBy = "its " + name
		}
		if !before.ok() {
			a.path, a.pathBy = trimmed(asked.get("path").text()[:at])+path, "its "+name
		}
		return a
	}
	for p := range l.main.get("ports").each() {
		if n, ok := p.get("containerPort").whole(); ok && a.portBy == "" {
			a.port = n
			break
		}
	}
	return a
}

// trimmed is a prefix of paths: "/api", or "" for "/".
func trimmed(path string) string {
	if path = strings.Trim(path, "/"); path == "" {
		return ""
	}
	return "/" + path
}

// portOf is a port by its number or its name, 0 if it isn't known.
func (c *container) portOf(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	for p := range c.get("ports").each() {
		if n, ok := p.get("containerPort").whole(); ok && text != "" && p.get("name").text() == text {
			return n
		}
	}
	return 0
}

// list is a setting of several values: with commas, or each with its index. What is empty or refers to something else
// isn't known.
func (l layers) list(name string) (s setting, values []string, known bool) {
	name = key(name)
	for _, layer := range l {
		if found, ok := layer[name]; ok {
			values = strings.FieldsFunc(found.value, func(r rune) bool { return r == ',' || r == ' ' })
			return found, values, len(values) > 0 && !strings.Contains(found.value, "$")
		}
		for i := range maxItems {
			found, ok := layer[name+strconv.Itoa(i)]
			if !ok {
				break
			}
			if s.name == "" {
				s = found
			}
			values = append(values, found.value)
		}
		if s.ok() {
			return s, values, true
		}
	}
	return setting{}, nil, false
}

// barrier is what keeps an endpoint from being called, and the setting that opens it.
type barrier struct {
	endpoint    string
	at          setting // what closes it; none if nothing opens it
	fault       string
	name, value string
	unseen      bool // what it holds isn't in the manifest
}

// barriers are all before some endpoints: that they aren't exposed, are excluded, or may not be used.
func (l *workload) barriers(endpoints []string) (found []barrier) {
	set := l.main.settings.get
	include, included, known := l.main.settings.list("management.endpoints.web.exposure.include")
	exclude, excluded, _ := l.main.settings.list("management.endpoints.web.exposure.exclude")
	if !include.ok() {
		included = []string{"health"}
	}
	wanted, kept := slices.Clone(included), slices.Clone(excluded)
	if l.scraped() && !names(included, "prometheus") {
		wanted = append(wanted, "prometheus")
	}
	for _, endpoint := range endpoints {
		if !names(included, endpoint) {
			wanted = append(wanted, endpoint)
		}
		kept = slices.DeleteFunc(kept, func(id string) bool { return id == "*" || key(id) == endpoint })
	}
	for _, endpoint := range endpoints {
		if port := set("management.server.port"); strings.HasPrefix(port.value, "-") {
			found = append(found, barrier{endpoint, port, "is closed", "MANAGEMENT_SERVER_PORT", portOf(l.main), false})
		}
		if unseen := include.ok() && !known; !names(included, endpoint) && (!unseen || endpoint == registryEndpoint) {
			found = append(found, barrier{endpoint, include, "isn't exposed", exposure, strings.Join(wanted, ","), unseen})
		}
		if names(excluded, endpoint) {
			found = append(found, barrier{endpoint, exclude, "is excluded", "MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_EXCLUDE", strings.Join(kept, ","), false})
		}
		for _, s := range l.denied(endpoint) {
			name, value := "MANAGEMENT_ENDPOINT_"+strings.ToUpper(endpoint)+"_ACCESS", "unrestricted"
			switch {
			case strings.HasPrefix(key(s.name), "managementendpointsaccessmax"):
				name = "MANAGEMENT_ENDPOINTS_ACCESS_MAXPERMITTED"
			case s.is("enabled") || s.is("enabledbydefault"):
				name, value = "MANAGEMENT_ENDPOINT_"+strings.ToUpper(endpoint)+"_ENABLED", "true"
			}
			found = append(found, barrier{endpoint, s, "may not be called", name, value, false})
		}
	}
	return found
}

// denied are the settings that forbid to use an endpoint, or to write to the registry's.
func (l *workload) denied(endpoint string) []setting {
	set := l.main.settings.get
	own := set("management.endpoint."+endpoint+".access", "management.endpoint."+endpoint+".enabled")
	if !own.ok() {
		own = set("management.endpoints.access.default", "management.endpoints.enabled-by-default")
	}
	return slices.DeleteFunc([]setting{set("management.endpoints.access.max-permitted"), own}, func(s setting) bool {
		value := key(s.value)
		return value != "none" && value != "false" && (value != "readonly" || endpoint != registryEndpoint)
	})
}

// names tells whether a list has an endpoint, as Spring compares them: letters alone.
func names(ids []string, endpoint string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return id == "*" || key(id) == endpoint })
}

// opening is what to write so that a barrier is none: an entry of the environment, which is stronger than every file; or
// what stands in the program's arguments, which is stronger than that.
func (l *workload) opening(b barrier) string {
	why := ""
	if b.name == exposure && !b.at.ok() {
		why = "it replaces the list in your application.yml: add what else you expose"
	}
	return l.entry(b.name, b.value, why)
}

const exposure = "MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE"

// entry is an entry of the container's env, in place of a setting that stands there already.
func (l *workload) entry(name, value, why string) string {
	old := l.main.settings.get(name)
	where := "in the container's env"
	for layer, form := range []string{"- %s=%s  # in the container's args, in place of line %d", `# in SPRING_APPLICATION_JSON: %q: %q, in place of line %d`, "# -D%s=%s in place of the one of line %d", ""} {
		if _, ok := l.main.settings[layer][key(name)]; !ok {
			continue
		}
		if layer < environment {
			return fmt.Sprintf(form, old.name, value, old.line)
		}
		name, where = old.name, fmt.Sprintf("%s, in place of line %d", where, old.line)
		break
	}
	if why != "" {
		where += "; " + why
	}
	return fmt.Sprintf("- name: %s  # %s\n  value: %s", name, where, scalar(value))
}

// environment is the layer of a container's own env, which settingsOf ranks behind three others.
const environment = 3

var plain = regexp.MustCompile(`^[A-Za-z][\w,.-]*$`)

// scalar writes a value as YAML that is a string.
func scalar(value string) string {
	if plain.MatchString(value) && !slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}, strings.ToLower(value)) {
		return value
	}
	return strconv.Quote(value)
}
