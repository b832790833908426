package lint

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func loadBalancerDelay() Rule {
	return Rule{
		ID: "E009", Name: "load-balancer-delay", Severity: Warning,
		Title: "the load balancer cuts requests that the program still answers, or still sends to a pod that is gone",
		Why: `A load balancer that sends to pods by their addresses has a clock of its own. When its draining (AWS' deregistration
delay, Google's drainingTimeoutSec and Azure's connection-draining, which are 0 unless set) ends before the program's
deadline, it cuts what the program would have answered. And it learns of a pod's end from a controller that calls the
cloud, later than the nodes do: 10 s to 30 s are reported, of Azure's Application Gateway up to minutes, so that a pause
for kube-proxy alone is too short. Such are AWS' target-type: ip, Google's network endpoint groups (cloud.google.com/neg)
and every Ingress of Azure's Application Gateway.`,
		Example: `kind: Ingress
metadata:
  annotations:
    alb.ingress.kubernetes.io/target-group-attributes: deregistration_delay.timeout_seconds=5`,
		Patch: `    alb.ingress.kubernetes.io/target-group-attributes: deregistration_delay.timeout_seconds=30
# and in the pod, for target-type: ip:
    lifecycle: {preStop: {sleep: {seconds: 30}}}`,
		Source: "https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html#deregistration-delay",
		check: func(_ *world, l *workload) (found []Finding) {
			deadline, known := l.statedDeadline(l.main)
			for _, d := range l.drainings() {
				if d.delay >= max(deadline.Max, time.Second) {
					continue
				}
				message := "0 s: it cuts what is in flight when a pod begins to leave"
				if known {
					message = fmt.Sprintf("%s, but container %s has %s", seconds(d.delay), l.main.name, tellTerm(deadline))
				}
				found = append(found, Finding{File: d.object.file.name, Line: d.line, Object: d.object.title(),
					Message: fmt.Sprintf("the load balancer drains for %s (%s)", message, d.what), Patch: strings.Replace(d.write, "%d", strconv.Itoa(wholeSeconds(max(deadline.Max, 30*time.Second))), 1)})
			}
			p := l.pauseOf(l.main)
			f := l.direct()
			if f == nil || !p.known || p.fails(l.main) || p.length >= f.list.Min || p.stopsAtOnce() || l.declared() {
				return found
			}
			return append(found, Finding{File: f.file.name, Line: f.line, Object: f.title(),
				Message: fmt.Sprintf("the load balancer sends to pods by their addresses, while container %s of %s pauses for %s only: %s", l.main.name, l.title(), seconds(p.length), f.list),
				Patch:   l.pausing(l.main, l.advised())})
		},
	}
}

// declared tells whether somebody has said what the window is.
func (l *workload) declared() bool {
	return l.annotation("eider.dev/window").ok() || l.world.options.Window > 0
}

func localTraffic() Rule {
	return Rule{
		ID: "E010", Name: "local-traffic", Severity: Warning,
		Title: "the pause ends before the load balancer has noticed that its node has no pod left",
		Why: `With externalTrafficPolicy: Local a load balancer sends to nodes, and a node only to its own pods. When the last of
them leaves, the load balancer has to find out by its health check of the node: interval times failures, 24 s on Google's,
30 s on AWS' by default. Until then the leaving pod is the only one that can answer there, and kube-proxy does send to it
for as long as it stays ready.`,
		Example: `kind: Service
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local  # and the pod pauses for 5 s`,
		Patch: `lifecycle: {preStop: {sleep: {seconds: 26}}}
terminationGracePeriodSeconds: 58  # with a deadline of 30 s`,
		Source: "https://github.com/kubernetes/enhancements/blob/master/keps/sig-network/1669-proxy-terminating-endpoints/README.md",
		check: func(_ *world, l *workload) (found []Finding) {
			p := l.pauseOf(l.main)
			if !p.known || p.fails(l.main) || p.stopsAtOnce() || l.declared() {
				return nil
			}
			for _, s := range l.anchored() {
				w := localWindow(s)
				if p.length >= w.Worst() {
					continue
				}
				found = append(found, Finding{File: s.file.name, Line: s.get("spec", "externalTrafficPolicy").line(), Object: s.title(),
					Message: fmt.Sprintf("a node whose last pod leaves is sent to for %s, while container %s of %s pauses for %s", tell(w), l.main.name, l.title(), seconds(p.length)),
					Patch:   l.pausing(l.main, l.advised())})
			}
			return found
		},
	}
}

func targetsNotAwaited() Rule {
	return Rule{
		ID: "E016", Name: "targets-not-awaited", Severity: Note,
		Title: "a rollout may be over before the load balancer knows one of the new pods",
		Why: `A load balancer that sends to pods by their addresses takes a new one in only after it was registered and checked, which
takes longer than a readinessProbe. A rollout that doesn't wait for that takes the last old pod away while none of the new
ones is sent to. AWS' controller adds a readiness gate to pods of a namespace that is labelled for it; the label can't be
seen from the workload, so lint the Namespace with it. Google's adds one (cloud.google.com/load-balancer-neg-ready) by
itself, of which nothing is said; Azure's has none, and minReadySeconds is what helps.`,
		Example: `kind: Ingress
metadata:
  annotations: {alb.ingress.kubernetes.io/target-type: ip}`,
		Patch: `kind: Namespace
metadata:
  labels: {elbv2.k8s.aws/pod-readiness-gate-inject: enabled}`,
		Source: "https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/deploy/pod_readiness_gate/",
		check: func(w *world, l *workload) []Finding {
			f := l.direct()
			seconds, _ := l.rolled.get("spec", "minReadySeconds").whole()
			if f == nil || !l.rolls() || seconds > 0 || l.pod.get("readinessGates").ok() || f.gate == gateOwn {
				return nil
			}
			const known = "nothing tells that a rollout of %s waits until its new pods are known to the load balancer"
			if f.gate == gateNone {
				return l.here(l.keyLine("spec"), fmt.Sprintf(known, l.title()), fmt.Sprintf("minReadySeconds: %d  # in the workload's spec", wholeSeconds(f.list.Max)))
			}
			space := w.named[place{"Namespace", "default", l.namespace}]
			if space != nil && space.get("metadata", "labels", "elbv2.k8s.aws/pod-readiness-gate-inject").text() == "enabled" {
				return nil
			}
			return []Finding{{File: f.file.name, Line: f.line, Object: f.title(), Message: fmt.Sprintf(known, l.title()),
				Patch: "Namespace: metadata: {labels: {elbv2.k8s.aws/pod-readiness-gate-inject: enabled}}"}}
		},
	}
}
