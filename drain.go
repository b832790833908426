package eider

import (
	"fmt"
	"strings"
	"time"
)

// CallerKind tells how a caller can be known to have let go.
type CallerKind string

// The kinds of caller.
const (
	Native         CallerKind = "native"              // acknowledges by itself
	Poller         CallerKind = "poller"              // fetches the list now and then: counted by its own timers
	UnknownCallers CallerKind = "unknown"             // who calls without saying who he is: waited for by a pause of their own
	FromBefore     CallerKind = "callers from before" // whoever may have called before this node started
	OfNode         CallerKind = "callers of a node"   // of another node, which has yet to report who they are
)

// MemberState tells where one caller stands in one drain.
type MemberState string

// A member is waiting until one of the others is reached; those are final, but that a covered member
// may still let go.
const (
	Waiting       MemberState = "waiting"
	NoAlternative MemberState = "no alternative" // waiting: it has nobody else to call
	LetGo         MemberState = "let go"
	SaidGoodbye   MemberState = "goodbye"    // ended its calling, explicitly
	Ended         MemberState = "ended"      // its own instance left or died
	Capped        MemberState = "capped"     // its cap passed: covered by time, and named
	Unfollowed    MemberState = "unfollowed" // no longer follows the service
	Polled        MemberState = "polled"     // has fetched the list since, and what it had kept of an older one has run out
)

// Settled tells whether the barrier no longer waits for a member in this state.
func (s MemberState) Settled() bool { return s != Waiting && s != NoAlternative }

// Member is one caller that a drain waits for, or waited for.
type Member struct {
	Caller  string        `json:"caller"` // checkout@b2f19c
	Kind    CallerKind    `json:"kind"`
	State   MemberState   `json:"state"`
	Stream  bool          `json:"stream"`                    // it has a stream to its node now
	Cap     time.Duration `json:"cap_ns,omitzero"`           // counted from the leave
	Settled time.Duration `json:"settled_after_ns,omitzero"` // counted from the leave
	Every   time.Duration `json:"every_ns,omitzero"`         // of a poller: how often it fetches the list …
	Cache   time.Duration `json:"cache_ns,omitzero"`         // … and for how long it goes on using one that it has fetched
}

// String writes the member as progress lines show it: "checkout@b2f19c (native, ≤ 8s)", or
// "checkout@b2 (poller: fetch 30s + cache 35s, ≤ 1m6s)". One that stands for many
// callers is its own kind, which is said once.
func (m Member) String() string {
	var about []string
	if !m.many() {
		about = append(about, string(m.Kind))
	}
	if m.State.Settled() {
		how := fmt.Sprintf("%s after %s", m.State, m.Settled.Round(time.Millisecond))
		if len(about) > 0 {
			how = about[0] + ": " + how
		}
		return m.Caller + " (" + how + ")"
	}
	switch {
	case m.Kind == Poller:
		about[0] += ": fetch " + m.Every.String()
		if m.Cache > 0 {
			about[0] += " + cache " + m.Cache.String()
		}
	case !m.Stream && m.Kind == Native:
		about = append(about, "disconnected")
	}
	if m.State == NoAlternative {
		about = append(about, string(m.State))
	}
	about = append(about, "≤ "+m.Cap.Round(time.Millisecond).String())
	return m.Caller + " (" + strings.Join(about, ", ") + ")"
}

// many tells whether the member stands for callers that aren't known one by one.
func (m Member) many() bool {
	return m.Kind == UnknownCallers || m.Kind == FromBefore || m.Kind == OfNode
}

// DrainKind tells what a drain is for.
type DrainKind string

// The kinds of drain.
const (
	LeaveDrain DrainKind = "leave" // the instance leaves, by its own word
	HoldDrain  DrainKind = "hold"  // an operator holds it: it serves on and stays, and callers let go of it
)

// Drain is the state of one planned departure, or of one hold.
type Drain struct {
	Departure
	Kind    DrainKind     `json:"kind"`
	Since   time.Time     `json:"since"`               // the leave, by the node's clock
	Bound   time.Duration `json:"bound_ns"`            // the pause ends by then at the latest, counted from the leave
	Barrier time.Duration `json:"barrier_ns,omitzero"` // when the last caller had let go or was capped; 0 not yet
	Reached bool          `json:"reached"`             // the barrier is reached
	Status  Status        `json:"status"`              // DRAINING, then LEFT or DEAD; of one that is held its own
	Over    bool          `json:"over,omitempty"`      // the instance is gone, or the hold is: nobody is waited for any more
	Total   int           `json:"total"`               // callers that this drain counts
	Open    int           `json:"open"`                // of those, still waited for
	Members []Member      `json:"members,omitempty"`   // at most MaxMembers, waited-for ones first
}

// MaxMembers bounds the members listed in a Drain; Total and Open count all.
const MaxMembers = 32

// Caller is a process that picks instances of a service.
type Caller struct {
	ID      string        `json:"id"`
	Kind    CallerKind    `json:"kind"`
	Service string        `json:"service"`
	Stream  bool          `json:"stream"`            // connected now
	Since   time.Time     `json:"since"`             // following since, by the node's clock
	Cursor  Cursor        `json:"cursor"`            // the last view it has applied
	Behind  uint64        `json:"behind"`            // published changes that it hasn't applied yet
	Cap     time.Duration `json:"cap_ns"`            // a drain waits no longer for it than this
	Every   time.Duration `json:"every_ns,omitzero"` // of a poller, as in Member
	Cache   time.Duration `json:"cache_ns,omitzero"`
}
