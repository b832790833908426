package lint

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider/server/internal/balancers"
	"github.com/eiderhq/eider/window"
)

// draining is how long a load balancer lets requests to a pod that leaves run on, and where that is set.
type draining struct {
	object *object
	what   string
	delay  time.Duration
	line   int
	write  string // what to write, with %d for the seconds
}

const (
	awsService  = "service.beta.kubernetes.io/aws-load-balancer-"
	albIngress  = "alb.ingress.kubernetes.io/"
	agicIngress = "appgw.ingress.kubernetes.io/"
	gkeBackends = "cloud.google.com/backend-config"
	gkeGroups   = "cloud.google.com/neg"
)

// ingresses are those that lead to a workload's Services.
func (l *workload) ingresses() (out []*object) {
	for _, s := range l.services {
		for _, in := range l.world.behind[place{"Service", s.namespace, s.name}] {
			if in.kind == "Ingress" && !slices.Contains(out, in) {
				out = append(out, in)
			}
		}
	}
	return out
}

// drainings are those that the manifests set, of AWS', Azure's and Google's load balancers.
func (l *workload) drainings() (out []draining) {
	for _, o := range append(l.ingresses(), l.services...) {
		for _, key := range []string{awsService + "target-group-attributes", albIngress + "target-group-attributes"} {
			const name = "deregistration_delay.timeout_seconds"
			n := o.annotation(key)
			if d, ok := duration(attribute(n.text(), name), time.Second); ok {
				out = append(out, draining{o, name, d, n.line(), name + ": %d"})
			}
		}
		if n := o.annotation(awsService + "connection-draining-timeout"); o.annotation(awsService + "connection-draining-enabled").yes() {
			if d, ok := duration(n.text(), time.Second); ok {
				out = append(out, draining{o, "connection-draining-timeout", d, n.line(), "connection-draining-timeout: %d"})
			}
		}
		if o.gatewayed() {
			out = append(out, o.azures())
		}
	}
	return append(out, l.googles()...)
}

// attribute is one of "a=1,b=2"; of one that stands there twice the last counts.
func attribute(text, name string) string {
	for text != "" {
		at := strings.LastIndexByte(text, ',')
		if key, value, ok := strings.Cut(strings.TrimSpace(text[at+1:]), "="); ok && key == name {
			return value
		}
		text = text[:max(at, 0)]
	}
	return ""
}

// googles are of BackendConfigs that a Service names, and of policies that name a Service. Google drains nothing unless
// told to.
func (l *workload) googles() (out []draining) {
	add := func(o *object, n node, in string) {
		seconds, _ := n.get("connectionDraining", "drainingTimeoutSec").whole()
		line := n.get("connectionDraining", "drainingTimeoutSec").line()
		if line == 0 {
			line = o.keyLine("spec")
		}
		out = append(out, draining{o, "drainingTimeoutSec", time.Duration(min(max(seconds, 0), 1_000_000)) * time.Second, line, "connectionDraining: {drainingTimeoutSec: %d}  # in " + in})
	}
	for _, s := range l.services {
		if n := s.annotation(gkeGroups); s.grouped() && !exposed(n.text()) && !s.annotation(gkeBackends).ok() {
			out = append(out, draining{s, "there is no " + gkeBackends, 0, n.line(),
				"annotations: {" + gkeBackends + ": '{\"default\": \"" + short(s.name) + "\"}'}  # of the Service, and a BackendConfig of that name: spec: {connectionDraining: {drainingTimeoutSec: %d}}"})
		}
		for _, name := range backendConfigs(s.annotation(gkeBackends).text()) {
			if o := l.world.named[place{"BackendConfig", s.namespace, name}]; o != nil {
				add(o, o.get("spec"), "spec of the "+o.kind)
			}
		}
		for _, o := range l.world.behind[place{"Service", s.namespace, s.name}] {
			if o.kind == "GCPBackendPolicy" {
				add(o, o.get("spec", "default"), "spec.default of the "+o.kind)
			}
		}
	}
	return out
}

// backendConfigs reads {"default": "a", "ports": {"http": "b"}}.
func backendConfigs(text string) (names []string) {
	var all struct {
		Default string
		Ports   map[string]string
	}
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	for _, name := range append(slices.Sorted(maps.Values(all.Ports)), all.Default) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// gatewayed tells of an Ingress that Azure's Application Gateway carries out, by its ingress controller (AGIC).
func (o *object) gatewayed() bool {
	if o.kind != "Ingress" {
		return false
	}
	for name := range o.get("metadata", "annotations").pairs() {
		if strings.HasPrefix(name, agicIngress) {
			return true
		}
	}
	return o.annotation("kubernetes.io/ingress.class").text() == "azure/application-gateway" || o.get("spec", "ingressClassName").text() == "azure-application-gateway"
}

// azures is the draining of such an Ingress: none unless told to, then 30 s unless told otherwise
// (learn.microsoft.com/azure/application-gateway/ingress-controller-annotations).
func (o *object) azures() draining {
	const name = "connection-draining"
	on := o.annotation(agicIngress + name)
	d := draining{o, name, 0, on.line(), agicIngress + name + ": \"true\"\n" + agicIngress + name + "-timeout: \"%d\""}
	if !on.ok() {
		d.line = o.keyLine("metadata")
	}
	if on.yes() {
		d.what, d.delay = name+"-timeout", 30*time.Second
		n := o.annotation(agicIngress + d.what)
		if told, ok := duration(n.text(), time.Second); ok {
			d.delay, d.line = told, n.line()
		}
	}
	return d
}

// grouped tells of a Service whose pods are a network endpoint group of Google's (NEG): {"ingress": true}, or ports of
// it for load balancers that somebody sets up by hand. A pod that ends before its connections do answers 502 there, and
// one that is still sent to after its end 503 (cloud.google.com/kubernetes-engine/docs/troubleshooting/load-balancing).
func (o *object) grouped() bool {
	text := o.annotation(gkeGroups).text()
	var said struct{ Ingress bool }
	return json.Unmarshal([]byte(text), &said) == nil && said.Ingress || exposed(text)
}

func exposed(text string) bool {
	var said struct {
		Ports map[string]json.RawMessage `json:"exposed_ports"`
	}
	return json.Unmarshal([]byte(text), &said) == nil && len(said.Ports) > 0
}

// front is what has a load balancer send to pods by their own addresses, past kube-proxy: it learns of a pod's end from
// a controller that calls the cloud, and of a new pod the same way.
type front struct {
	*object
	line int
	list window.Term // how long it goes on sending to a pod that leaves
	gate gate
}

// gate is what has a rollout wait until the load balancer knows a new pod.
type gate int

const (
	gateLabel gate = iota // AWS' controller writes one for a Namespace that is labelled
	gateOwn               // Google's writes one by itself
	gateNone              // Azure's has none
)

// direct is such a front, nil if there is none.
func (l *workload) direct() *front {
	for _, in := range l.ingresses() {
		if n := in.annotation(albIngress + "target-type"); n.text() == "ip" {
			return &front{in, n.line(), balancers.ByAddress, gateLabel}
		}
		if in.gatewayed() {
			return &front{in, in.keyLine("metadata"), balancers.ApplicationGateway, gateNone}
		}
	}
	for _, s := range l.services {
		if n := s.annotation(awsService + "nlb-target-type"); n.text() == "ip" {
			return &front{s, n.line(), balancers.ByAddress, gateLabel}
		}
		if n := s.annotation(awsService + "type"); n.text() == "nlb-ip" {
			return &front{s, n.line(), balancers.ByAddress, gateLabel}
		}
		if s.grouped() {
			return &front{s, s.annotation(gkeGroups).line(), balancers.ByAddress, gateOwn}
		}
	}
	for gate := range l.pod.get("readinessGates").each() {
		// A gate that a load balancer opens stands in pods that it sends to itself.
		if name := gate.get("conditionType").text(); name == "cloud.google.com/load-balancer-neg-ready" || strings.HasPrefix(name, "target-health.elbv2.k8s.aws/") {
			return &front{l.object, gate.get("conditionType").line(), balancers.ByAddress, gateOwn}
		}
	}
	return nil
}

// localCheck is how long a load balancer may go on sending to a node whose last pod has begun to leave: its health check
// of the node has to fail first.
func localCheck(s *object) window.Term {
	interval, threshold, source := balancers.GoogleInterval, balancers.GoogleFailures, balancers.GoogleCheck
	if n := s.annotation(awsService + "healthcheck-interval"); n.ok() || s.annotation(awsService+"type").ok() || s.annotation(awsService+"scheme").ok() {
		interval, source = number(n, balancers.AWSInterval), balancers.AWSCheck
		threshold = number(s.annotation(awsService+"healthcheck-unhealthy-threshold"), balancers.AWSFailures)
	}
	return balancers.NodeCheck(failing(interval, threshold), source)
}

// localWindow is how long a node whose last pod leaves is still sent to.
func localWindow(s *object) window.Sum { return append(window.Sum{localCheck(s)}, kubernetes()...) }

// anchored are the Services that send only to pods of the node that was asked.
func (l *workload) anchored() (out []*object) {
	for _, s := range l.services {
		if kind := s.get("spec", "type").text(); s.get("spec", "externalTrafficPolicy").text() == "Local" && kind == "LoadBalancer" {
			out = append(out, s)
		}
	}
	return out
}
