package window_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/window"
)

func TestRecommend(t *testing.T) {
	planned := window.Forecast{Planned: window.Window{Terms: window.Sum{
		window.Fixed("peers", 500*ms, ""), window.Uniform("response cache", 0, 30*s, ""), window.Uniform("fetch", 0, 30*s, ""), window.Uniform("balancer", 0, 35*s, "")}}}
	a := planned.Recommend(0)
	if a.Pause != 98*s || a.Sleep != a.Pause || a.Grace != 120*s {
		t.Errorf("95.5s and 2s of margin are a pause of 98s and, with 20s in flight and 2s for the end, a grace of 120s: %+v", a)
	}
	if want := "pause 98s = worst case of a planned departure 95.5s + margin 2s, in whole seconds; grace 120s = pause 98s + in-flight deadline 20s + margin 2s"; a.Why != want {
		t.Errorf("why:\n got %s\nwant %s", a.Why, want)
	}
	spring := planned
	spring.Flight = window.Fixed("Spring's shutdown phase", 30*s, "its setting")
	if a := spring.Recommend(0); a.Pause != 98*s || a.Grace != 130*s || !strings.HasSuffix(a.Why, "grace 130s = pause 98s + Spring's shutdown phase 30s (its setting) + margin 2s") {
		t.Errorf("the preset knows of 30s in flight: %+v", a)
	}
	real, err := lookup(t, "eureka").Derive(nil, window.Fleet{})
	if a := real.Recommend(0); err != nil || a.Pause != 98*s || a.Sleep != 98*s || a.Call != 5*s || a.Grace != 135*s ||
		!strings.Contains(a.Why, "; grace 135s = call 5s (the hook has Eureka told, for up to so long: curl --max-time 5) + pause 98s + Spring's shutdown phase 30s (") {
		t.Errorf("the preset eureka, whose programs are Spring's, and whose hook calls it before it sleeps: %+v, %v", a, err)
	}
	if a, b := spring.Recommend(7*s), planned.Recommend(7*s); a != b || a.Grace != 107*s {
		t.Errorf("who says how long a request may take knows better than the preset: %+v, %+v", a, b)
	}
	// Eider's own: 8 s at most, 20 s in flight and the margin are what Kubernetes' default grace of 30 s holds.
	eider := window.Forecast{Told: true, Planned: window.Window{Terms: window.Sum{window.Uniform("cap", 0, 8*s, "")}}}
	if a := eider.Recommend(0); a.Pause != 8*s || a.Sleep != 0 || a.Grace != 30*s || !strings.HasPrefix(a.Why, "no sleep: ") {
		t.Errorf("eider: %+v", a)
	}
	if a := eider.Recommend(1500 * ms); a.Grace != 12*s || !strings.Contains(a.Why, "deadline 1.5s") {
		t.Errorf("with 1.5s in flight: %+v", a)
	}
	short := window.Forecast{Planned: window.Window{Terms: window.Sum{window.Uniform("endpoints", 0, 2*s, "")}}}
	if a := short.Recommend(0); a.Pause != 5*s || a.Sleep != 5*s || a.Grace != 27*s || !strings.HasPrefix(a.Why, "pause 5s, the least that is worth trusting, for a worst case of a planned departure of 2s") {
		t.Errorf("a window of 2s: %+v", a)
	}
	for _, p := range window.Presets() {
		f, err := p.Derive(nil, window.Fleet{})
		if a := f.Recommend(0); (a.Call > 0) != strings.HasPrefix(p.Name, "eureka") || a.Heard != (p.Name == "kubernetes" || p.Name == "envoy-eds") {
			t.Errorf("%s: a call of %s before the pause; callers hear without it: %v", p.Name, a.Call, a.Heard)
		}
		if told := p.Name == "eider"; err != nil || f.Told != told || (f.Recommend(0).Sleep == 0) != told {
			t.Errorf("%s tells who leaves when its pause is over: %v, %v; want %v", p.Name, f.Told, err, told)
		}
	}
	planned.Planned.Void = "callers keep their addresses for ever"
	if a := planned.Recommend(0); !strings.HasPrefix(a.Why, "no pause is long enough") || !strings.Contains(a.Why, "for ever") {
		t.Errorf("a void window is advised on: %s", a.Why)
	}
	ages := window.Forecast{Planned: window.Window{Terms: window.Sum{window.Fixed("ages", math.MaxInt64, "")}}}
	if a := ages.Recommend(s); a.Pause != math.MaxInt64 || a.Grace != math.MaxInt64 {
		t.Errorf("ages and a bit: %+v", a)
	}
}

func TestFleet(t *testing.T) {
	if got := (window.Fleet{}).String(); got != "50 callers, 10 instances, 1 lost at once" {
		t.Errorf("the default fleet is %s", got)
	}
	if got := (window.Fleet{Registry: 400}).String(); got != "50 callers, 10 instances, 1 lost at once, 400 instances in the registry" {
		t.Errorf("a fleet that isn't alone is %s", got)
	}
	big := window.Fleet{Callers: 2000, Instances: 300, Lost: 3}
	if big.Known() != big || (window.Fleet{Callers: -1}).Known() != (window.Fleet{}).Known() {
		t.Errorf("%s", big)
	}
	// W9: 2,000 callers at 30 s are 67 reads a second.
	if got := big.Reads(30 * s); math.Abs(got-66.67) > 0.01 || big.Beats(30*s) != 10 || big.Reads(0) != 0 || big.Beats(-1) != 0 {
		t.Errorf("%v reads a second", got)
	}
}

// B9: 500/s at 50 ms are 25 in flight, at a failure after 5 ms 2.5, and a hang fills 200 in 0.4 s.
func TestB9Little(t *testing.T) {
	p := window.Pool{PerSecond: 500, Latency: 50 * ms, Size: 200}
	if p.InFlight() != 25 || p.At(5*ms).InFlight() != 2.5 || p.FillsIn() != 400*ms || p.Latency != 50*ms {
		t.Errorf("in flight %v, as it fails %v, full in %s", p.InFlight(), p.At(5*ms).InFlight(), p.FillsIn())
	}
	if (window.Pool{Size: 1}).FillsIn() != math.MaxInt64 || (window.Pool{PerSecond: math.NaN()}).InFlight() != 0 || p.At(-s).InFlight() != 0 {
		t.Error("a pool without requests fills")
	}
	rapid.Check(t, func(t *rapid.T) {
		p := window.Pool{PerSecond: rapid.Float64().Draw(t, "rate"), Latency: time.Duration(rapid.Int64().Draw(t, "latency")), Size: rapid.Int().Draw(t, "size")}
		if n := p.InFlight(); !(n >= 0) || math.IsInf(n, 0) || p.FillsIn() < 0 {
			t.Fatalf("%+v: %v in flight, full in %s", p, n, p.FillsIn())
		}
		if p.Latency < math.MaxInt64/2 && p.At(2*p.Latency).InFlight() < p.InFlight() {
			t.Fatalf("%+v: twice the latency has less in flight", p)
		}
	})
}

// The documented assumption, in the words of its documentation.
func TestPausesByDefault(t *testing.T) {
	for d, every := range map[time.Duration]float64{100 * ms: 1.0 / 24, s: 10.0 / 24, 10 * s: 4.23, 90 * s: 44.1} {
		if got := 1 / (window.Pauses{}).Beyond(d); math.Abs(got/every-1) > 0.01 {
			t.Errorf("a pause beyond %s comes once in %.3f days, want %.3f", d, got, every)
		}
	}
	if p := (window.Pauses{}); p.Beyond(10*time.Minute) != 0 || p.Beyond(0) != 24 || p.Beyond(-1) != 24 {
		t.Error("no pause is longer than ten minutes, and all are longer than 0")
	}
	steep := window.Pauses{PerDay: 1000, Shortest: s, Longest: 1000 * time.Hour, Tail: 2}
	if got := steep.Beyond(10 * s); math.Abs(got-10) > 0.01 {
		t.Errorf("of 1000 pauses a hundredth is ten times as long with a tail of 2: %v", got)
	}
	flat := window.Pauses{PerDay: 1, Shortest: s, Longest: 100 * s, Tail: 1e-300}
	if got := flat.Beyond(10 * s); math.Abs(got-0.5) > 0.001 {
		t.Errorf("without a tail half of the pauses between 1s and 100s are longer than 10s: %v", got)
	}
}

func TestPausesLaws(t *testing.T) {
	any := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), 0, 5e-324, math.MaxFloat64}))
	rapid.Check(t, func(t *rapid.T) {
		p := window.Pauses{PerDay: any.Draw(t, "per day"), Tail: any.Draw(t, "tail"),
			Shortest: time.Duration(rapid.Int64().Draw(t, "shortest")), Longest: time.Duration(rapid.Int64().Draw(t, "longest"))}
		a, b := time.Duration(rapid.Int64().Draw(t, "a")), time.Duration(rapid.Int64().Draw(t, "b"))
		short, long := p.Beyond(min(a, b)), p.Beyond(max(a, b))
		if !(long >= 0) || !(short >= long) || math.IsInf(short, 0) {
			t.Fatalf("%+v: %v beyond %s, %v beyond %s", p, short, min(a, b), long, max(a, b))
		}
	})
}

func TestCheckOfShapes(t *testing.T) {
	for want, shape := range map[string][]window.Bucket{
		"isn't a number from 0 up":         {{To: s, Weight: -1}, {To: s, Weight: 1}},
		"the weight NaN of 0s to 1s":       {{To: s, Weight: math.NaN()}, {To: s, Weight: 1}},
		"the weight +Inf of 0s to 1s":      {{To: s, Weight: math.Inf(1)}, {To: s, Weight: 1}},
		"ends before it begins":            {{From: s, To: 0, Weight: 1}},
		"beyond its best or worst case":    {{To: 3 * s, Weight: 1}},
		"none of its buckets has a weight": {{To: s}},
	} {
		if err := (window.Term{Name: "t", Max: 2 * s, Shape: shape}).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", shape, err, want)
		}
	}
}

func Example() {
	lease, _ := window.Parse("lease=60s..90s")
	sum := window.Sum{lease, window.Uniform("sweep", 0, time.Minute, "eviction interval"), window.Uniform("client cache", 0, 30*time.Second, "fetch interval")}
	spread := sum.Spread(0)
	fmt.Println(sum.Worst(), sum.Mean(), spread.Quantile(0.99).Round(time.Second))
	longest, _ := sum.Dominant()
	fmt.Println(longest)
	// Output:
	// 3m0s 2m0s 2m45s
	// lease 1m0s to 1m30s (given)
}
