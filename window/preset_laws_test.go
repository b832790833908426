package window_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/window"
)

// drawn is a valid value of a setting, as Derive takes it; small enough to meet others, seldom large.
func drawn(t *rapid.T, s window.Setting, label string) string {
	switch s.Default.Kind {
	case window.KindSwitch:
		return rapid.SampledFrom([]string{"on", "off"}).Draw(t, label)
	case window.KindCount:
		return fmt.Sprint(rapid.IntRange(1, 99).Draw(t, label))
	}
	return time.Duration(rapid.OneOf(
		rapid.Int64Range(int64(60*time.Second), int64(10*time.Minute)),
		rapid.Int64Range(int64(time.Second), int64(365*24*time.Hour)),
	).Draw(t, label)).String()
}

// Whatever the other settings are, a longer setting never makes a window's worst case shorter, and no setting makes
// nonsense of it.
func TestWorstIsMonotoneInEachSetting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(window.Presets()).Draw(t, "preset")
		set := map[string]string{}
		for _, s := range p.Settings {
			if rapid.Bool().Draw(t, "set "+s.Name) {
				set[s.Name] = drawn(t, s, s.Name)
			}
		}
		fleet := window.Fleet{Instances: rapid.IntRange(1, 2000).Draw(t, "instances")}
		fleet.Lost = rapid.IntRange(1, fleet.Instances).Draw(t, "lost")
		s := rapid.SampledFrom(p.Settings).Draw(t, "setting")
		if s.Default.Kind == window.KindSwitch {
			t.Skip("a switch is neither long nor short")
		}
		with := func(label string) (window.Forecast, string, error) {
			changed := maps.Clone(set)
			changed[s.Name] = drawn(t, s, label)
			f, err := p.Derive(changed, fleet)
			return f, changed[s.Name], err
		}
		a, x, err := with("one")
		b, y, err2 := with("other")
		if err != nil || err2 != nil {
			t.Skip(err, err2)
		}
		if longer(t, x, y) {
			a, b, x, y = b, a, y, x
		}
		for path, w := range map[string][2]window.Window{"planned": {a.Planned, b.Planned}, "crash": {a.Crash, b.Crash}} {
			if w[0].Terms.Worst() > w[1].Terms.Worst() {
				t.Fatalf("%s, %s, with %v: %s for %s = %s and %s for %s", p.Name, path, set, w[0].Terms, s.Name, x, w[1].Terms, y)
			}
			for _, w := range w {
				if err := w.Terms.Check(); err != nil || w.Terms.Mean() > w.Terms.Worst() || w.Terms.Mean() < w.Terms.Best() {
					t.Fatalf("%s, %s, with %v: %s, mean %s, %v", p.Name, path, set, w.Terms, w.Terms.Mean(), err)
				}
			}
		}
		if _, err := p.Trades(set, fleet); err != nil {
			t.Logf("no trades: %v", err) // its own settings may be faulty without the one that was put in
		}
	})
}

func longer(t *rapid.T, x, y string) bool {
	if dx, err := time.ParseDuration(x); err == nil {
		dy, err := time.ParseDuration(y)
		if err != nil {
			t.Fatal(err)
		}
		return dx > dy
	}
	return len(x) > len(y) || len(x) == len(y) && x > y
}

// No fleet is too large to be answered, and none takes more than a moment.
func TestTheLargestFleet(t *testing.T) {
	const all = 1_000_000_000
	for _, p := range window.Presets() {
		f := derive(t, p.Name, window.Fleet{Callers: all, Instances: all, Lost: all})
		if err := f.Crash.Terms.Check(); err != nil || f.Load.ReadsPerSecond < 0 || f.Load.BeatsPerSecond < 0 {
			t.Errorf("%s: %+v, %v", p.Name, f.Load, err)
		}
		trades(t, p.Name, window.Fleet{Callers: all, Instances: all, Lost: all})
	}
	if terms := derive(t, "eureka", window.Fleet{Instances: all, Lost: all}, "renewal-percent=99").Crash.Terms; terms.Worst() <= 0 || terms.Mean() > terms.Worst() {
		t.Errorf("a percent a sweep: %s of %s", terms.Mean(), terms.Worst())
	}
}

// What strangers set is refused or answered, and an answer is sound.
func FuzzDerive(f *testing.F) {
	for _, seed := range [][3]string{{"eureka", "client-cache", "5s"}, {"eureka", "renewal-percent", "1"}, {"eider", "cut-off", "100"}, {"etcd", "ttl", "8760h"},
		{"consul-ttl", "nodes", "1000000"}, {"serf", "suspicion-mult", "-1"}, {"dns", "re-resolve", "off"}, {"", "", ""}, {"zookeeper", "tick", "1e9999h"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, preset, name, value string) {
		p, err := window.Lookup(preset)
		if err != nil {
			return
		}
		got, err := p.Derive(map[string]string{name: value}, window.Fleet{})
		if err != nil {
			return
		}
		for _, w := range []window.Window{got.Planned, got.Crash} {
			if err := w.Terms.Check(); err != nil || w.Terms.Worst() < w.Terms.Best() || w.Terms.Mean() > w.Terms.Worst() {
				t.Fatalf("%s with %s = %q: %s, %v", preset, name, value, w.Terms, err)
			}
		}
	})
}

// TestTheRegistryHoldsMore: what Eureka preserves and sweeps goes by all that it holds; beats and what is evicted of the
// service by the service's own.
func TestTheRegistryHoldsMore(t *testing.T) {
	alone, among := derive(t, "eureka", window.Fleet{Lost: 2}), derive(t, "eureka", window.Fleet{Lost: 2, Registry: 400})
	if alone.Crash.Void == "" || among.Crash.Void != "" || among.Crash.VoidWhen[0] != "self-preservation: more than 59 of 400 instances lost at once" {
		t.Errorf("2 of 10 void the bound where they are alone (%q), and not among 400: %q; %q", alone.Crash.Void, among.Crash.Void, among.Crash.VoidWhen)
	}
	if alone.Load.BeatsPerSecond != among.Load.BeatsPerSecond || alone.Load.FalseEvictionsPerDay != among.Load.FalseEvictionsPerDay {
		t.Errorf("the service itself is the same: %+v, %+v", alone.Load, among.Load)
	}
	few, many := derive(t, "eureka", window.Fleet{Lost: 10}, "self-preservation=off"), derive(t, "eureka", window.Fleet{Lost: 10, Registry: 400}, "self-preservation=off")
	if few.Crash.Terms.Worst() <= many.Crash.Terms.Worst() || many.Crash.Terms.Worst() != 335*s {
		t.Errorf("ten of ten take several sweeps (%s), ten of 400 one: %s", few.Crash.Terms.Worst(), many.Crash.Terms.Worst())
	}
	for _, fleet := range []window.Fleet{{Registry: 9}, {Registry: 2_000_000_000}} {
		if _, err := lookup(t, "eureka").Derive(nil, fleet); err == nil {
			t.Errorf("%s pass", fleet)
		}
	}
}

// TestSettingsByTheirKeys: what stands in an application.yml, or in the environment, is what one sets.
func TestSettingsByTheirKeys(t *testing.T) {
	p := lookup(t, "eureka")
	for _, row := range [][4]string{
		{"eureka.instance.lease-renewal-interval-in-seconds", "10", "renew", "10s"},
		{"eureka.instance.leaseRenewalIntervalInSeconds", "10s", "renew", "10s"},
		{"EUREKA_INSTANCE_LEASERENEWALINTERVALINSECONDS", "10", "renew", "10s"},
		{"eureka.server.response-cache-update-interval-ms", "5000", "response-cache", "5000ms"},
		{"spring.cloud.loadbalancer.cache.ttl", "5s", "load-balancer-cache", "5s"},
		{"eureka.server.enable-self-preservation", "false", "self-preservation", "false"},
	} {
		name, value, ok := p.Keyed(row[0], row[1])
		if !ok || name != row[2] || value != row[3] {
			t.Errorf("%s=%s is %s=%s (%v), want %s=%s", row[0], row[1], name, value, ok, row[2], row[3])
		}
	}
	for _, name := range []string{"", "renew", "eureka.renew"} {
		if _, _, ok := p.Keyed(name, "1"); ok {
			t.Errorf("%q is no key", name)
		}
	}
	for preset, beat := range map[string]string{"eureka": "renew", "nacos-1": "beat", "nacos-2": "keep-alive"} {
		if _, err := lookup(t, preset).Derive(pairs("heartbeat=5s"), window.Fleet{}); err == nil || !strings.Contains(err.Error(), "did you mean "+beat+"?") {
			t.Errorf("%s: %v; want to be asked for %s", preset, err, beat)
		}
	}
}
