package kube

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/server/internal/kube/kubetest"
	"github.com/eiderhq/eider/server/internal/memnet"
)

const (
	apiHost = "10.96.0.1"
	podHost = "10.1.0.7"
	podName = "orders-5d9c-x7k2p"
	s       = time.Second
	ms      = time.Millisecond
)

// world is a cluster for one pod, in a bubble.
type world struct {
	t     *testing.T
	net   *memnet.Net
	api   *kubetest.Server
	dir   string // where the service account is
	env   map[string]string
	begun time.Time

	mu   sync.Mutex
	said []string
}

// bubble plays a scene: the API serves, the pod's files are there.
func bubble(t *testing.T, play func(w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		api, err := kubetest.New("shop", apiHost, "secret-1")
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, net: memnet.New(), api: api, dir: dir, env: map[string]string{
			"KUBERNETES_SERVICE_HOST": apiHost, "KUBERNETES_SERVICE_PORT": "443", "POD_NAME": podName}}
		w.file("ca.crt", string(api.CA()))
		w.file("token", "secret-1\n")
		lis, err := w.net.Listen(apiHost + ":443")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = api.Serve(lis) // until Close
		}()
		play(w)
		api.Close()
		<-served
	})
}

func (w *world) file(name, text string) string {
	name = filepath.Join(w.dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// config is what a hook in the pod has.
func (w *world) config() Config {
	return Config{
		Services: []string{"orders"}, Namespace: "shop", TokenFile: filepath.Join(w.dir, "token"), CAFile: filepath.Join(w.dir, "ca.crt"),
		Getenv: func(name string) string { return w.env[name] }, Hostname: func() (string, error) { return "somewhere", nil },
		Progress: func(line string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.said = append(w.said, fmt.Sprintf("%s %s", time.Since(w.begun).Round(ms), line))
		},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return w.net.From(podHost).Dial(ctx, address)
		},
	}
}

// leave runs the hook.
func (w *world) leave(c Config) Report {
	w.t.Helper()
	r, err := w.try(c)
	if err != nil {
		w.t.Fatalf("the settings are refused: %v", err)
	}
	return r
}

func (w *world) try(c Config) (Report, error) {
	w.begun = time.Now()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute) // whatever is wrong with it, the test ends
	defer cancel()
	return c.Leave(ctx)
}

// later does something while the hook runs.
func (w *world) later(after time.Duration, do func()) { time.AfterFunc(after, do) }

func (w *world) heard() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.said, "\n")
}

// wants holds a report to what it is to be; the pause may be late by what jitter and quiet watches take.
func (w *world) wants(r Report, outcome Outcome, least, most time.Duration, words ...string) {
	w.t.Helper()
	if r.Outcome != outcome || r.Pause < least || r.Pause > most {
		w.t.Errorf("outcome %d after %s, want %d after %s to %s\n%s\n%s\n%v", r.Outcome, r.Pause, outcome, least, most, r.Line, w.heard(), w.api.Requests())
	}
	for _, word := range words {
		if !strings.Contains(r.Line+"\n"+w.heard(), word) {
			w.t.Errorf("nobody says %q:\n%s\n%s", word, r.Line, w.heard())
		}
	}
}

// ready, leaving and waiting are endpoints as the controller writes them.
func ready(pod, address string) kubetest.Endpoint {
	return kubetest.Endpoint{Pod: pod, Address: address, Ready: new(true), Serving: new(true), Terminating: new(false)}
}

func leaving(pod, address string) kubetest.Endpoint {
	return kubetest.Endpoint{Pod: pod, Address: address, Ready: new(false), Serving: new(true), Terminating: new(true)}
}

func slice1(name string, endpoints ...kubetest.Endpoint) kubetest.Slice {
	return kubetest.Slice{Name: name, Service: "orders", Endpoints: endpoints}
}

var other = ready("orders-5d9c-other", "10.1.0.8")

// The way it goes: the hook begins, the controller takes the pod out, nodes follow.
func TestSeenNotReady(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", ready(podName, podHost), other))
		w.later(400*ms, func() { w.api.Put(slice1("orders-a", leaving(podName, podHost), other)) })
		r := w.leave(w.config())
		w.wants(r, Seen, 3400*ms, 3500*ms, "orders-5d9c-x7k2p is ready in 1 of 1 slice of orders; 8s = grace 30s (default) − in-flight deadline 20s (default) − margin 2s (fixed) at most",
			"is not ready in 1 slice of orders any more; it serves on for 3s = kube-proxy 0s to 1s (kubernetes.proxy-min-sync = 1s: kubernetes pkg/proxy/apis/config/v1alpha1/defaults.go minSyncPeriod) + margin 2s",
			"served on for 3.4s: orders-5d9c-x7k2p was not ready in 1 slice of orders after 400ms, and then 3s = kube-proxy")
		if r.Seen < 400*ms || r.Seen > 500*ms || !slices.Equal(r.Services, []string{"orders"}) {
			t.Errorf("%+v", r)
		}
		if got := w.api.Requests(); !slices.Equal(got[:2], []string{"list", "watch 101"}) {
			t.Errorf("it asked %v", got)
		}
	})
}

// A pod is in many slices: of two families, of several Services, and for a moment twice in one Service. It is out when it is
// out of all.
func TestAllSlicesOfAllServices(t *testing.T) {
	bubble(t, func(w *world) {
		second := kubetest.Slice{Name: "peers-a", Service: "orders-peers", Endpoints: []kubetest.Endpoint{ready(podName, podHost), other}}
		w.api.Put(slice1("orders-4", ready(podName, podHost), other))
		w.api.Put(slice1("orders-6", ready(podName, "fd00::7"), other))
		w.api.Put(second)
		w.api.Put(kubetest.Slice{Name: "billing-a", Service: "billing", Endpoints: []kubetest.Endpoint{ready("billing-1", "10.1.0.9")}})
		w.api.Put(kubetest.Slice{Name: "by-hand", Endpoints: []kubetest.Endpoint{ready(podName, podHost)}})
		w.later(300*ms, func() { w.api.Put(slice1("orders-4", leaving(podName, podHost), other)) })
		w.later(900*ms, func() { w.api.Put(slice1("orders-6", leaving(podName, "fd00::7"), other)) })
		w.later(1500*ms, func() { w.api.Delete("peers-a") })
		c := w.config()
		c.Services = nil
		w.wants(w.leave(c), Seen, 4500*ms, 4600*ms, "is ready in 3 of 3 slices of orders, orders-peers", "is ready in 2 of 3 slices", "is ready in 1 of 3 slices")
	})
	bubble(t, func(w *world) { // --service asks for no more than it names
		w.api.Put(slice1("orders-4", leaving(podName, podHost), other))
		w.api.Put(kubetest.Slice{Name: "peers-a", Service: "orders-peers", Endpoints: []kubetest.Endpoint{ready(podName, podHost)}})
		w.wants(w.leave(w.config()), Seen, 3*s, 3100*ms)
	})
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-4", leaving(podName, podHost), other))
		w.api.Put(kubetest.Slice{Name: "peers-a", Service: "orders-peers", Endpoints: []kubetest.Endpoint{ready(podName, podHost)}})
		c := w.config()
		c.Services = []string{"Orders", " orders-peers "}
		w.wants(w.leave(c), Cut, 8*s, 8*s, "is ready in 1 of 2 slices of orders, orders-peers; the grace left no more: 8s = grace 30s (default)")
	})
}

// More slices than a page has are all of them read.
func TestPages(t *testing.T) {
	bubble(t, func(w *world) {
		for i := range 250 {
			w.api.Put(slice1(fmt.Sprintf("orders-%03d", i), other))
		}
		w.api.Put(slice1("orders-last", ready(podName, podHost)))
		w.later(500*ms, func() { w.api.Put(slice1("orders-last", leaving(podName, podHost))) })
		w.wants(w.leave(w.config()), Seen, 3500*ms, 3600*ms)
		if got := w.api.Requests(); !slices.Equal(got[:3], []string{"list", "list continue", "list continue"}) {
			t.Errorf("it asked %v", got)
		}
	})
	bubble(t, func(w *world) { // a page may expire before the next is asked for
		for i := range 150 {
			w.api.Put(slice1(fmt.Sprintf("orders-%03d", i), other))
		}
		w.api.Put(slice1("orders-last", leaving(podName, podHost)))
		once := false
		w.api.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("continue") != "" && !once {
				once = true
				w.api.Compact()
			}
			return false
		})
		w.wants(w.leave(w.config()), Seen, 3*s, 3200*ms)
		if got := w.api.Requests(); !slices.Equal(got[:4], []string{"list", "list continue", "list", "list continue"}) {
			t.Errorf("it asked %v", got)
		}
	})
}

// A pod that nobody else can stand in for is sent to by kube-proxy although it leaves (KEP-1669).
func TestNobodyElseIsReady(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", leaving(podName, podHost), kubetest.Endpoint{Pod: "orders-new", Address: "10.1.0.9", Ready: new(false)}))
		w.later(4*s, func() { w.api.Put(slice1("orders-a", leaving(podName, podHost), ready("orders-new", "10.1.0.9"))) })
		w.wants(w.leave(w.config()), Seen, 7*s, 7100*ms, "nobody else is ready in orders: nodes go on sending to it, and it waits for another until 8s")
	})
	bubble(t, func(w *world) { // a Service that is taken down has nobody to come
		w.api.Put(slice1("orders-a", leaving(podName, podHost)))
		c := w.config()
		c.Grace = 60 * s
		w.wants(w.leave(c), Seen, 8*s, 8*s)
	})
}

// publishNotReadyAddresses has ready stay true for ever.
func TestPublishNotReadyAddresses(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", ready(podName, podHost), other))
		gone := ready(podName, podHost)
		gone.Terminating = new(true)
		w.later(400*ms, func() { w.api.Put(slice1("orders-a", gone, other)) })
		w.wants(w.leave(w.config()), Seen, 3400*ms, 3500*ms, "400ms orders-5d9c-x7k2p is not ready", "orders publishes pods that aren't ready (publishNotReadyAddresses)")
	})
	bubble(t, func(w *world) { // it shows at once in a pod that can't serve
		ill := ready(podName, podHost)
		ill.Serving = new(false)
		w.api.Put(slice1("orders-a", ill, other))
		w.later(400*ms, func() {
			ill.Terminating = new(true)
			w.api.Put(slice1("orders-a", ill, other))
		})
		w.wants(w.leave(w.config()), Seen, 3400*ms, 3500*ms, "0s orders-5d9c-x7k2p is ready in 1 of 1 slice of orders; 8s", "publishNotReadyAddresses")
	})
}

// A readiness that only flickers isn't a departure.
func TestReadyAgain(t *testing.T) {
	bubble(t, func(w *world) {
		ill := kubetest.Endpoint{Pod: podName, Address: podHost, Ready: new(false), Serving: new(false), Terminating: new(false)}
		w.api.Put(slice1("orders-a", ill, other))
		w.later(1*s, func() { w.api.Put(slice1("orders-a", ready(podName, podHost), other)) })
		w.later(2*s, func() { w.api.Put(slice1("orders-a", leaving(podName, podHost), other)) })
		w.wants(w.leave(w.config()), Seen, 5*s, 5100*ms)
	})
}

// A hook may run twice, one beside the other or after it: nothing is kept, and each sees what there is to see.
func TestCalledTwice(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", ready(podName, podHost), other))
		w.later(400*ms, func() { w.api.Put(slice1("orders-a", leaving(podName, podHost), other)) })
		second := make(chan Report)
		go func() {
			c := w.config()
			c.Progress = nil
			r, _ := c.Leave(w.t.Context())
			second <- r
		}()
		w.wants(w.leave(w.config()), Seen, 3400*ms, 3500*ms)
		w.wants(<-second, Seen, 3400*ms, 3500*ms)
		w.wants(w.leave(w.config()), Seen, 3*s, 3100*ms)
	})
}

// A pod that no slice names has gone already, or is called otherwise: nobody can tell, so it waits for all of it.
func TestNoSliceNamesIt(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", other))
		w.wants(w.leave(w.config()), Unnamed, 5*s, 5*s, "no slice names orders-5d9c-x7k2p: it has gone already, or it is called otherwise (POD_NAME, POD_IP)",
			"so the pause was all that a pod's removal takes: 5s = slice sync 0s to 1s", "kube-proxy 0s to 1s", "margin 2s", "least pause 1s")
	})
	bubble(t, func(w *world) {
		w.wants(w.leave(w.config()), Unnamed, 5*s, 5*s, "the API has no slices of the Services asked for")
	})
	bubble(t, func(w *world) { // what was there and has gone is gone
		w.api.Put(slice1("orders-a", ready(podName, podHost), other))
		w.later(400*ms, func() { w.api.Put(slice1("orders-a", other)) })
		w.wants(w.leave(w.config()), Seen, 3400*ms, 3500*ms, "was not ready in the slices of orders after 400ms")
	})
	bubble(t, func(w *world) { // also when a list says it and no event
		w.api.Put(slice1("orders-a", ready(podName, podHost), other))
		w.later(400*ms, func() {
			w.api.Put(slice1("orders-a", other))
			w.api.Compact()
			w.net.Cut(apiHost, podHost)
		})
		w.wants(w.leave(w.config()), Seen, 3400*ms, 3700*ms, "was not ready in the slices of orders after")
	})
}

// Load balancers named take longer than kube-proxy, each as the one table has it; those before nodes come on top.
func TestLoadBalancers(t *testing.T) {
	for names, rest := range map[string]time.Duration{"alb": 32 * s, "nginx,istio": 12 * s, "gce-local": 27 * s, "mesh=4s": 6 * s, "mesh=10ms": 3 * s} {
		bubble(t, func(w *world) {
			w.api.Put(slice1("orders-a", ready(podName, podHost), other))
			w.later(400*ms, func() { w.api.Put(slice1("orders-a", leaving(podName, podHost), other)) })
			c := w.config()
			c.Balancers, c.Grace = []string{names}, 100*s
			w.wants(w.leave(c), Seen, 400*ms+rest, 500*ms+rest)
		})
	}
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", leaving(podName, podHost), other))
		c := w.config()
		c.Balancers = []string{"alb"}
		w.wants(w.leave(c), Cut, 8*s, 8*s, "32s = a load balancer's own list 10s to 30s (reported in mattrobinsonsre/terrapod#222; nothing bounds it) + margin 2s",
			"0s orders-5d9c-x7k2p is not ready", "terminationGracePeriodSeconds: 54 and --grace would be enough")
	})
}

// The program's own deadline has its share of the grace, whatever the hook would like.
func TestTheGraceRules(t *testing.T) {
	for name, c := range map[string]struct {
		grace, flight time.Duration
		env           string
		want          time.Duration
	}{
		"default":            {0, 0, "", 8 * s},
		"environment":        {0, 0, "45s", 23 * s},
		"flag":               {20 * s, 0, "45s", 18*s - 90*s/7},
		"deadline":           {0, 25 * s, "", 3 * s},
		"both":               {60 * s, 40 * s, "", 18 * s},
		"short with default": {9 * s, 0, "", 2 * s},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.api.Put(slice1("orders-a", ready(podName, podHost), other))
				w.env["EIDER_GRACE"] = c.env
				set := w.config()
				set.Grace, set.InFlight = c.grace, c.flight
				w.wants(w.leave(set), Cut, c.want, c.want+ms, "is ready in 1 of 1 slice of orders; the grace left no more")
			})
		})
	}
}

// A person, or a platform, may end it.
func TestASignalEndsIt(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", leaving(podName, podHost), other))
		ctx, cancel := context.WithTimeout(w.t.Context(), 700*ms)
		defer cancel()
		w.begun = time.Now()
		r, err := w.config().Leave(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		w.wants(r, Cut, 700*ms, 800*ms, "served on for 700ms: orders-5d9c-x7k2p was not ready in 1 slice of orders after 0s; a signal ended the pause")
	})
}
