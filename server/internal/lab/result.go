package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Result is what the scenes have shown. Its JSON is the product's own: fields are added, never renamed.
type Result struct {
	Seed     uint64    `json:"seed"`
	Rollout  *Rollout  `json:"rollout,omitempty"`
	Crash    *Crash    `json:"crash,omitempty"`
	S8       *S8       `json:"s8,omitempty"`
	Freeze   *Freeze   `json:"freeze,omitempty"`
	Outage   *Outage   `json:"outage,omitempty"`
	Wedge    *Wedge    `json:"wedge,omitempty"`
	Mixed    *Mixed    `json:"mixed,omitempty"`
	Hang     *Hang     `json:"hang,omitempty"`
	Recovery *Recovery `json:"recovery,omitempty"`

	AnyProgram *AnyProgram `json:"anyprogram,omitempty"`
}

// Way is how one fleet fared.
type Way struct {
	Name     string         `json:"name,omitempty"`
	Requests int            `json:"requests"`
	Failed   int            `json:"failed"`
	Restarts int            `json:"restarts"`
	Pause    *Pause         `json:"pause_ms,omitempty"` // absent where the way has none
	Kinds    map[string]int `json:"kinds,omitempty"`    // refused, cut, timeout, sent twice, other
	Details  []string       `json:"details,omitempty"`  // of the first failures
}

// Pause is the lame-duck pauses of a fleet's restarts, in milliseconds.
type Pause struct {
	P50 float64 `json:"p50"`
	Max float64 `json:"max"`
}

// Rollout is the scene rollout.
type Rollout struct {
	Way
	Cap   float64 `json:"cap_ms"` // the bound pushed at the leave
	Usual struct {
		Plain Way `json:"plain"`
		Sleep Way `json:"sleep"`
	} `json:"usual"`
	Surge bool   `json:"surge,omitempty"`
	Setup string `json:"setup"`
}

// Crash is the scene crash.
type Crash struct {
	Requests  int      `json:"requests"`
	FailedNew int      `json:"failed_new"`              // calls that should have gone elsewhere, and failed
	Cut       int      `json:"cut_in_flight"`           // calls on connections that the killed process had
	Published float64  `json:"kill_to_published_ms"`    // SIGKILL until an observer had a view without the instance
	LastPick  float64  `json:"last_pick_after_kill_ms"` // SIGKILL until the start of the last try there
	Details   []string `json:"details,omitempty"`
	Setup     string   `json:"setup"`
}

// S8 is the scene s8.
type S8 struct {
	Setup string `json:"setup"`
	Ways  []Way  `json:"ways"` // Eider's first
}

// Broken lists the promises that broke.
func (r *Result) Broken() []string {
	var out []string
	if r.Rollout != nil {
		if r.Rollout.Failed > 0 {
			out = append(out, fmt.Sprintf("rollout lost %d of %d requests (%s)", r.Rollout.Failed, r.Rollout.Requests, strings.Join(r.Rollout.Details, "; ")))
		}
		if r.Rollout.Restarts == 0 || r.Rollout.Requests == 0 {
			out = append(out, "rollout showed nothing: no restart or no request")
		}
	}
	if r.Crash != nil && r.Crash.FailedNew > 0 {
		out = append(out, fmt.Sprintf("crash lost %d calls begun after the port refused (%s)", r.Crash.FailedNew, strings.Join(r.Crash.Details, "; ")))
	}
	if r.S8 != nil && r.S8.Ways[0].Failed > 0 {
		out = append(out, fmt.Sprintf("s8 lost %d of %d requests (%s)", r.S8.Ways[0].Failed, r.S8.Ways[0].Requests, strings.Join(r.S8.Ways[0].Details, "; ")))
	}
	if r.Freeze != nil {
		out = append(out, r.Freeze.broken()...)
	}
	if r.Outage != nil {
		out = append(out, r.Outage.broken()...)
	}
	if r.Wedge != nil {
		out = append(out, r.Wedge.broken()...)
	}
	if r.Mixed != nil {
		out = append(out, r.Mixed.broken()...)
	}
	if r.Hang != nil {
		out = append(out, r.Hang.broken()...)
	}
	if r.Recovery != nil {
		out = append(out, r.Recovery.broken()...)
	}
	if r.AnyProgram != nil {
		out = append(out, r.AnyProgram.broken()...)
	}
	return out
}

// detail keeps the first few failures in words.
func detail(details []string, failed failure) []string {
	if len(details) < 5 {
		return append(details, failed.Why+": "+failed.Detail)
	}
	return details
}

func joined(details []string) string { return strings.Join(details, "; ") }

func (r *Result) writeJSON(w io.Writer) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (r *Result) verdict(took time.Duration) string {
	if broken := r.Broken(); len(broken) > 0 {
		return "BROKEN: " + strings.Join(broken, "; ")
	}
	return fmt.Sprintf("Every promise kept, in %s (seed %d).", took.Round(time.Second), r.Seed)
}

func (r *Result) print(w io.Writer, scene string) {
	switch scene {
	case "rollout":
		r.Rollout.print(w)
	case "crash":
		r.Crash.print(w)
	case "s8":
		r.S8.print(w)
	case "freeze":
		r.Freeze.print(w)
	case "outage":
		r.Outage.print(w)
	case "wedge":
		r.Wedge.print(w)
	case "mixed":
		r.Mixed.print(w)
	case "hang":
		r.Hang.print(w)
	case "recovery":
		r.Recovery.print(w)
	case "anyprogram":
		r.AnyProgram.print(w)
	}
}

func (r *Rollout) print(w io.Writer) {
	fmt.Fprintf(w, "\nrollout: every instance restarted, one at a time%s\n  %s\n\n", map[bool]string{true: ", successor first", false: ", the old one leaves first"}[r.Surge], r.Setup)
	table := newTable(w)
	table.row(wayEider, r.Way)
	table.row(wayPlain, r.Usual.Plain)
	table.row(waySleep, r.Usual.Sleep)
	fmt.Fprintf(w, "\n  Each way restarts as fast as it can. Eider's pause is at most %s, also if a\n"+
		"  caller hangs. plain and sleep: a plain http.Client over a list that is read\n"+
		"  again each second. Figures that others publish come from other set-ups:\n"+
		"  `eider demo --scene s8` plays two replicas and calls of 300 ms for 45 s.\n", duration(r.Cap))
}

func (c *Crash) print(w io.Writer) {
	fmt.Fprintf(w, "\ncrash: SIGKILL of one instance\n  %s\n\n", c.Setup)
	row := rows(w)
	row(c.Requests, "requests")
	row(c.FailedNew, "failed that were begun after the dead port refused (promise: 0)")
	row(c.Cut, "cut in flight: written to the dying process, so not sent twice")
	row(duration(c.Published), "from the kill until it was published, by evidence (a lease: 20 s)")
	row(duration(c.LastPick), "from the kill until the last call was sent there")
}

func (s *S8) print(w io.Writer) {
	fmt.Fprintf(w, "\ns8: one restart of each replica under load\n  %s\n\n", s.Setup)
	table := newTable(w)
	for _, way := range s.Ways {
		table.row(way.Name, way)
	}
}

// wayNames describe the ways in tables.
var wayNames = map[string]string{
	wayEider:    "callers let go, then it stops",
	wayPlain:    "the process ends at SIGTERM",
	wayGraceful: "deregister, Shutdown",
	waySleep:    "deregister, sleep 5 s, Shutdown",
	wayRun:      "any program, by eider run",
	wayFront:    "any program, eider run --front",
	"":          "  callers that know nothing",
}

// table prints ways side by side, in 80 columns.
type table struct{ w io.Writer }

func newTable(w io.Writer) table {
	fmt.Fprintf(w, "  %-38s %8s %6s %8s  %s\n", "", "requests", "failed", "restarts", "pause p50/max")
	return table{w}
}

func (t table) row(name string, way Way) {
	pauses := "–"
	if way.Pause != nil {
		pauses = duration(way.Pause.P50) + ", " + duration(way.Pause.Max)
	}
	fmt.Fprintf(t.w, "  %-38s %8d %6d %8d  %s\n", fmt.Sprintf("%-6s %s", name, wayNames[name]), way.Requests, way.Failed, way.Restarts, pauses)
	if way.Failed > 0 {
		fmt.Fprintf(t.w, "  %-6s %s\n", "", kindsText(way.Kinds))
	}
}

func kindsText(kinds map[string]int) string {
	var parts []string
	for _, kind := range []string{whyRefused, whyCut, whyTimeout, whyTwice, whyOther} {
		if kinds[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", kind, kinds[kind]))
		}
	}
	return strings.Join(parts, ", ")
}

// duration writes milliseconds for people.
func duration(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", ms)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
