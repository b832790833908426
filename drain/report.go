package drain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// EndedBy tells what ended the lame-duck pause.
type EndedBy string

// What can end a pause.
const (
	ByBarrier   EndedBy = "barrier"       // every caller has let go, or is covered by a named cap
	ByBound     EndedBy = "bound"         // the longest pause passed: the registry was away, or hadn't heard
	ByGrace     EndedBy = "grace"         // nothing more of the grace was left for it: who was still waited for is cut
	ByNoCallers EndedBy = "never up"      // it was never listed as UP: nobody ever picked it
	NeverListed EndedBy = "never listed"  // no registry ever heard of it: nobody ever picked it
	NoRegistry  EndedBy = "no registry"   // Config.Pause passed
	BySecondInt EndedBy = "second SIGINT" // somebody wanted it to end at once
	ByServer    EndedBy = "server closed" // the server no longer served anybody: there was nothing to pause for
)

// The exit codes of a [Report].
const (
	ExitClean       = 0   // nothing was lost, as far as this process can know
	ExitLoss        = 3   // something was cut, overran its deadline, or couldn't be answered
	ExitInterrupted = 130 // a second SIGINT ended it, as shells write it
)

// MaxNamed bounds each list of requests in a Report, and the callers of ServedBy; counts count all.
const MaxNamed = 32

// Request names one request in a report. Queries and headers are left out: they may hold secrets.
type Request struct {
	Method string        `json:"method"`
	Path   string        `json:"path"`             // at most 128 bytes
	Caller string        `json:"caller,omitempty"` // as its Eider-Caller says
	Remote string        `json:"remote"`
	Ran    time.Duration `json:"ran_ns"` // since its start, or since the leave if it began before
	Before bool          `json:"before"` // it began before the leave
	Stream bool          `json:"stream"` // it had no end of its own: a stream, or an upgraded connection

	Upgraded bool `json:"upgraded,omitempty"` // its handler had taken the connection over; of a plain listener there is no method and path
}

// String writes "POST /pay of checkout@b2 from 10.0.0.7:4711, after more than 20s".
func (r Request) String() string {
	var b strings.Builder
	switch {
	case r.Upgraded && r.Method == "":
		b.WriteString("a connection")
	case r.Upgraded:
		b.WriteString("the upgraded " + r.Method + " " + r.Path)
	default:
		b.WriteString(r.Method + " " + r.Path)
	}
	if r.Caller != "" {
		fmt.Fprintf(&b, " of %s", r.Caller)
	}
	b.WriteString(" from " + r.Remote + ", after ")
	if r.Before {
		b.WriteString("more than ")
	}
	b.WriteString(r.Ran.Round(time.Millisecond).String())
	if r.Stream {
		b.WriteString(" (a stream)")
	}
	return b.String()
}

// Report tells how a departure went.
type Report struct {
	Service     string            `json:"service"`
	ID          string            `json:"id,omitempty"`
	Incarnation eider.Incarnation `json:"incarnation,omitzero"`

	Pause   time.Duration `json:"pause_ns"` // from the leave to its end; it served all the while
	EndedBy EndedBy       `json:"ended_by"`
	Bound   time.Duration `json:"bound_ns"` // how long the pause could have been at most
	Took    time.Duration `json:"took_ns"`  // from the leave to the report
	Heard   bool          `json:"heard"`    // the registry knew of the leave when the pause ended
	Left    bool          `json:"left"`     // the registry has heard LEFT

	Waited  int            `json:"waited"`            // callers that the drain counted
	Members []eider.Member `json:"members,omitempty"` // of those, at most eider.MaxMembers, as they stood when the pause ended
	Open    int            `json:"open"`              // of those, how many hadn't let go: their next call may have failed

	ServedAfterLeave int            `json:"served_after_leave"`  // requests that arrived after the leave
	ServedBy         map[string]int `json:"served_by,omitempty"` // the same by Eider-Caller; "" is requests without, ProbesBy probes, OtherCallers those of callers beyond MaxNamed
	Misdirected      int            `json:"misdirected"`         // requests after the leave that meant somebody else and got 421

	Cut             []Request `json:"cut,omitempty"`        // streams and upgraded connections that ended with their budget, or all that a second SIGINT cut
	CutCount        int       `json:"cut_count"`            // how many in all
	Overran         []Request `json:"overran,omitempty"`    // in flight at the deadline, and cut
	OverranCount    int       `json:"overran_count"`        // how many in all
	Unanswered      []Request `json:"unanswered,omitempty"` // their handlers ran, and their clients didn't get the answer; a stream whose client ends it is none, nor is a probe
	UnansweredCount int       `json:"unanswered_count"`     // how many in all

	SilentClosed int `json:"silent_closed"` // connections closed that had never carried a request
	IdleClosed   int `json:"idle_closed"`   // idle HTTP/1 connections closed that could not be told
	ForceClosed  int `json:"force_closed"`  // connections closed at the in-flight deadline or by the second SIGINT

	Killed bool `json:"killed,omitempty"` // of Beside: the program hadn't ended at the in-flight deadline, or a second SIGINT came first

	Exit int `json:"exit"` // ExitClean, ExitLoss or ExitInterrupted
}

// OtherCallers is ServedBy's key for callers beyond MaxNamed, ProbesBy that for probes.
const (
	OtherCallers = "others"
	ProbesBy     = "probes"
)

// String writes the report for people, a few lines.
func (r Report) String() string {
	var b strings.Builder
	who := r.Service
	if r.ID != "" {
		who += "/" + r.ID
	}
	if who == "" {
		who = "the server"
	}
	switch r.EndedBy {
	case NeverListed:
		fmt.Fprintf(&b, "%s left after %s: no registry had listed it, so nobody was waited for\n", who, round(r.Took))
	default:
		fmt.Fprintf(&b, "%s left after %s: the pause took %s of at most %s and was ended by: %s\n", who,
			round(r.Took), round(r.Pause), round(r.Bound), r.EndedBy)
	}
	if r.Waited > 0 {
		fmt.Fprintf(&b, "  callers: %s\n", r.callers())
	}
	if (r.EndedBy == ByBound || r.EndedBy == ByGrace) && !r.Heard {
		b.WriteString("  the registry hadn't heard of the leave: callers that it keeps were told in band alone\n")
	}
	if r.ServedAfterLeave > 0 {
		fmt.Fprintf(&b, "  served after the leave: %d%s\n", r.ServedAfterLeave, by(r.ServedBy))
	}
	for _, part := range []struct {
		what  string
		count int
		named []Request
	}{{"cut", r.CutCount, r.Cut}, {"overran the in-flight deadline", r.OverranCount, r.Overran}, {"ran, but the answer couldn't be sent", r.UnansweredCount, r.Unanswered}} {
		if part.count > 0 {
			fmt.Fprintf(&b, "  %s: %d\n", part.what, part.count)
		}
		for _, req := range part.named {
			fmt.Fprintf(&b, "    %s\n", req)
		}
	}
	if n := r.SilentClosed + r.IdleClosed + r.ForceClosed; n > 0 {
		fmt.Fprintf(&b, "  connections closed: %d silent, %d idle, %d at the end\n", r.SilentClosed, r.IdleClosed, r.ForceClosed)
	}
	if r.Killed {
		b.WriteString("  the program hadn't ended in time: what it had in flight is lost\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

// callers says how many let go, and names those that didn't: whoever was only covered by a cap, and whoever was
// still waited for. Of more members than are listed it is said at most how many.
func (r Report) callers() string {
	let, others := r.Waited-r.Open, ""
	for _, m := range r.Members {
		switch {
		case m.State == eider.Capped:
			let--
			others += fmt.Sprintf("; %s: covered by their cap after %s", m.Caller, m.Settled.Round(time.Millisecond))
		case !m.State.Settled():
			others += "; " + m.String()
		}
	}
	most := ""
	if n := len(r.Members); n >= eider.MaxMembers && n < r.Waited && (r.Members[n-1].State == eider.Capped || !r.Members[n-1].State.Settled()) {
		most = "at most " // the unlisted may be such ones too
	}
	return fmt.Sprintf("%s%d of %d let go%s", most, let, r.Waited, others)
}

func by(served map[string]int) string {
	names := slices.SortedFunc(maps.Keys(served), func(a, b string) int {
		return cmp.Or(cmp.Compare(served[b], served[a]), strings.Compare(a, b))
	})
	var out []string
	for _, name := range names[:min(len(names), 5)] {
		shown := name
		if shown == "" {
			shown = "without a name"
		}
		out = append(out, fmt.Sprintf("%s %d", shown, served[name]))
	}
	if len(names) > 5 {
		out = append(out, "…")
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}
