package lint

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// fleets are workloads without a pause (%s) and what calls them, each with a window of its own.
var fleets = map[string]string{
	"a Service": service(``, ``),
	"by address": service(``, ``) + `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: orders, annotations: {alb.ingress.kubernetes.io/target-type: ip}}
spec: {defaultBackend: {service: {name: orders}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {elbv2.k8s.aws/pod-readiness-gate-inject: enabled}}
`,
	"Application Gateway": strings.Replace(service(``, ``), "replicas: 3", "replicas: 3\n  minReadySeconds: 90", 1) + `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: orders, annotations: {appgw.ingress.kubernetes.io/connection-draining: "true"}}
spec: {defaultBackend: {service: {name: orders}}}
`,
	"an endpoint group": strings.Replace(service(``, ``), "    spec:\n", "    spec:\n      readinessGates: [{conditionType: cloud.google.com/load-balancer-neg-ready}]\n", 1),
	"local traffic":     service(``, `type: LoadBalancer, externalTrafficPolicy: Local, `),
	"Eureka":            service(`, {name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: "http://eureka/"}`, ``),
	"Eureka, local": service(`, {name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: "http://eureka/"}, {name: EUREKA_CLIENT_REGISTRY_FETCH_INTERVAL_SECONDS, value: "1"}`,
		`type: LoadBalancer, externalTrafficPolicy: Local, `),
}

func service(env, spec string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: orders}}
    spec:
      terminationGracePeriodSeconds: 30
      containers:
      - name: orders
        image: IMAGE
        lifecycle: {}
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /ready, port: 8080}}
        env: [{name: SHUTDOWN_TIMEOUT, value: 20s}` + env + `]
---
apiVersion: v1
kind: Service
metadata: {name: orders}
spec: {` + spec + `selector: {app: orders}, ports: [{port: 8080}]}
`
}

var (
	hookLine  = regexp.MustCompile(`(?m)^( *)lifecycle: .*$`)
	envLine   = regexp.MustCompile(`(?m)^( *env: .*)\]$`)
	graceLine = regexp.MustCompile(`(?m)^( *)terminationGracePeriodSeconds: .*$`)
)

// TestAPatchSettlesIt: what any finding says to write, written, leaves nothing to find, whatever the manifest had.
func TestAPatchSettlesIt(t *testing.T) {
	for name, fleet := range fleets {
		for _, image := range []string{"orders:debian", "gcr.io/distroless/orders"} {
			for _, hook := range []string{"{}", "{preStop: {sleep: {seconds: 1}}}", "{preStop: {exec: {command: [sh, -c, sleep 1]}}}", "{preStop: {exec: {command: [sh, -c, 'kill 1']}}}"} {
				text := strings.Replace(strings.Replace(fleet, "IMAGE", image, 1), "lifecycle: {}", "lifecycle: "+hook, 1)
				first := Check([]Source{{"x", []byte(text)}}, Options{})
				if len(first.Findings) == 0 {
					t.Errorf("%s, %s, %s: nothing to settle", name, image, hook)
				}
				all := text
				for _, f := range first.Findings {
					all = apply(all, f.Patch)
					patched := apply(text, f.Patch)
					if patched == text {
						t.Errorf("%s, %s, %s: %s writes nothing: %q", name, image, hook, f.Rule, f.Patch)
					}
					if !strings.Contains(f.Patch, "lifecycle") {
						continue // the grace period alone, of which another finding holds the pause
					}
					if again := Check([]Source{{"x", []byte(patched)}}, Options{}); len(again.Findings) > 0 {
						t.Errorf("%s, %s, %s: after %s's patch\n%s\n%s", name, image, hook, f.Rule, f.Patch, again.Table(false))
					}
				}
				if again := Check([]Source{{"x", []byte(all)}}, Options{}); len(again.Findings) > 0 {
					t.Errorf("%s, %s, %s: after all patches\n%s\n%s", name, image, hook, all, again.Table(false))
				}
			}
		}
	}
}

func apply(text, patch string) string {
	entry := ""
	for line := range strings.SplitSeq(patch, "\n") {
		line, _, _ = strings.Cut(line, "  # ")
		if name, ok := strings.CutPrefix(line, "- name: "); ok {
			entry = name
		}
		if value, ok := strings.CutPrefix(line, "  value: "); ok && !strings.Contains(text, entry) {
			text = envLine.ReplaceAllString(text, "${1}, {name: "+entry+", value: \""+value+"\"}]")
		}
		line = strings.ReplaceAll(line, "$", "$$")
		switch {
		case strings.HasPrefix(line, "lifecycle: "):
			text = hookLine.ReplaceAllString(text, "${1}"+line)
		case strings.HasPrefix(line, "terminationGracePeriodSeconds: "):
			text = graceLine.ReplaceAllString(text, "${1}"+line)
		case strings.HasPrefix(line, "annotations: "):
			text = strings.Replace(text, "metadata: {labels: {app: orders}}", "metadata: {labels: {app: orders}, "+line+"}", 1)
		}
	}
	return text
}

// TestOneMapIsReadOnce: a pod that mounts a ConfigMap many times, or thousands of them, costs no more than a pod.
func TestOneMapIsReadOnce(t *testing.T) {
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: dns}
spec:
  containers: [{name: dns, image: dns, ports: [{containerPort: 53}]}]
  volumes:
`
	const maps = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {Corefile: x}\n"
	same := pod + strings.Repeat("  - {name: v, configMap: {name: c0}}\n", 5000) + fmt.Sprintf(maps, 0)
	volumes, all := strings.Builder{}, strings.Builder{}
	for i := range 2 * maxMaps {
		fmt.Fprintf(&volumes, "  - {name: v, configMap: {name: c%d}}\n", i)
		fmt.Fprintf(&all, maps, i)
	}
	for text, want := range map[string]int{same: 1, pod + volumes.String() + all.String(): maxMaps} {
		w := read([]Source{{"x", []byte(text)}}, Options{})
		if got := len(first(w).mounted()); got != want {
			t.Errorf("%d ConfigMaps are looked at, want %d", got, want)
		}
	}
	w := read([]Source{{"x", []byte(same)}}, Options{})
	m := first(w).mounted()[0]
	if m.corefile(); m.asCorefile == nil {
		t.Error("a Corefile is looked for each time")
	}
}

// first is the first workload of a world.
func first(w *world) *workload {
	for l := range w.workloads() {
		return l
	}
	return nil
}

// TestHugeProbes: what is beyond every number is long, not short.
func TestHugeProbes(t *testing.T) {
	text := strings.Replace(fleets["a Service"], "port: 8080}}", "port: 8080}, periodSeconds: 1000000, failureThreshold: 1000000}", 1)
	r := Check([]Source{{"x", []byte(text)}}, Options{})
	if got := r.Table(false); !strings.Contains(got, "called for up to 3600001s") {
		t.Error(got)
	}
	text = strings.Replace(fleets["local traffic"], "metadata: {name: orders}\nspec: {", "metadata: {name: orders, annotations: {"+
		awsService+"healthcheck-interval: 1000000, "+awsService+"healthcheck-unhealthy-threshold: 1000000}}\nspec: {", 1)
	text = strings.Replace(text, "lifecycle: {}", "lifecycle: {preStop: {sleep: {seconds: 5}}}", 1)
	if got := Check([]Source{{"x", []byte(text)}}, Options{}).Table(false); !strings.Contains(got, "is sent to for 3600002s") {
		t.Error(got)
	}
}

// TestExec: a shell that hands its place on, however the script is written, swallows nothing.
func TestExec(t *testing.T) {
	for script, want := range map[string]bool{
		"exec java -jar app.jar > /log 2>&1":                  false,
		"exec java \\\n  -Xmx1g \\\n  -jar app.jar\n":         false,
		"if [ -f a ]; then exec a; else exec b; fi":           false,
		"case $1 in a) exec a;; *) exec b;; esac":             false,
		"A=b exec java -jar app.jar":                          false,
		`. /env && exec java -Durl="http://x?a=1&b=2" -jar x`: false,
		"java -jar app.jar 2>&1":                              true,
		"java \\\n  -jar app.jar":                             true,
		"if [ -f a ]; then exec a; else b; fi":                true,
		"echo 'exec a'; java":                                 true,
		"java -jar app.jar & wait":                            true,
		"exec a; b":                                           true,
	} {
		if got := swallows("sh", script); got != want {
			t.Errorf("%q: %t", script, got)
		}
	}
}

// TestBoundedFindings: a few kilobytes don't become millions of findings, whatever stands before whatever.
func TestBoundedFindings(t *testing.T) {
	deployment, front, _ := strings.Cut(fleets["a Service"], "---\n")
	many := func(annotation string) string {
		return strings.Repeat(deployment+"---\n", 20) + strings.Replace(front, "{name: orders}", "{name: orders, annotations: {"+annotation+"}}", 1)
	}
	for name, c := range map[string]struct {
		text, rule string
		most       int
	}{
		"ignored": {many("eider.dev/lint-ignore: '" + strings.Repeat("a;b;", 1000) + "'"), "E000", maxComplaints},
		"drained": {many(awsService + "target-group-attributes: '" + strings.Repeat("deregistration_delay.timeout_seconds=1,", 1000) + "'"), "E009", 20},
	} {
		w := read([]Source{{"x", []byte(c.text)}}, Options{})
		n := 0
		for l := range w.workloads() {
			_, faulty := l.excuses()
			for _, f := range append(faulty, w.hold(l)...) {
				if f.Rule == c.rule || f.Rule == "" {
					n++
				}
			}
		}
		if n == 0 || n > c.most {
			t.Errorf("%s: %d findings of %s, want 1 to %d", name, n, c.rule, c.most)
		}
	}
	w := read([]Source{{"x", []byte(deployment + "---\n" + front + strings.Repeat("---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\nspec: {defaultBackend: {service: {name: orders}}}\n", 2*maxFronts))}}, Options{})
	if got := len(first(w).ingresses()); got != maxFronts {
		t.Errorf("%d Ingresses are looked at, want %d", got, maxFronts)
	}
}

// TestTheLastAttributeCounts, as for AWS' controller, and a name that only ends so is another.
func TestTheLastAttributeCounts(t *testing.T) {
	for text, want := range map[string]string{"a=1, b=2": "2", "b=1,a=2,b=3,": "3", "xb=1": "", "b": "", "": "", ",,b=1,,": "1"} {
		if got := attribute(text, "b"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
