package lint

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// naive is a service of Spring Boot behind Eureka, whose author has thought of nothing.
const naive = `apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  replicas: 2
  selector: {matchLabels: {app: orders}}
  template:
    metadata: {labels: {app: orders}}
    spec:
      containers:
      - name: orders
        image: registry.example.com/orders:1
        ports: [{name: http, containerPort: 8080}, {name: ops, containerPort: 9001}]
        env:
        - {name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: "http://eureka:8761/eureka"}
        readinessProbe: {httpGet: {path: /actuator/health/readiness, port: http}}
`

// env adds entries to it.
func env(text string, entries ...string) string {
	for _, e := range entries {
		name, value, _ := strings.Cut(e, "=")
		text = strings.Replace(text, "        readinessProbe", "        - {name: "+name+", value: "+strconv.Quote(value)+"}\n        readinessProbe", 1)
	}
	return text
}

func loaded(t *testing.T, text string) *workload {
	t.Helper()
	w := read([]Source{{"x", []byte(text)}}, Options{})
	n := 0
	for range w.workloads() {
		n++
	}
	if len(w.faults) > 0 || n != 1 {
		t.Fatalf("%v: %d workloads of\n%s", w.faults, n, text)
	}
	return first(w)
}

// TestOnePasteIsEnough: all that is printed, written where it says that it goes, leaves nothing to find, whatever of it was
// there, or stood against it.
func TestOnePasteIsEnough(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        naive,
		"no env":         strings.Replace(naive, "        env:\n        - {name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: \"http://eureka:8761/eureka\"}\n", "        args: [--eureka.client.enabled=true]\n", 1),
		"health alone":   env(naive, "MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE=health"),
		"all shut":       env(naive, "MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_EXCLUDE=*", "MANAGEMENT_ENDPOINTS_ACCESS_DEFAULT=none", "management.endpoints.access.max-permitted=none"),
		"shut as of old": env(naive, "MANAGEMENT_ENDPOINTS_ENABLED_BY_DEFAULT=false", "MANAGEMENT_ENDPOINT_SERVICEREGISTRY_ENABLED=false"),
		"by argument":    strings.Replace(naive, "        env:\n", "        args: [--management.endpoints.web.exposure.include=info]\n        env:\n", 1),
		"immediate":      env(naive, "SERVER_SHUTDOWN=immediate"),
		"no HTTP":        env(naive, "MANAGEMENT_SERVER_PORT=-1"),
		"other port":     env(naive, "MANAGEMENT_SERVER_PORT=9001", "MANAGEMENT_SERVER_BASE_PATH=/ops"),
		"TLS":            strings.Replace(naive, "port: http}", "port: http, scheme: HTTPS}", 1),
		"only sleeps":    strings.Replace(naive, "        env:\n", "        lifecycle: {preStop: {sleep: {seconds: 98}}}\n        env:\n", 1),
		"sleeps first":   strings.Replace(naive, "        env:\n", "        lifecycle: {preStop: {exec: {command: [sh, -c, 'sleep 98; curl localhost:8080/actuator/serviceregistry']}}}\n        env:\n", 1),
		"alpine":         strings.Replace(naive, "orders:1", "orders:1-alpine", 1),
		"no shell":       strings.Replace(naive, "registry.example.com/orders:1", "gcr.io/distroless/java21-debian12", 1),
		"no client":      strings.Replace(naive, "registry.example.com/orders:1", "openjdk:17-jdk-slim", 1),
	} {
		after := []byte(text)
		before := Check([]Source{{"x", after}}, Options{})
		for _, f := range before.Findings {
			after = write(t, after, f)
		}
		if r := Check([]Source{{"x", after}}, Options{}); len(before.Findings) == 0 || len(r.Findings) > 0 {
			t.Errorf("%s, of which %d were found:\n%s\n%s\n%s", name, len(before.Findings), before.Table(false), after, r.Table(false))
		}
		if n := strings.Count(before.Table(false), "/serviceregistry ||"); n > 1 {
			t.Errorf("%s: the hook is printed %d times\n%s", name, n, before.Table(false))
		}
	}
}

// TestTheHookTells: what is printed, a shell runs, and Spring's endpoint would take it.
func TestTheHookTells(t *testing.T) {
	for program, image := range map[string]string{"curl": "orders:debian", "wget": "orders:alpine"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("no %s here", program)
			continue
		}
		var got []string
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body := make([]byte, r.ContentLength)
			_, _ = r.Body.Read(body)
			got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
		}))
		port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
		text := strings.Replace(env(naive, "SERVER_PORT="+port), "registry.example.com/orders:1", image, 1)
		l := loaded(t, text)
		rows := l.telling(0)
		root, err := parse([]byte(rows[0]))
		if err != nil {
			t.Fatal(err)
		}
		words := node{root}.get("lifecycle", "preStop", "exec", "command").texts()
		patient := strings.NewReplacer("--max-time 5 ", "--max-time 600 ", "timeout 5 ", "timeout 600 ").Replace(words[2]) // on a machine that is busy
		if patient == words[2] {
			t.Errorf("nothing bounds the call: %s", words)
		}
		out, err := exec.Command(words[0], words[1], patient).CombinedOutput()
		server.Close()
		const want = `POST /actuator/serviceregistry application/json {"status":"OUT_OF_SERVICE"}`
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%v, %q: %s\n%s", err, got, words, out)
		}
		if !strings.Contains(words[2], program+" ") {
			t.Errorf("%s isn't run: %s", program, words)
		}
	}
}

// TestWhoMayCallIt: an endpoint that takes instances out of service is opened with advice, unless it is at a port of its own.
func TestWhoMayCallIt(t *testing.T) {
	for text, want := range map[string]bool{
		naive: true,
		env(naive, "MANAGEMENT_SERVER_PORT=8080"):                                      true,
		env(naive, "MANAGEMENT_SERVER_PORT=9001"):                                      false,
		env(naive, "MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE=health,serviceregistry"): false,
	} {
		if got := strings.Contains(Check([]Source{{"x", []byte(text)}}, Options{}).Table(false), guard); got != want {
			t.Errorf("%t of\n%s", got, text)
		}
	}
}

// TestWhereTheActuatorIs: settings first, then a probe, then the ports.
func TestWhereTheActuatorIs(t *testing.T) {
	unprobed := naive[:strings.Index(naive, "        readinessProbe")] + "        readinessProbe: {tcpSocket: {port: 8080}}\n"
	for want, text := range map[string]string{
		"localhost:8080/actuator/x":         unprobed,
		"localhost:9001/actuator/x":         strings.Replace(unprobed, "{name: http, containerPort: 8080}, ", "", 1),
		"localhost:8443/actuator/x":         env(unprobed, "SERVER_PORT=8443"),
		"localhost:9002/actuator/x":         env(unprobed, "SERVER_PORT=8443", "MANAGEMENT_SERVER_PORT=9002", "SERVER_SERVLET_CONTEXT_PATH=/api"),
		"localhost:8443/api/actuator/x":     env(unprobed, "SERVER_PORT=8443", "MANAGEMENT_SERVER_PORT=8443", "SERVER_SERVLET_CONTEXT_PATH=/api/"),
		"localhost:8080/api/actuator/x":     env(unprobed, "SPRING_WEBFLUX_BASE_PATH=api", "MANAGEMENT_SERVER_PORT=8080", "MANAGEMENT_SERVER_BASE_PATH=/ops"),
		"localhost:9003/ops/manage/x":       env(unprobed, "MANAGEMENT_SERVER_PORT=9003", "MANAGEMENT_SERVER_BASE_PATH=/ops", "MANAGEMENT_ENDPOINTS_WEB_BASE_PATH=/manage"),
		"localhost:8080/x":                  env(unprobed, "MANAGEMENT_ENDPOINTS_WEB_BASE_PATH=/"),
		"https://localhost:9001/actuator/x": strings.Replace(naive, "port: http}", "port: ops, scheme: HTTPS}", 1),
		"localhost:9001/own/actuator/x":     strings.Replace(naive, "path: /actuator/health/readiness, port: http}", "path: /own/actuator/health, port: ops}", 1),
		"localhost:9001/own/manage/x":       env(strings.Replace(naive, "path: /actuator/health/readiness, port: http}", "path: /own/manage/health, port: 9001}", 1), "MANAGEMENT_ENDPOINTS_WEB_BASE_PATH=/manage"),
		"localhost:9004/actuator/x":         env(strings.Replace(naive, "path: /actuator", "path: /own/actuator", 1), "MANAGEMENT_SERVER_PORT=9004"),
	} {
		if got := loaded(t, text).actuator().url("localhost", "x"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestHooks: what can be read is judged, and what can't is said.
func TestHooks(t *testing.T) {
	const json = `-H 'Content-Type: application/json'`
	for script, want := range map[string]string{
		`curl -sX POST ` + json + ` -d '{"status":"DOWN"}' localhost:8080/actuator/serviceregistry; sleep 98`:                                                   "",
		`curl --json '{"status": "out_of_service"}' http://127.0.0.1:8080/actuator/serviceregistry && sleep 98`:                                                 "",
		`curl -XPOST --header='content-type: application/vnd.spring-boot.actuator.v3+json' "http://[::1]:8080/actuator/service-registry?status=DOWN"; sleep 98`: "",
		`set -e; { curl -m5 -s ` + json + ` --data-raw "{\"status\": \"DOWN\"}" $POD_IP:8080/actuator/serviceregistry || true; } >/dev/null 2>&1; sleep 98`:     "",
		`sleep 5; curl --json '{"status":"DOWN"}' localhost:8080/actuator/serviceregistry; sleep 98`:                                                            "",
		`curl --json '{"status":"DOWN"}' localhost:$SERVER_PORT/actuator/serviceregistry & sleep 98`:                                                            "",
		`wget -qO- --header="Content-Type: application/json" --post-data='{"status":"DOWN"}' localhost:8080/actuator/serviceregistry; sleep 98`:                 "",
		`# first
A=b exec timeout -s KILL 5 curl --json '{"status":"DOWN"}' \
  localhost:8080/actuator/serviceregistry
sleep 98`: "",
		`sleep 90; curl --json '{"status":"DOWN"}' localhost:8080/actuator/serviceregistry; sleep 8`: "sleeps for 90s before it tells Eureka, and 8s after",
		`curl --json '{"status":"UP"}' localhost:8080/actuator/serviceregistry; sleep 98`:            `the status "UP"`,
		`curl --json '{}' localhost:8080/actuator/serviceregistry; sleep 98`:                         `the status ""`,
		`curl -G -d status=DOWN localhost:8080/actuator/serviceregistry; sleep 98`:                   "asks serviceregistry (GET)",
		`curl -X PUT --json '{"status":"DOWN"}' localhost:8080/actuator/serviceregistry; sleep 98`:   "asks serviceregistry (PUT)",
		`curl -I localhost:8080/actuator/serviceregistry; sleep 98`:                                  "asks serviceregistry (HEAD)",
		`curl -d '{"status":"DOWN"}' localhost:8080/actuator/serviceregistry; sleep 98`:              "415",
		`curl --json '{"status":"DOWN"}' localhost/actuator/serviceregistry; sleep 98`:               "calls port 80, but",
		`curl --json '{"status":"DOWN"}' localhost:8080/manage/serviceregistry; sleep 98`:            "calls /manage/serviceregistry, but",
		`curl --json '{"status":"DOWN"}' localhost:8080/actuator/serviceregistry`:                    "doesn't pause",
		`echo bye`: "neither tells Eureka nor pauses",
		`echo "curl --json localhost:8080/actuator/serviceregistry"; sleep 98`:                                "before Spring tells Eureka",
		`curl --json '{"status":"DOWN"}' localhost:8080/actuator/serviceregistry; sleep $PAUSE`:               "? runs sleep $PAUSE",
		`curl --json "{\"status\":\"$S\"}" localhost:8080/actuator/serviceregistry; sleep 98`:                 "? tells Eureka a status that isn't written",
		`curl --json @/body localhost:8080/actuator/serviceregistry; sleep 98`:                                "? tells Eureka a status that isn't written",
		`curl -X POST localhost:8080/leave; sleep 98`:                                                         "? calls localhost:8080/leave",
		`curl --json '{"status":"DOWN"}' http://orders/actuator/serviceregistry; sleep 98`:                    "? calls http://orders/",
		`curl -X PUT http://eureka/eureka/apps/ORDERS/1/status?value=UP; sleep 98`:                            "? calls http://eureka/",
		`if true; then curl --json '{"status":"DOWN"}' localhost:8080/actuator/serviceregistry; fi; sleep 98`: "? runs sh -c if true",
		`http POST localhost:8080/actuator/serviceregistry status=DOWN; sleep 98`:                             "? runs http",
		`curl 'localhost; sleep 98`: "? runs sh -c",
	} {
		root, err := parse([]byte("command: [sh, -c]"))
		if err != nil {
			t.Fatal(err)
		}
		l := loaded(t, naive)
		p := pause{}
		p.readExec(append(node{root}.get("command").texts(), script))
		fault, sure := l.untold(p)
		if !sure && fault != "" {
			fault = "? " + fault
		}
		if want == "" && fault != "" || strings.HasPrefix(want, "?") == sure && fault != "" || !strings.Contains(strings.Replace(fault, "has a hook that ", "", 1), want) {
			t.Errorf("%s\n\tis %q, want %q", script, fault, want)
		}
	}
}

// TestCallsTakeTime: a bound of a call is time of the grace period.
func TestCallsTakeTime(t *testing.T) {
	for script, want := range map[string]string{
		"curl -m 3 a":   "3s",
		"curl -fsSm3 a": "3s",
		"curl --max-time=2.5 a; timeout 4s wget b":   "6.5s",
		"curl --max-time 2 --retry 2 a":              "6s",
		"timeout -k 1 7 curl -m 3 a":                 "7s",
		"wget -T 5 a; curl b; curl -m x c; sleep 10": "0s",
	} {
		p := pause{}
		p.readExec([]string{"sh", "-c", script})
		if got := p.lasts().String(); got != want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

// TestCommands: a script's words, as a shell takes them.
func TestCommands(t *testing.T) {
	for script, want := range map[string][][]string{
		`a 'b c' "d\"e" f\ g`:             {{"a", "b c", `d"e`, "f g"}},
		"a;b&&c||d|e&f\ng":                {{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"f"}, {"g"}},
		"a >b 2>&1 >>c 2> /d e <f":        {{"a", "e"}},
		"A=b C= a=b d=e; ! { f ''; }":     {{"f", ""}},
		"a $(b c) `d e` \"$(f)\"#g #h\ni": {{"a", "$(b c)", "d e", "$(f)#g"}, {"i"}},
		"a \\\n  b":                       {{"a", "b"}},
		"(a; b)":                          {{"a"}, {"b"}},
		"":                                nil,
	} {
		got, ok := commands(script)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%q, %t: %s", script, ok, diff)
		}
	}
	for _, script := range []string{"a 'b", `a "b`, "a `b", "a $(b", "a <<E\nb\nE", "if a; then b; fi", "while a; do b; done", "case a in b) c;; esac"} {
		if got, ok := commands(script); ok {
			t.Errorf("%q is read: %q", script, got)
		}
	}
}

// TestClients: what images have to call with, as far as their names tell.
func TestClients(t *testing.T) {
	for image, want := range map[string]string{
		"orders": "curl", "orders:1-alpine": "wget", "eclipse-temurin:21-jre-alpine": "wget", "eclipse-temurin:21-jre": "wget", "eclipse-temurin:25": "wget",
		"eclipse-temurin:25-jre-ubi9-minimal": "curl", "docker.io/library/openjdk:17-slim": "", "openjdk:17": "curl", "amazoncorretto:21": "curl",
		"gcr.io/distroless/java21": "", "orders:1-slim": "curl", "bellsoft/liberica-openjre-alpine:21": "wget",
	} {
		c := &container{image: image}
		if got := clientOf(c); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
		if want != "" && lacks(c, want) {
			t.Errorf("%s lacks %s, which is what it has", image, want)
		}
	}
	for _, image := range []string{"eclipse-temurin:21-jre-alpine", "eclipse-temurin:25-jre", "eclipse-temurin:22.0.1_8-jdk", "openjdk:17-jdk-slim", "docker.io/amazoncorretto:21-alpine"} {
		if !lacks(&container{image: image}, "curl") {
			t.Errorf("%s has curl", image)
		}
	}
	for _, image := range []string{"eclipse-temurin:21-jre", "orders:25-alpine", "eclipse-temurin", "amazoncorretto:24"} {
		if lacks(&container{image: image}, "curl") {
			t.Errorf("%s lacks curl", image)
		}
	}
}

// FuzzScript: no script of strangers makes its reader panic, or find words that aren't in it.
func FuzzScript(f *testing.F) {
	for _, script := range []string{"a 'b' \"c\" `d` $(e) >f 2>&1 #g\n\\", "curl -sX", "curl --max-time", "timeout 5", "wget --header=a:b http://[::1]:x/?status=%zz", "sleep ${A:-5}"} {
		f.Add(script)
	}
	l := loaded(&testing.T{}, naive)
	f.Fuzz(func(t *testing.T, script string) {
		p := pause{}
		p.readExec([]string{"sh", "-c", script})
		l.untold(p)
		if p.lasts() < 0 || p.lasts() > most {
			t.Errorf("calls of %s", p.lasts())
		}
		all, _ := commands(script)
		if slices.ContainsFunc(all, func(words []string) bool { return len(words) == 0 }) {
			t.Error("a command of no words")
		}
	})
}

// TestLongScript: a long script costs no more than its length; it is read once.
func TestLongScript(t *testing.T) {
	l := loaded(t, strings.Replace(naive, "        env:", "        lifecycle: {preStop: {sleep: {seconds: 5}}}\n        env:", 1))
	l.hookOf(l.main)
	if l.main.hook == nil || l.main.hook.length != 5*time.Second {
		t.Error("a hook is read each time")
	}
	for _, part := range []string{"$(a) ", "`a` ", "'a' ", "a>b ", "curl a;", "\"a\" ", "sleep 1;", ">>>> "} {
		p := pause{}
		p.readExec([]string{"sh", "-c", strings.Repeat(part, 20_000)})
	}
}
