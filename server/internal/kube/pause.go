package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider/window"
)

// lone is how long a pod that is the only one left waits for another to become ready, counted from the hook's begin; as
// package drain has it where there is no alternative.
const lone = 8 * time.Second

// pause is one, as a machine without a clock: it hears what happens and says until when it lasts. Times are since the
// hook's begin.
//
//	unseen ── in no slice is it ready ──> seen ── rest ──> over
//	  │  └<────── it is ready again ───────┘
//	  └── nothing seen for whole, or the room is used up ──> over
type pause struct {
	terms
	pod    string
	looked time.Duration // when it was last seen ready, or nowhere at all; 0: the hook's begin, which the pod's end precedes
	seen   bool
	out    time.Duration // when the API had it not ready in any slice, and somebody else ready or nobody awaited
	freed  time.Duration // when somebody else was ready, where that came later
	view   view
	viewed bool     // the API has answered once
	fault  *trouble // why it doesn't, now
}

// heard takes news in.
func (p *pause) heard(n news, now time.Duration) {
	if n.fault != nil {
		p.fault = n.fault
		return
	}
	before := p.view
	p.view, p.viewed, p.fault = n.view, true, nil
	switch {
	case !n.view.out():
		p.seen = false
		if len(n.view.services) > 0 {
			p.looked = now
		}
	case !p.seen:
		p.seen, p.out, p.freed = true, now, now
	case len(before.alone) > 0 && len(n.view.alone) == 0:
		p.freed = now
	}
}

// ended is why a pause is over.
type ended int

const (
	byRest   ended = iota // seen, and what nodes and load balancers may take has passed
	byWhole               // not seen: the whole derived bound has passed
	byGrace               // the grace leaves no more
	bySignal              // somebody ended it
)

// end is when the pause is over as it stands, and why.
type end struct {
	at time.Duration
	by ended
}

func (p *pause) end() end {
	e := end{p.looked + p.whole.Worst(), byWhole}
	if p.seen {
		e = end{max(p.out, p.freed) + p.rest.Worst(), byRest}
		if len(p.view.alone) > 0 {
			e.at = max(e.at, lone)
		}
	}
	if room := p.room.Worst(); room < e.at {
		e = end{room, byGrace}
	}
	return e
}

// String is the line of progress.
func (p *pause) String() string {
	var b strings.Builder
	if p.seen {
		fmt.Fprintf(&b, "%s is not ready in %s any more; it serves on for %s", p.pod, p.where(), p.rest)
	} else {
		fmt.Fprintf(&b, "%s; %s at most", p.waiting(), p.bound())
	}
	if len(p.view.forced) > 0 {
		fmt.Fprintf(&b, "; %s publishes pods that aren't ready (publishNotReadyAddresses), so that ready never turns false: what counts is that it is terminating, and nodes go on sending to it until it is gone",
			strings.Join(p.view.forced, ", "))
	}
	if p.seen && len(p.view.alone) > 0 {
		fmt.Fprintf(&b, "; nobody else is ready in %s: nodes go on sending to it, and it waits for another until %s", strings.Join(p.view.alone, ", "), lone)
	}
	if e := p.end(); e.by == byGrace {
		fmt.Fprintf(&b, "; the grace ends it after %s: %s%s", e.at, p.room, p.grant())
	}
	return b.String()
}

// waiting says what for.
func (p *pause) waiting() string {
	switch {
	case p.fault != nil && p.viewed:
		return fmt.Sprintf("%s was ready when it was last looked for; now %v", p.pod, p.fault)
	case p.fault != nil:
		return p.fault.Error()
	case !p.viewed:
		return "asking the API for the slices of " + p.pod
	case !p.view.any:
		return "the API has no slices of the Services asked for"
	case len(p.view.services) == 0:
		return "no slice names " + p.pod + ": it has gone already, or it is called otherwise (POD_NAME, POD_IP)"
	}
	return fmt.Sprintf("%s is ready in %d of %s", p.pod, p.view.ready, p.where())
}

// bound is what the pause comes to while nothing is seen. As long as the API answers and has it ready, that is the grace's.
func (p *pause) bound() string {
	if p.viewed && p.fault == nil && len(p.view.services) > 0 {
		return p.room.String()
	}
	return p.whole.String()
}

// where counts the slices: "2 slices of orders, orders-peers".
func (p *pause) where() string {
	n := p.view.slices
	what := "slices"
	if n == 1 {
		what = "slice"
	}
	if n == 0 {
		return "the slices of " + strings.Join(p.view.services, ", ")
	}
	return fmt.Sprintf("%d %s of %s", n, what, strings.Join(p.view.services, ", "))
}

// grant says which grace would have been enough.
func (p *pause) grant() string {
	need := p.rest
	if !p.seen {
		need = p.whole
	}
	needed := window.Sum{{Max: p.out}, {Max: need.Worst()}, {Max: p.room.Parts.Worst()}}.Worst()
	if p.room.Whole.Max >= needed {
		return ""
	}
	return fmt.Sprintf("; terminationGracePeriodSeconds: %d and --grace would be enough", (needed+time.Second-1)/time.Second)
}

// Outcome is how a pause has gone.
type Outcome int

const (
	Seen    Outcome = iota // the pod was seen not ready in every slice, and the rest was waited for
	Cut                    // the grace or a signal ended the pause first
	Misset                 // the settings are wrong; in a pod the whole bound was waited for
	Away                   // the API couldn't be asked, or not understood: the whole bound was waited for
	Unnamed                // no slice names the pod: the whole bound was waited for
	Denied                 // the API doesn't let the pod ask: the whole bound was waited for
)

// MarshalText names the outcome, for programs.
func (o Outcome) MarshalText() ([]byte, error) {
	return []byte([...]string{"seen", "cut", "misset", "away", "unnamed", "denied"}[o]), nil
}

// Report is what has become of a pause.
type Report struct {
	Outcome  Outcome       `json:"outcome"`
	Pod      string        `json:"pod"`
	Services []string      `json:"services,omitempty"` // that named it
	Seen     time.Duration `json:"seen_ns"`            // when the API had it out of all slices; 0 unless that is the outcome
	Pause    time.Duration `json:"pause_ns"`
	Line     string        `json:"said"` // what there is to say of it
	Role     bool          `json:"role"` // a Role would help
}

// report closes the books.
func (p *pause) report(now time.Duration, by ended) Report {
	r := Report{Pod: p.pod, Services: slices.Clone(p.view.services), Pause: now, Role: p.fault != nil && p.fault.role}
	tenth := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	switch {
	case p.fault != nil && p.fault.kind == misset:
		r.Outcome = Misset
	case by == byGrace || by == bySignal:
		r.Outcome = Cut
	case by == byRest:
		r.Outcome, r.Seen = Seen, p.out
	case p.fault != nil && p.fault.kind == denied:
		r.Outcome = Denied
	case p.viewed && p.fault == nil && len(p.view.services) == 0, p.fault != nil && p.fault.kind == missing:
		r.Outcome = Unnamed
	default:
		r.Outcome = Away
	}
	if r.Outcome == Seen {
		r.Line = fmt.Sprintf("served on for %s: %s was not ready in %s after %s, and then %s", tenth(now), p.pod, p.where(), tenth(p.out), p.rest)
		return r
	}
	r.Line = fmt.Sprintf("served on for %s: %s", tenth(now), p.waiting())
	if p.seen {
		r.Line = fmt.Sprintf("served on for %s: %s was not ready in %s after %s", tenth(now), p.pod, p.where(), tenth(p.out))
	}
	switch by {
	case byWhole:
		r.Line += "; so the pause was all that a pod's removal takes: " + p.whole.String()
	case byGrace:
		r.Line += "; the grace left no more: " + p.room.String() + p.grant()
	case bySignal:
		r.Line += "; a signal ended the pause"
	}
	return r
}
