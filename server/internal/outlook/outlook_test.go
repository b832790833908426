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

// A number is written as it is meant, without the last digits of arithmetic in binary: 1.86 s aren't 1.8599999999999999.
func TestNumbersAreWrittenAsTheyAreMeant(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 95500 * time.Millisecond: "95.5", 1860 * time.Millisecond: "1.86", 1555 * time.Millisecond: "1.555", 335 * time.Second: "335",
		-1500 * time.Millisecond: "-1.5", 305 * time.Millisecond: "0.305", time.Nanosecond: "0.000000001", 999_999: "0.000999999", 12_345_678: "0.012346", time.Second + 499: "1", time.Second + 500: "1.000001",
		time.Hour + 2: "3600", 8 * time.Hour: "28800", math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808"} {
		if text, err := json.Marshal(Seconds(d)); err != nil || string(text) != want {
			t.Errorf("%d ns are written %s, want %s (%v)", d, text, want, err)
		}
	}
	for f, want := range map[Rate]string{0: "0", 1.0 / 3: "0.333333", 5.0 / 3: "1.66667", 0.12002000333388899: "0.12002", 25: "25", 16750: "16750", 1234567.8: "1234567.8", 1e-9: "1e-9", 0.1 + 0.2: "0.3", 95.50000000000001: "95.5"} {
		text, err := json.Marshal(f)
		if err != nil || string(text) != want {
			t.Errorf("%v is written %s, want %s (%v)", float64(f), text, want, err)
		}
	}
	if _, err := json.Marshal(Rate(math.Inf(1))); err == nil {
		t.Error("what is no number is written as one")
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
