package window_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/window"
)

var update = flag.Bool("update", false, "write the golden files and docs/presets.md anew")

func lookup(t testing.TB, name string) window.Preset {
	t.Helper()
	p, err := window.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func derive(t testing.TB, name string, fleet window.Fleet, set ...string) window.Forecast {
	t.Helper()
	f, err := lookup(t, name).Derive(pairs(set...), fleet)
	if err != nil {
		t.Fatalf("%s with %v for %+v: %v", name, set, fleet, err)
	}
	return f
}

// pairs reads "client-cache=5s".
func pairs(set ...string) map[string]string {
	out := map[string]string{}
	for _, s := range set {
		key, value, _ := strings.Cut(s, "=")
		out[key] = value
	}
	return out
}

// The numbers that everything else rests on: facts E of the design, REQUIREMENTS W7, protocols §2.
func TestWhatEachPresetComesTo(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		preset         string
		set            []string
		fleet          window.Fleet
		planned, crash time.Duration
	}{
		{preset: "eureka-textbook", planned: 30 * s, crash: 180 * s},
		{preset: "eureka", planned: 95*s + 500*ms, crash: 335 * s},
		{preset: "eureka", set: []string{"peers=off"}, fleet: window.Fleet{Instances: 20}, planned: 95 * s, crash: 335 * s},
		{preset: "eureka", set: []string{"load-balancer-cache=0s"}, planned: 60*s + 500*ms, crash: 300 * s},
		{preset: "eureka", set: []string{"client-cache=5s", "response-cache=0s", "load-balancer-cache=0s", "peer-batch=0s"}, planned: 5 * s, crash: 245 * s},
		// Half of 1,000 dead: sweeps of 150, 128, 109, 92 and 21, the last one 240 s after the first.
		{preset: "eureka", set: []string{"self-preservation=off"}, fleet: window.Fleet{Instances: 1000, Lost: 500}, planned: 95*s + 500*ms, crash: 575 * s},
		{preset: "eureka-netflix", planned: 60*s + 500*ms, crash: 300 * s},
		{preset: "consul-ttl", planned: s, crash: 31 * s},
		{preset: "consul-ttl", set: []string{"sync-failed=on"}, planned: 120 * s, crash: 150 * s},
		{preset: "consul-ttl", set: []string{"sync-failed=on", "nodes=8192"}, planned: 480 * s, crash: 510 * s},
		{preset: "consul-ttl", set: []string{"wakeup-lost=on"}, planned: s + 318*s + 750*ms, crash: 31*s + 318*s + 750*ms},
		{preset: "consul-ttl", set: []string{"passing=off"}, planned: s, crash: 30*s + 60*s + 30*s + s},
		{preset: "consul-gossip", planned: s, crash: s + 48*s + s},
		{preset: "consul-gossip", set: []string{"nodes=1000"}, planned: s, crash: s + 72*s + s},
		{preset: "consul-gossip", set: []string{"nodes=10000"}, planned: s, crash: s + 96*s + s},
		{preset: "serf", planned: 2400 * ms, crash: 25 * s},
		{preset: "etcd", planned: 10 * ms, crash: 60*s + 500*ms + ms},
		{preset: "etcd", fleet: window.Fleet{Instances: 5000, Lost: 2500}, planned: 10 * ms, crash: 63 * s},
		{preset: "etcd", set: []string{"ttl=1s", "elections=2"}, planned: 10 * ms, crash: 6*s + 501*ms},
		{preset: "zookeeper", planned: 10 * ms, crash: 42 * s},
		{preset: "zookeeper", set: []string{"tick=3s"}, planned: 10 * ms, crash: 63 * s},
		{preset: "zookeeper", set: []string{"session=1s"}, planned: 10 * ms, crash: 6 * s},
		{preset: "nacos-1", planned: 11*s + 500*ms, crash: 46*s + 500*ms},
		{preset: "nacos-1", set: []string{"load-balancer-cache=35s"}, planned: 46*s + 500*ms, crash: 81*s + 500*ms},
		{preset: "nacos-2", planned: 1500 * ms, crash: 29*s + 500*ms},
		{preset: "nacos-2", set: []string{"load-balancer-cache=35s"}, planned: 36*s + 500*ms, crash: 64*s + 500*ms},
		{preset: "nacos-2", set: []string{"push-retries=1"}, planned: 7*s + 500*ms, crash: 35*s + 500*ms},
		{preset: "nacos-2", set: []string{"owner-cut-off=on"}, planned: 185*s + 500*ms, crash: 185*s + 500*ms},
		{preset: "nacos-2", set: []string{"owner-cut-off=on", "push=0s"}, planned: 185 * s, crash: 185 * s},
		{preset: "polaris", planned: 3 * s, crash: 19 * s},
		{preset: "polaris", set: []string{"eureka-api=on"}, planned: 76 * s, crash: 167 * s},
		{preset: "kubernetes", planned: 2 * s, crash: 33 * s},
		{preset: "kubernetes", set: []string{"node-lost=on"}, planned: 2 * s, crash: 57 * s},
		{preset: "kubernetes", set: []string{"probe-period=5s", "probe-failures=2", "slice-batch=500ms"}, planned: 2500 * ms, crash: 13*s + 500*ms},
		{preset: "dns", planned: 60 * s, crash: 90 * s},
		{preset: "dns", set: []string{"client-cache=30s"}, planned: 90 * s, crash: 120 * s},
		{preset: "envoy-eds", planned: 10 * s, crash: 41 * s},
		{preset: "eider", planned: 8 * s, crash: 20*s + 103*ms},
		{preset: "eider", set: []string{"silent=off"}, planned: 8 * s, crash: 403 * ms},
		{preset: "eider", set: []string{"poller=65s"}, planned: 66 * s, crash: 20*s + 103*ms},
	} {
		f := derive(t, row.preset, row.fleet, row.set...)
		if got := f.Planned.Terms.Worst(); got != row.planned {
			t.Errorf("%s %v: planned %s, want %s", row.preset, row.set, got, row.planned)
		}
		if got := f.Crash.Terms.Worst(); got != row.crash {
			t.Errorf("%s %v: crash %s, want %s", row.preset, row.set, got, row.crash)
		}
	}
}

func TestMeansThatAreKnown(t *testing.T) {
	if got := derive(t, "eureka-textbook", window.Fleet{}).Crash.Terms.Mean(); got != 120*s {
		t.Errorf("the textbook's mean is 75 + 30 + 15 = 120s, got %s", got)
	}
	// Half of 1,000 dead: the mean of the sweeps is (128 × 60 + 109 × 120 + 92 × 180 + 21 × 240)/500 = 84.72s.
	whole, one := derive(t, "eureka", window.Fleet{Instances: 1000, Lost: 500}), derive(t, "eureka", window.Fleet{Instances: 1000})
	if got, want := whole.Crash.Terms.Mean()-one.Crash.Terms.Mean(), 84720*time.Millisecond; got.Round(time.Millisecond) != want {
		t.Errorf("the further sweeps take %s on average, want %s", got, want)
	}
	if got := derive(t, "eider", window.Fleet{}, "cut-off=0").Planned.Terms; got.Mean() != 51500*time.Microsecond || got.Worst() != 8*s {
		t.Errorf("without callers that are cut off: mean %s, bound %s", got.Mean(), got.Worst())
	}
}

// What was measured lies within what is derived.
func TestWhatWasMeasuredIsWithin(t *testing.T) {
	for _, row := range []struct {
		preset   string
		set      []string
		measured time.Duration
	}{
		{"serf", nil, 7 * s},
		{"etcd", []string{"ttl=1s"}, 2180 * time.Millisecond},
	} {
		if terms := derive(t, row.preset, window.Fleet{}, row.set...).Crash.Terms; row.measured < terms.Best() || row.measured > terms.Worst() {
			t.Errorf("%s: %s was measured, %s to %s is derived", row.preset, row.measured, terms.Best(), terms.Worst())
		}
	}
}

func TestVoid(t *testing.T) {
	type fleet = window.Fleet
	for _, row := range []struct {
		name           string
		preset         string
		set            []string
		fleet          fleet
		planned, crash string // in the reason; empty: not void
	}{
		{"85 % are left of 10", "eureka", nil, fleet{}, "", ""},
		{"less is left of 10", "eureka", nil, fleet{Lost: 2}, "", "with 2 of 10 instances lost 16 renewals a minute come and more than 17 are demanded"},
		{"15 % of 1,000", "eureka", nil, fleet{Instances: 1000, Lost: 149}, "", ""},
		{"and one more", "eureka", nil, fleet{Instances: 1000, Lost: 150}, "", "self-preservation"},
		{"five are too few", "eureka", nil, fleet{Instances: 5}, "", "5 instances renew 10 times a minute and more than 10 are demanded, so that nobody is ever evicted"},
		{"six aren't, but no one may go", "eureka", nil, fleet{Instances: 6}, "", "with 1 of 6 instances lost"},
		{"a server that stands alone expects one more", "eureka", []string{"peers=off"}, fleet{}, "", "with 1 of 10 instances lost 18 renewals a minute come and more than 18"},
		{"Netflix's that stands alone expects none", "eureka-netflix", []string{"peers=off"}, fleet{Instances: 1000}, "", "evicts nobody"},
		{"five are enough for Netflix's", "eureka-netflix", nil, fleet{Instances: 7}, "", ""},
		{"off", "eureka", []string{"self-preservation=off"}, fleet{Lost: 10}, "", ""},
		{"renewals that come more rarely than expected", "eureka", []string{"renew=60s"}, fleet{Instances: 1000}, "", "nobody is ever evicted"},
		{"and more often", "eureka", []string{"renew=15s"}, fleet{Instances: 5, Lost: 2}, "", ""},
		{"a lower threshold", "eureka", []string{"renewal-percent=50"}, fleet{Lost: 4}, "", ""},
		{"no quorum", "etcd", []string{"quorum=off"}, fleet{}, "no quorum", "no quorum"},
		{"no quorum", "zookeeper", []string{"quorum=off"}, fleet{}, "no quorum", "no quorum"},
		{"no quorum", "consul-ttl", []string{"quorum=off"}, fleet{}, "no quorum", "no quorum"},
		{"no quorum", "consul-gossip", []string{"quorum=off"}, fleet{}, "no quorum", "no quorum"},
		{"looked up once", "dns", []string{"re-resolve=off"}, fleet{}, "keep its addresses", "keep its addresses"},
		{"connections stay", "kubernetes", []string{"keep-alive=on"}, fleet{}, "keep connections open", "keep connections open"},
		{"Envoy's own check", "envoy-eds", []string{"vetoed=on"}, fleet{}, "ignore_health_on_host_removal", ""},
		{"one of a few", "eider", nil, fleet{}, "", ""},
		{"two of ten", "eider", nil, fleet{Lost: 2}, "", "ten leases, one instance a lease: 4m0s for the last"},
		{"fifteen of a hundred", "eider", nil, fleet{Instances: 100, Lost: 15}, "", ""},
		{"their ports refuse", "eider", []string{"silent=off"}, fleet{Lost: 10}, "", ""},
	} {
		f := derive(t, row.preset, row.fleet, row.set...)
		for path, is := range map[string][2]string{"planned": {f.Planned.Void, row.planned}, "crash": {f.Crash.Void, row.crash}} {
			if (is[0] == "") != (is[1] == "") || !strings.Contains(is[0], is[1]) {
				t.Errorf("%s, %s, %s: void is %q, want %q", row.preset, row.name, path, is[0], is[1])
			}
		}
		if f.Crash.Void != "" && !strings.Contains(f.Crash.Void, "timeouts") {
			t.Errorf("%s, %s: it doesn't say what holds nevertheless: %s", row.preset, row.name, f.Crash.Void)
		}
	}
	for fleet, want := range map[window.Fleet]string{
		{Instances: 1000}: "more than 149 of 1000 instances lost at once",
		{}:                "more than 1 of 10 instances lost at once",
		{Instances: 5}:    "any crash among 5 instances",
	} {
		if when := derive(t, "eureka", fleet).Crash.VoidWhen; !strings.Contains(when[0], want) {
			t.Errorf("%+v: void when %q, want %q", fleet, when[0], want)
		}
	}
}

// Each preset is complete: every window says what would void it, every term and every setting has its source, and
// every term names the setting that it follows from.
func TestEachPresetIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range window.Presets() {
		if seen[p.Name] || p.Title == "" || p.About == "" {
			t.Errorf("%q: twice, or without a title or a word about it", p.Name)
		}
		seen[p.Name] = true
		f := derive(t, p.Name, window.Fleet{})
		for path, w := range map[string]window.Window{"planned": f.Planned, "crash": f.Crash} {
			if err := w.Terms.Check(); err != nil || len(w.Terms) == 0 || len(w.VoidWhen) == 0 || w.Void != "" {
				t.Errorf("%s, %s: %d terms, void when %q, void %q, %v", p.Name, path, len(w.Terms), w.VoidWhen, w.Void, err)
			}
			for _, term := range w.Terms {
				if term.Source == "" || strings.HasPrefix(term.Source, ":") {
					t.Errorf("%s, %s: term %q has no source", p.Name, path, term.Name)
				}
			}
		}
		if f.Load.Assumed == "" || !strings.Contains(f.Load.Assumed, "50 callers, 10 instances, 1 lost") {
			t.Errorf("%s: the load doesn't say what it assumes: %q", p.Name, f.Load.Assumed)
		}
		names := map[string]bool{}
		for _, setting := range p.Settings {
			if names[setting.Name] || setting.What == "" || setting.Source == "" {
				t.Errorf("%s.%s: twice, or without a word or a source", p.Name, setting.Name)
			}
			names[setting.Name] = true
			if _, err := p.Derive(map[string]string{setting.Name: setting.Default.String()}, window.Fleet{}); err != nil {
				t.Errorf("%s: its own default is refused: %v", p.Name, err)
			}
		}
	}
}

// A term says which setting it follows from, its value, where it is documented, and the default if it is another.
func TestSources(t *testing.T) {
	terms := derive(t, "eureka", window.Fleet{}, "client-cache=5s").Planned.Terms
	var sources []string
	for _, term := range terms {
		sources = append(sources, term.Name+" <- "+term.Source)
	}
	for _, want := range []string{
		"client cache <- eureka.client-cache = 5s (default 30s): EurekaClientConfigBean registryFetchIntervalSeconds",
		"load-balancer cache <- eureka.load-balancer-cache = 35s: LoadBalancerCacheProperties ttl",
	} {
		if !slices.Contains(sources, want) {
			t.Errorf("no %q among\n%s", want, strings.Join(sources, "\n"))
		}
	}
}

// Where one wait follows another that looks like its alternative, setting and term say why both count.
func TestWhatComesOnTopSaysWhy(t *testing.T) {
	for _, row := range []struct{ preset, setting, what, term, why, before string }{
		{"consul-ttl", "wakeup-lost", "asked just before the push arrived has all of its wait left, so that the push comes on top", "blocking query", "asked just before the push arrived", "agent push"},
		{"consul-gossip", "wakeup-lost", "asked just before the push arrived has all of its wait left, so that the push comes on top", "blocking query", "asked just before the push arrived", "agent push"},
		{"nacos-2", "owner-cut-off", "a change as any other, so that the push comes on top", "client expiry", "pushed as any other change", ""},
	} {
		i := slices.IndexFunc(lookup(t, row.preset).Settings, func(s window.Setting) bool { return s.Name == row.setting })
		if what := lookup(t, row.preset).Settings[i].What; !strings.Contains(what, row.what) {
			t.Errorf("%s.%s doesn't say why: %s", row.preset, row.setting, what)
		}
		f := derive(t, row.preset, window.Fleet{}, row.setting+"=on")
		terms := slices.Concat(f.Planned.Terms, f.Crash.Terms)
		called := func(name string) int {
			return slices.IndexFunc(terms, func(t window.Term) bool { return t.Name == name })
		}
		if i := called(row.term); i < 0 || !strings.Contains(terms[i].Source, row.why) || row.before != "" && called(row.before) != i-1 {
			t.Errorf("%s with %s: the term %q doesn't say %q, or doesn't follow %q:\n%s", row.preset, row.setting, row.term, row.why, row.before, terms)
		}
	}
}

func TestFaultsAreNamedAllAtOnce(t *testing.T) {
	_, err := lookup(t, "eureka").Derive(pairs("client-cahce=5s", "sweep=60", "peers=yes", "renewal-percent=0.85", "response-cache=-1s", "lease=9999h"),
		window.Fleet{Instances: 3, Lost: 4})
	if err == nil {
		t.Fatal("seven faults pass")
	}
	for _, want := range []string{
		`eureka has no setting "client-cahce"; did you mean client-cache? There are: renew, lease, sweep, client-cache, response-cache,`,
		`eureka.sweep = "60": say a duration with its unit, such as 5s or 1m30s; the default is 60s`,
		`eureka.peers = "yes": say on or off; the default is on`,
		`eureka.renewal-percent = "0.85": say a whole number; the default is 85`,
		`eureka.response-cache = "-1s": it takes 0s to 8760h; the default is 30s`,
		`eureka.lease = "9999h": it takes 1ms to 8760h; the default is 90s`,
		`4 lost of 3 instances: say how many instances there are`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error doesn't say %q:\n%v", want, err)
		}
	}
	for set, want := range map[string]string{
		"renewal-percent=100": `it takes 1 to 99`,
		"lease=15s":           `eureka.lease = 15s is over after 30s, before the next beat (eureka.renew = 30s)`,
	} {
		if _, err := lookup(t, "eureka").Derive(pairs(set), window.Fleet{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	if _, err := lookup(t, "etcd").Derive(nil, window.Fleet{Instances: 2_000_000_000}); err == nil || !strings.Contains(err.Error(), "no more than 1000000000") {
		t.Errorf("a fleet beyond any: %v", err)
	}
}

func TestLookup(t *testing.T) {
	var names []string
	for _, p := range window.Presets() {
		names = append(names, p.Name)
	}
	if got, want := strings.Join(names, " "), "eureka-textbook eureka eureka-netflix consul-ttl consul-gossip etcd zookeeper nacos-1 nacos-2 polaris kubernetes dns envoy-eds serf eider"; got != want {
		t.Errorf("presets: %s", got)
	}
	for wrong, near := range map[string]string{"euraka": "eureka", "nacos": "nacos-1 or nacos-2", "Serf-lan": "serf", "eureka-": "eureka", "k8s": "kubernetes", "Istio": "envoy-eds", "Kubernetes": "kubernetes", "consul": "consul-ttl or consul-gossip", "foo": "", strings.Repeat("x", 1<<20): ""} {
		_, err := window.Lookup(wrong)
		if err == nil || strings.Contains(err.Error(), "did you mean") != (near != "") || (near != "" && !strings.Contains(err.Error(), "did you mean "+near+"?")) {
			t.Errorf("%.20s: %.200v", wrong, err)
		}
		if err != nil && !strings.Contains(err.Error(), strings.Join(names, ", ")) {
			t.Errorf("%.20s: the error doesn't list all: %.200v", wrong, err)
		}
	}
}

var lines = regexp.MustCompile(`[ \t]+\n`)

// golden compares with a file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = lines.ReplaceAllString(got, "\n")
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; go test ./window -update writes it", err)
	}
	if string(want) != got {
		t.Errorf("%s is out of date; go test ./window -update writes it anew, read the difference. Now:\n%s", name, got)
	}
}
