package lint

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// userland is whether an image has a shell and a sleep.
type userland int

const (
	unknown userland = iota
	having
	lacking
)

var (
	// bare are words of names and tags of images that have nothing but the program.
	bare      = regexp.MustCompile(`(?:^|[/:._-])(?:distroless|scratch|static|chiseled|chainguard|nonroot|tiny)(?:$|[/:._@-])`)
	debugging = regexp.MustCompile(`[:-](?:debug|dev)\b`)
	// furnished are those of images that are built on a distribution.
	furnished = regexp.MustCompile(`(?:^|[/:._-])(?:alpine[\d.]*|debian|ubuntu|busybox|slim|bookworm|bullseye|buster|trixie|jammy|noble|focal|ubi\d*|amazonlinux|al2|al2023|centos|fedora|rockylinux|photon|debug|dev|bitnami|bitnamilegacy)(?:$|[/:._@-])`)
)

// official are images of Docker's library (and a few others), all with a shell.
var official = []string{"nginx", "httpd", "redis", "postgres", "mysql", "mariadb", "rabbitmq", "mongo", "tomcat", "jetty", "eclipse-temurin", "openjdk",
	"amazoncorretto", "node", "python", "ruby", "php", "golang", "haproxy", "kong", "wordpress", "ghost", "traefik", "caddy", "memcached", "registry",
	"elasticsearch", "kibana", "logstash", "zookeeper", "cassandra", "influxdb", "vault", "consul", "grafana/grafana", "nginxinc/nginx-unprivileged",
	"envoyproxy/envoy", "istio/proxyv2", "registry.k8s.io/ingress-nginx/controller", "prom/prometheus", "quay.io/prometheus/prometheus", "quay.io/keycloak/keycloak"}

// shellOf judges by the image's name, and by what else the manifest has it do: a container that begins with a shell,
// or is probed by one, has one.
func shellOf(c *container) userland {
	name, _, _ := strings.Cut(c.image, "@")
	plain, _ := published(c)
	command := c.get("command").texts()
	switch {
	case len(command) > 0 && slices.Contains(shells, program(command[0])):
		return having
	case probedByShell(c):
		return having
	case bare.MatchString(name) && !debugging.MatchString(name):
		return lacking
	case furnished.MatchString(name) || slices.Contains(official, plain):
		return having
	}
	return unknown
}

// published is an image's name in Docker's library or elsewhere, and its tag.
func published(c *container) (name, tag string) {
	name, _, _ = strings.Cut(c.image, "@")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "docker.io/"), "library/")
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		return name[:at], name[at+1:]
	}
	return name, ""
}

var (
	// jvms are images of Java as they are published; what is built on them may have more.
	jvms   = []string{"eclipse-temurin", "openjdk", "amazoncorretto", "bellsoft/liberica-openjdk-alpine", "bellsoft/liberica-openjre-alpine", "azul/zulu-openjdk-alpine", "azul/zulu-openjdk"}
	alpine = regexp.MustCompile(`(?:^|[/:._-])(?:alpine[\d.]*|busybox)(?:$|[/:._@-])`)
	redHat = regexp.MustCompile(`\b(?:ubi\d*|centos)\b`)
)

// lacks tells of a published image that a program isn't in it: alpine's have wget (busybox') and no curl, Debian's slim
// neither, and Temurin's since Java 22 have wget alone.
func lacks(c *container, program string) bool {
	name, tag := published(c)
	switch {
	case !slices.Contains(jvms, name):
		return false
	case alpine.MatchString(c.image):
		return program == "curl"
	case strings.Contains(tag, "slim"):
		return program == "curl" || program == "wget"
	}
	major, _, _ := strings.Cut(strings.ReplaceAll(tag, "-", "."), ".")
	version, _ := strconv.Atoi(major)
	return program == "curl" && name == "eclipse-temurin" && version >= 22 && !redHat.MatchString(tag)
}

// clientOf is the program by which a hook in an image calls over HTTP, "" if it has no shell or no such program.
func clientOf(c *container) string {
	name, tag := published(c)
	client := "curl"
	if alpine.MatchString(c.image) || name == "eclipse-temurin" && !redHat.MatchString(tag) {
		client = "wget"
	}
	if shellOf(c) == lacking || lacks(c, client) {
		return ""
	}
	return client
}

func probedByShell(c *container) bool {
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		if words := c.get(probe, "exec", "command").texts(); len(words) > 0 && slices.Contains(shells, program(words[0])) {
			return true
		}
	}
	return false
}

// program is the name of what a command runs.
func program(word string) string { return word[strings.LastIndexByte(word, '/')+1:] }

// proxies are programs that stand between the network and another container of the pod, by words of image or name.
var proxies = regexp.MustCompile(`(?:^|[/:._-])(?:envoy|istio-proxy|proxyv2|linkerd-proxy|cloud-?sql-proxy|gce-proxy|alloydb-auth-proxy|oauth2-proxy|daprd|pgbouncer|consul-dataplane|kuma-(?:sidecar|dp)|haproxy|ambassador|kube-rbac-proxy)(?:$|[/:._@-])`)

// outbound tells of a container that is such a proxy.
func outbound(c *container) bool {
	name, _, _ := strings.Cut(c.image, "@")
	return proxies.MatchString(c.name) || proxies.MatchString(name)
}
