package outlook

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiderhq/eider/window"
)

// A window of half a second, one to three seconds, and three fixed ones.
func forecast() window.Forecast {
	planned := window.Sum{window.Fixed("batch", time.Second/2, "a constant"), window.Uniform("poll", time.Second, 3*time.Second, "--every")}
	return window.Forecast{
		Planned: window.Window{Terms: planned, VoidWhen: []string{"the registry is away"}},
		Crash:   window.Window{Terms: append(planned, window.Fixed("lease", 3*time.Second, "a default")), Void: "nobody looks"},
		Load:    window.Load{ReadsPerSecond: 50, BeatsPerSecond: 10, FalseEvictionsPerDay: 0.5, Assumed: "pauses"},
	}
}

func TestWhatProgramsRead(t *testing.T) {
	o := Of(forecast(), window.Fleet{Callers: 5, Instances: 4, Lost: 3}, 7*time.Second)
	o.Preset, o.Title = "mine", "A registry of mine"
	o.Add([]window.Trade{{Setting: "poll", From: "3s", To: "1.5s", Planned: 1500 * time.Millisecond, Crash: -time.Second, Load: window.Load{ReadsPerSecond: 100}, Note: "costs reads"}})
	got, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/outlook.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var back Outlook
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o, back); diff != "" {
		t.Errorf("what is read isn't what was written (-written +read)\n%s", diff)
	}
}

// Terms by hand come without a load, and nobody reads 0 beats a second for it.
func TestNoLoadIsNotZero(t *testing.T) {
	f := forecast()
	f.Load = window.Load{}
	if o := Of(f, window.Fleet{}, 0); o.Load != nil {
		t.Errorf("a load of %+v; none is known", *o.Load)
	}
}

func TestAnEmptyWindowIsAList(t *testing.T) {
	o := Of(window.Forecast{}, window.Fleet{}, 0)
	if o.Planned.Terms == nil || o.Planned.Worst != 0 || o.Planned.Dominant != "" {
		t.Errorf("%+v", o.Planned)
	}
}

func TestSecondsThatNoDurationHolds(t *testing.T) {
	for text, want := range map[string]Seconds{"0.001": Seconds(time.Millisecond), "-2": Seconds(-2 * time.Second), "1e300": 0, `"5s"`: 0} {
		var s Seconds
		if err := json.Unmarshal([]byte(text), &s); s != want || (err == nil) != (want != 0) {
			t.Errorf("%s is read as %v: %v", text, s, err)
		}
	}
	for _, d := range []time.Duration{time.Nanosecond, 95500 * time.Millisecond, 335 * time.Second, 365 * 24 * time.Hour, math.MaxInt64 / 4} {
		text, _ := json.Marshal(Seconds(d))
		var back Seconds
		if err := json.Unmarshal(text, &back); err != nil || math.Abs(float64(back)-float64(d)) > float64(d)/1e12 {
			t.Errorf("%s is written %s and read %d: %v", d, text, back, err)
		}
	}
}
