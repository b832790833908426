// Package outlook is a forecast of the window as programs read it: what `eider window --json` prints, and what every
// picture and table of a window is drawn from.
package outlook

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/eiderhq/eider/window"
)

// Seconds is a duration that is written as a number of seconds.
type Seconds time.Duration

// MarshalJSON writes 95.5 for 95.5 s: to the microsecond, but for what is shorter than a millisecond. It is written from
// whole nanoseconds, which are exact; as a float 1.86 s would be 1.8599999999999999.
func (s Seconds) MarshalJSON() ([]byte, error) {
	d := time.Duration(s)
	if d.Abs() >= time.Millisecond {
		d = d.Round(time.Microsecond) // saturates
	}
	text := strings.TrimRight(fmt.Sprintf("%d.%09d", d/time.Second, (d%time.Second).Abs()), "0")
	if d < 0 && d > -time.Second {
		text = "-" + text
	}
	return []byte(strings.TrimSuffix(text, ".")), nil
}

// UnmarshalJSON reads a number of seconds.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	var f float64
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	if n := math.Round(f * float64(time.Second)); math.Abs(n) < math.MaxInt64 {
		*s = Seconds(n)
		return nil
	}
	return fmt.Errorf("%s s are longer than a duration may be", text)
}

// Rate is how often a thing happens, or how many there are of it. It is written to six digits, whole ones all: what is
// beyond them is arithmetic's.
type Rate float64

// MarshalJSON writes 0.333333 for a third.
func (r Rate) MarshalJSON() ([]byte, error) {
	f, err := strconv.ParseFloat(strconv.FormatFloat(float64(r), 'g', digitsOf(float64(r)), 64), 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(f)
}

// digitsOf is how many digits of a number are written: six, and one behind the point where more are before it.
func digitsOf(f float64) int {
	whole := 0
	for f = math.Abs(f); f >= 1 && whole < 300; f /= 10 {
		whole++
	}
	return max(6, whole+1)
}

// Outlook is the window of one system, with one choice of settings.
type Outlook struct {
	Preset    string    `json:"preset,omitempty"` // "" for terms that were given by hand
	Title     string    `json:"title"`
	Fleet     Fleet     `json:"fleet"`
	Planned   Path      `json:"planned"` // an instance that says that it leaves
	Crash     Path      `json:"crash"`   // one that says nothing
	Recommend Advice    `json:"recommend"`
	Load      *Load     `json:"load,omitempty"` // what the settings cost; nil where only terms are known
	Settings  []Setting `json:"settings,omitempty"`
	Trades    []Trade   `json:"trades,omitempty"`
	WhatIf    *Outlook  `json:"what_if,omitempty"` // the same with other settings
	Note      string    `json:"note,omitempty"`    // of a what-if: what it buys and costs beside the worst cases
}

// Fleet is what the figures are for.
type Fleet struct {
	Callers   int `json:"callers"`
	Instances int `json:"instances"`
	Lost      int `json:"lost"`               // at once
	Registry  int `json:"registry,omitempty"` // instances that the registry holds in all; 0: those of the service
}

// Path is one way of departing.
type Path struct {
	Worst    Seconds  `json:"worst_s"`
	Mean     Seconds  `json:"mean_s"`
	P50      Seconds  `json:"p50_s"`
	P90      Seconds  `json:"p90_s"`
	P99      Seconds  `json:"p99_s"`
	P999     Seconds  `json:"p999_s"`
	Void     string   `json:"void"`                // why no bound holds as things are; "" when it holds
	VoidWhen []string `json:"void_when,omitempty"` // what would void it
	Dominant string   `json:"dominant,omitempty"`  // the longest term
	Terms    []Term   `json:"terms"`
}

// Term is one cause of delay.
type Term struct {
	Name   string  `json:"name"`
	Min    Seconds `json:"min_s"`
	Max    Seconds `json:"max_s"`
	Source string  `json:"source"`
}

// Advice is what to set.
type Advice struct {
	Pause Seconds `json:"pause_s"` // from the leave until the listener may close, at the most
	Sleep Seconds `json:"sleep_s"` // of a preStop hook: the pause, and 0 where its end is told
	Grace Seconds `json:"grace_s"` // from the leave until the process may be killed
	Why   string  `json:"why"`

	Call  Seconds `json:"-"` // what of the grace period a hook's call of the registry may take, before the pause; a part of Why
	Heard bool    `json:"-"` // callers hear of the leave without a word of the instance
}

// Load is what the settings cost.
type Load struct {
	Reads          Rate   `json:"reads_per_second"`
	Beats          Rate   `json:"beats_per_second"`
	FalseEvictions Rate   `json:"false_evictions_per_day"`
	Assumed        string `json:"assumed"`
}

// Setting is one that the window was derived from.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	What    string `json:"what"`
	Source  string `json:"source"`        // of the default
	Key     string `json:"key,omitempty"` // what it is called where it is set
}

// Trade is what a change of one setting would buy, and cost.
type Trade struct {
	Setting string  `json:"setting"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Planned Seconds `json:"planned_saved_s"` // of the worst case
	Crash   Seconds `json:"crash_saved_s"`
	Load    Load    `json:"load"` // with it
	Note    string  `json:"note,omitempty"`
}

// Of writes a forecast down. inFlight is how long requests may take that an instance has accepted before it leaves.
func Of(f window.Forecast, fleet window.Fleet, inFlight time.Duration) Outlook {
	o := Outlook{Fleet: Fleet(fleet), Planned: path(f.Planned), Crash: path(f.Crash), Recommend: adviceOf(f, inFlight)}
	if f.Load != (window.Load{}) {
		load := loadOf(f.Load)
		o.Load = &load
	}
	return o
}

func adviceOf(f window.Forecast, inFlight time.Duration) Advice {
	a := f.Recommend(inFlight)
	return Advice{Seconds(a.Pause), Seconds(a.Sleep), Seconds(a.Grace), a.Why, Seconds(a.Call), a.Heard}
}

func path(w window.Window) Path {
	spread := w.Terms.Spread(0)
	at := func(q float64) Seconds { return Seconds(spread.Quantile(q)) }
	p := Path{Worst: Seconds(w.Terms.Worst()), Mean: Seconds(w.Terms.Mean()), P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999),
		Void: w.Void, VoidWhen: w.VoidWhen, Terms: terms(w.Terms)}
	if longest, ok := w.Terms.Dominant(); ok {
		p.Dominant = longest.Name
	}
	return p
}

func terms(s window.Sum) []Term {
	all := []Term{}
	for _, t := range s {
		all = append(all, Term{t.Name, Seconds(t.Min), Seconds(t.Max), t.Source})
	}
	return all
}

func loadOf(l window.Load) Load {
	return Load{Rate(l.ReadsPerSecond), Rate(l.BeatsPerSecond), Rate(l.FalseEvictionsPerDay), l.Assumed}
}

// Add writes trades down beside the window that they would change.
func (o *Outlook) Add(trades []window.Trade) {
	for _, t := range trades {
		o.Trades = append(o.Trades, Trade{t.Setting, t.From, t.To, Seconds(t.Planned), Seconds(t.Crash), loadOf(t.Load), t.Note})
	}
}
