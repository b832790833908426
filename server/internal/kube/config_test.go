package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiderhq/eider/server/internal/balancers"
	"github.com/eiderhq/eider/server/internal/kube/kubetest"
	"github.com/eiderhq/eider/window"
)

// A hook with wrong settings says so at once, and pauses all the same: one that ends at once costs requests.
func TestWrongSettingsPauseToo(t *testing.T) {
	for name, c := range map[string]struct {
		with  func(*world, *Config)
		words string
	}{
		"balancer":       {func(_ *world, c *Config) { c.Balancers = []string{"abl"} }, "did you mean alb?"},
		"service":        {func(_ *world, c *Config) { c.Services = []string{"a/b"} }, `"a/b" may hold`},
		"setting":        {func(_ *world, c *Config) { c.Set = map[string]string{"proxy-min-sinc": "5s"} }, "did you mean proxy-min-sync?"},
		"grace":          {func(w *world, _ *Config) { w.env["EIDER_GRACE"] = "30" }, `EIDER_GRACE: "30" is no time above 0`},
		"no grace":       {func(_ *world, c *Config) { c.Grace = 2 * s }, "leaves nothing beside the margin"},
		"deadline":       {func(_ *world, c *Config) { c.InFlight = 40 * s }, "exceed the grace of 30s (default) by 12s"},
		"below 0":        {func(_ *world, c *Config) { c.InFlight = -s }, "--in-flight: -1s is below 0"},
		"address":        {func(_ *world, c *Config) { c.Address = "10.1.0" }, `--pod-ip "10.1.0" is no IP address`},
		"its variable":   {func(w *world, _ *Config) { w.env["POD_IP"] = "$(POD_IP)" }, `POD_IP "$(POD_IP)" is no IP address`},
		"plain HTTP":     {func(_ *world, c *Config) { c.API = "http://10.96.0.1" }, "the token isn't sent without TLS"},
		"namespace":      {func(_ *world, c *Config) { c.Namespace = "../kube-system" }, "is no name of a namespace"},
		"no namespace":   {func(_ *world, c *Config) { c.Namespace = "" }, "automountServiceAccountToken"},
		"no certificate": {func(_ *world, c *Config) { c.CAFile = "/nowhere/ca.crt" }, "/nowhere/ca.crt: no such file"},
		"an empty one":   {func(w *world, c *Config) { c.CAFile = w.file("empty.crt", "hello") }, "holds no certificate that can be read"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.api.Put(slice1("orders-a", ready(podName, podHost), other))
				set := w.config()
				c.with(w, &set)
				r, err := w.try(set)
				if err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(w.heard(), "0s "+strings.Split(err.Error(), "\n")[0]) {
					w.t.Errorf("%v, want %q, said at once in:\n%s", err, c.words, w.heard())
				}
				if r.Outcome != Misset || r.Pause < 5*s || r.Pause > 8*s {
					w.t.Errorf("outcome %d after %s", r.Outcome, r.Pause)
				}
			})
		})
	}
}

// All that is wrong is said together, and where this is no pod, nobody waits.
func TestFaultsOutsideOfAPod(t *testing.T) {
	r, err := Config{Balancers: []string{"x,y"}, InFlight: -1, Getenv: func(string) string { return "" }}.Leave(t.Context())
	if r.Outcome != Misset || r.Pause != 0 || err == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, want := range []string{"this isn't a pod: KUBERNETES_SERVICE_HOST isn't set", `load balancer "x"`, `load balancer "y"`, "--in-flight"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

// What a pod knows of itself, and what a flag says instead.
func TestWhoseEndpoint(t *testing.T) {
	host := "a-deployment-with-a-very-long-name-that-fills-what-a-host-has-"[:62]
	for name, c := range map[string]struct {
		set   Config
		env   map[string]string
		host  string
		local string
		slice kubetest.Endpoint
		want  bool
	}{
		"by name":                          {env: map[string]string{"POD_NAME": "a-1"}, slice: ready("a-1", "10.0.0.9"), want: true},
		"the flag is stronger":             {set: Config{Pod: "a-2"}, env: map[string]string{"POD_NAME": "a-1"}, slice: ready("a-1", "10.0.0.9")},
		"another on the same address":      {env: map[string]string{"POD_NAME": "a-1", "POD_IP": "10.0.0.9"}, slice: ready("a-2", "10.0.0.9")},
		"by host":                          {host: "a-1", slice: ready("a-1", "10.0.0.9"), want: true},
		"a host that was cut":              {host: host, slice: ready(host+"x7k2p", "10.0.0.9"), want: true},
		"a host that only begins so":       {host: "a", slice: ready("a-1", "10.0.0.9")},
		"by address, called otherwise":     {host: "b", env: map[string]string{"POD_IP": "10.0.0.9"}, slice: ready("a-1", "10.0.0.9"), want: true},
		"by the connection":                {host: "b", local: "10.0.0.9", slice: ready("a-1", "10.0.0.9"), want: true},
		"the variable is stronger":         {host: "b", local: "10.0.0.9", env: map[string]string{"POD_IP": "10.0.0.8"}, slice: ready("a-1", "10.0.0.9")},
		"the flag is yet stronger":         {host: "b", set: Config{Address: "10.0.0.9"}, env: map[string]string{"POD_IP": "10.0.0.8"}, slice: ready("a-1", "10.0.0.9"), want: true},
		"an endpoint without a pod":        {env: map[string]string{"POD_NAME": "a-1", "POD_IP": "10.0.0.9"}, slice: ready("", "10.0.0.9"), want: true},
		"another without a pod":            {env: map[string]string{"POD_NAME": "a-1", "POD_IP": "10.0.0.9"}, slice: ready("", "10.0.0.8")},
		"IPv6, written otherwise":          {host: "b", env: map[string]string{"POD_IP": "fd00:0:0::7"}, slice: ready("a-1", "fd00::7"), want: true},
		"nobody knows":                     {slice: ready("a-1", "10.0.0.9")},
		"nobody knows, and it has no name": {slice: ready("", "")},
	} {
		c.set.Getenv = func(name string) string { return c.env[name] }
		c.set.Hostname = func() (string, error) { return c.host, nil }
		set := settings{Config: c.set}
		i, err := set.identity()
		if err != nil {
			t.Fatal(err)
		}
		var e endpoint
		e.Addresses = []string{c.slice.Address}
		if c.slice.Pod != "" {
			e.TargetRef = &struct{ Kind, Name string }{"Pod", c.slice.Pod}
		}
		if got := i.is(e, c.local); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The whole bound is what `eider window --preset kubernetes` advises, and the rest is what of it comes after the API.
func TestTermsAreTheWindows(t *testing.T) {
	preset, err := window.Lookup("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, sets := range []map[string]string{nil, {"proxy-min-sync": "10s"}, {"slice-batch": "4500ms", "proxy-min-sync": "3s"}} {
		forecast, err := preset.Derive(sets, window.Fleet{})
		if err != nil {
			t.Fatal(err)
		}
		var got terms
		if err := got.derive(sets, nil); err != nil {
			t.Fatal(err)
		}
		if want := forecast.Recommend(0).Pause; (got.whole.Worst() + s - 1).Truncate(s) != want {
			t.Errorf("%v: %s, want %s", sets, got.whole, want)
		}
		if got.rest[0].Name != "kube-proxy" || len(got.rest) != 2 || got.rest[0].Max != forecast.Planned.Terms[len(forecast.Planned.Terms)-1].Max {
			t.Errorf("%v: %s", sets, got.rest)
		}
	}
	var got terms
	all, _ := balancers.Parse("aws-local,nginx")
	if err := got.derive(nil, all); err != nil || got.whole.Worst() != 34*s || got.rest.Worst() != 33*s {
		t.Errorf("%v, %s, %s", err, got.whole, got.rest)
	}
}

// Role is what the docs tell to apply, and it allows no more than it must.
func TestRole(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+Role+"```") {
		t.Error("docs/kubernetes.md has another Role than eider leave --kube prints")
	}
	if strings.Contains(Role, "*") || strings.Count(Role, "verbs: [list, watch]\n") != 1 || strings.Contains(Role, "Cluster") {
		t.Errorf("the Role allows more than what is asked of the API, a list and a watch:\n%s", Role)
	}
}
