// Package balancers answers: how long does a load balancer go on sending to a pod that leaves?
//
// It is one table, for eider lint, which finds load balancers in manifests, and for eider leave --kube, which is told
// of them: terms of package window, each with where its numbers come from.
package balancers

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider/internal/near"
	"github.com/eiderhq/eider/window"
)

// ByAddress is what is reported of load balancers' and ingresses' own lists; nothing bounds it.
var ByAddress = window.Term{Name: "a load balancer's own list", Min: 10 * time.Second, Max: 30 * time.Second, Source: "reported in mattrobinsonsre/terrapod#222; nothing bounds it"}

// ApplicationGateway is Azure's: its controller's own guide has "between a second and a few minutes" until a pod is out
// of the gateway's list, and advises a sleep of 90 s.
var ApplicationGateway = window.Term{Name: "Application Gateway's own list", Min: 90 * time.Second, Max: 90 * time.Second,
	Source: "as Azure/application-gateway-kubernetes-ingress advises, docs/how-tos/minimize-downtime-during-deployments.md; nothing bounds it"}

// The health checks of a node that cloud providers set up, where nobody has said otherwise.
const (
	AWSInterval, AWSFailures       = 10, 3
	GoogleInterval, GoogleFailures = 8, 3
)

// NodeCheck is how long a load balancer may go on sending to a node whose last pod has begun to leave: its health check
// of the node has to fail first.
func NodeCheck(failing time.Duration, source string) window.Term {
	return window.Term{Name: "the load balancer's health check of the node", Max: failing, Source: source}
}

// Where the numbers of a node's check come from.
const (
	AWSCheck    = "10 s and 3 failures, unless its annotations say otherwise"
	GoogleCheck = "8 s and 3 failures, as Google's in cloud-provider-gcp"
)

// Balancer is one that somebody names.
type Balancer struct {
	Name  string
	About string
	Terms window.Sum

	// Behind tells that it sends to nodes, and nodes to pods: its terms come on top of kube-proxy's. Else it sends to
	// pods by itself, beside kube-proxy.
	Behind bool
}

// Known are those with a name, in the order of the docs.
func Known() []Balancer {
	return []Balancer{
		{Name: "alb", About: "AWS' Application Load Balancer with target-type: ip", Terms: window.Sum{ByAddress}},
		{Name: "nlb", About: "AWS' Network Load Balancer with target-type: ip", Terms: window.Sum{ByAddress}},
		{Name: "gce", About: "Google's, with network endpoint groups (NEG)", Terms: window.Sum{ByAddress}},
		{Name: "agic", About: "Azure's Application Gateway by its ingress controller", Terms: window.Sum{ApplicationGateway}},
		{Name: "nginx", About: "ingress-nginx", Terms: nginx()},
		{Name: "istio", About: "Envoy with endpoints from Istio, sidecars and gateways", Terms: istio()},
		{Name: "aws-local", About: "AWS' before nodes, of a Service with externalTrafficPolicy: Local", Behind: true,
			Terms: window.Sum{NodeCheck(AWSInterval*AWSFailures*time.Second, AWSCheck)}},
		{Name: "gce-local", About: "Google's before nodes, of a Service with externalTrafficPolicy: Local", Behind: true,
			Terms: window.Sum{NodeCheck(GoogleInterval*GoogleFailures*time.Second, GoogleCheck)}},
	}
}

// nginx gathers changes at a rate, and each of its workers asks for the list on a timer.
func nginx() window.Sum {
	return window.Sum{
		window.Uniform("ingress-nginx sync", 0, 10*time.Second/3, "ingress-nginx pkg/flags/flags.go sync-rate-limit, 0.3 a second"),
		window.Uniform("its workers' timer", 0, time.Second, "ingress-nginx rootfs/etc/nginx/lua/balancer.lua BACKENDS_SYNC_INTERVAL, 1 s"),
	}
}

// istio is what eider window knows.
func istio() window.Sum {
	preset, err := window.Lookup("envoy-eds")
	if err != nil {
		return nil // TestKnown
	}
	forecast, err := preset.Derive(nil, window.Fleet{})
	if err != nil {
		return nil // TestKnown
	}
	return forecast.Planned.Terms
}

// Parse reads a list as a person writes it: "alb,nginx", or with a delay of one's own, in the forms of window.Parse:
// "alb=45s,mesh=0s..10s". The error names everything that is wrong with it.
func Parse(text string) (out []Balancer, faults []error) {
	for part := range splitOutside(text) {
		name, _, own := strings.Cut(part, "=")
		b, known := Find(strings.TrimSpace(name))
		switch {
		case own:
			term, err := window.Parse(part)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			b.Name, b.Terms = term.Name, window.Sum{term}
			out = append(out, b)
		case known:
			out = append(out, b)
		default:
			faults = append(faults, unknown(part))
		}
	}
	return out, faults
}

// splitOutside yields what commas part, but those in parentheses.
func splitOutside(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		depth, begin := 0, 0
		for i, r := range text + "," {
			switch {
			case r == '(':
				depth++
			case r == ')':
				depth--
			case r == ',' && (depth <= 0 || i == len(text)):
				if part := strings.TrimSpace(text[begin:i]); part != "" && !yield(part) {
					return
				}
				begin = i + 1
			}
		}
	}
}

// Find returns the one with a name.
func Find(name string) (Balancer, bool) {
	all := Known()
	i := slices.IndexFunc(all, func(b Balancer) bool { return b.Name == strings.ToLower(name) })
	if i < 0 {
		return Balancer{}, false
	}
	return all[i], true
}

func unknown(name string) error {
	var names []string
	for _, b := range Known() {
		names = append(names, b.Name)
	}
	asking := "."
	if meant := near.Name(strings.ToLower(name), names, max(len(name)*2/3, 1)); meant != "" {
		asking = "; did you mean " + meant + "?"
	}
	return fmt.Errorf("no load balancer %.60q is known%s There are: %s; of another say how long it goes on sending, as in %.20s=30s",
		name, asking, strings.Join(names, ", "), name)
}
