package lint

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// target takes a call's address apart: the host is as written, the port 0 if it isn't a number.
func (c call) target() (host string, port int, path string, query url.Values) {
	scheme, rest, ok := strings.Cut(c.url, "://")
	if !ok {
		scheme, rest = "http", c.url
	}
	rest, asked, _ := strings.Cut(rest, "?")
	query, _ = url.ParseQuery(asked)
	at := strings.IndexByte(rest, '/')
	if at < 0 {
		at = len(rest)
	}
	host, path = rest[:at], rest[at:]
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexAny(host, "]})") {
		port, _ = strconv.Atoi(host[colon+1:])
		return host[:colon], port, path, query
	}
	return host, map[string]int{"http": 80, "https": 443}[scheme], path, query
}

// toRegistry tells of a call of Spring's endpoint for the registry; of its older name, too.
func (c call) toRegistry() bool {
	_, _, path, _ := c.target()
	return key(path[strings.LastIndexByte(path, '/')+1:]) == registryEndpoint
}

// own tells of an address that is the pod itself: what begins with $ mostly is its IP.
func own(host string) bool {
	switch host {
	case "localhost", "127.0.0.1", "0.0.0.0", "[::1]":
		return true
	}
	return strings.HasPrefix(host, "$")
}

var statuses = regexp.MustCompile(`"?status"?\s*[:=]\s*"?([\w$]+)`)

// status is what a call says that the instance is, "" if nothing, "$…" if that isn't in its words.
func (c call) status(query url.Values) string {
	var body struct{ Status string }
	switch {
	case query.Has("status"):
		return query.Get("status")
	case query.Has("value"): // of Eureka's own
		return query.Get("value")
	case strings.HasPrefix(c.body, "@") || strings.HasPrefix(c.body, "$"):
		return "$"
	case json.Unmarshal([]byte(c.body), &body) == nil:
		return body.Status
	}
	if found := statuses.FindStringSubmatch(c.body); found != nil {
		return found[1]
	}
	return ""
}

// hears says why a call doesn't have Eureka told that the pod leaves, "" if it does; sure is false where the manifest
// doesn't show it.
func (l *workload) hears(c call) (fault string, sure bool) {
	host, port, path, query := c.target()
	status := strings.ToUpper(c.status(query))
	leaving := status == "OUT_OF_SERVICE" || status == "DOWN"
	switch {
	case strings.Contains(path, "/apps/") && c.method == "DELETE":
		return "takes it out of Eureka, and its next heartbeat brings it back", true
	case strings.Contains(path, "/apps/") && c.method == "PUT" && leaving:
		return "", true
	case !c.toRegistry() || !own(host):
		return "calls " + short(c.url) + ", and whether that tells Eureka of it can't be told from here", false
	case c.method != "POST":
		return fmt.Sprintf("asks %s (%s) and tells it nothing; what tells is a POST", registryEndpoint, short(c.method)), true
	case !strings.Contains(strings.ToLower(c.kind), "json") && !strings.HasPrefix(c.kind, "$"):
		return fmt.Sprintf("tells %s without Content-Type: application/json, and is refused (415)", registryEndpoint), true
	case strings.HasPrefix(status, "$"):
		return "tells Eureka a status that isn't written in it", false
	case !leaving:
		return fmt.Sprintf("tells Eureka the status %q; callers let go of one that is OUT_OF_SERVICE or DOWN", short(status)), true
	}
	return l.reaches(port, strings.TrimRight(path[:strings.LastIndexByte(path, '/')], "/"))
}

// reaches says why the actuator isn't at a port and a path, "" if it is.
func (l *workload) reaches(port int, path string) (fault string, sure bool) {
	a := l.actuator()
	switch {
	case port == 0 || strings.Contains(path, "$"): // a variable's
	case port != a.port && a.portBy != "":
		return fmt.Sprintf("calls port %d, but Spring's endpoints are at %d (%s)", port, a.port, a.portBy), true
	case path != a.path && a.pathBy != "":
		return fmt.Sprintf("calls %s/%s, but Spring's endpoints are at %s (%s)", short(path), registryEndpoint, a.path, a.pathBy), true
	case port != a.port && !l.main.opens(port):
		return fmt.Sprintf("calls port %d, of which nothing here says that the program listens there (MANAGEMENT_SERVER_PORT would)", port), false
	case path != a.path:
		return fmt.Sprintf("calls %s/%s, and nothing here says that Spring's endpoints are there (MANAGEMENT_ENDPOINTS_WEB_BASE_PATH would)", short(path), registryEndpoint), false
	}
	return "", true
}

func (c *container) opens(port int) bool {
	for p := range c.get("ports").each() {
		if n, ok := p.get("containerPort").whole(); ok && n == port {
			return true
		}
	}
	return false
}

// untold says why callers by Eureka don't hear of the departure while a hook pauses, "" if they do.
func (l *workload) untold(p pause) (fault string, sure bool) {
	doubt := ""
	for _, c := range p.calls {
		fault, sure := l.hears(c)
		switch {
		case fault == "" && c.after > 0 && p.length-c.after < l.windowOf().Worst():
			return fmt.Sprintf("has a hook that sleeps for %s before it tells Eureka, and %s after: its callers call it for %s", seconds(c.after), seconds(p.length-c.after), tell(l.windowOf())), true
		case fault == "" && !p.known && p.unread != "":
			return fmt.Sprintf("has a hook that runs %s, and how long that pauses can't be told from here; eider.dev/pause says it", p.unread), false
		case fault == "" && !p.known:
			return "has a hook that tells Eureka and doesn't pause: its callers call it for " + tell(l.windowOf()), true
		case fault == "":
			return "", true
		case sure:
			return "has a hook that " + fault, true
		case doubt == "":
			doubt = "has a hook that " + fault
		}
	}
	if doubt == "" && p.unread != "" {
		doubt = fmt.Sprintf("has a hook that runs %s, and whether that tells Eureka can't be told from here", p.unread)
	}
	switch {
	case doubt != "":
		return doubt + "; eider.dev/pause says how long it pauses after that", false
	case !p.known:
		return fmt.Sprintf("has a hook (%s) that neither tells Eureka nor pauses", p.what), true
	}
	return fmt.Sprintf("sleeps for %s (%s) before Spring tells Eureka, on SIGTERM, that it leaves: its callers don't know of it meanwhile", seconds(p.length), p.what), true
}
