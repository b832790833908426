package eider

import (
	"fmt"
	"strings"
	"time"
)

// EventKind names what happened.
type EventKind string

// The kinds of event.
const (
	EventRegistered     EventKind = "registered"   // an incarnation attached for the first time
	EventReattached     EventKind = "reattached"   // a known incarnation attached again
	EventStatus         EventKind = "status"       // an instance changed its own status
	EventLeaving        EventKind = "leaving"      // a planned departure began
	EventBarrier        EventKind = "barrier"      // every caller has let go, or is covered by a named cap
	EventCapped         EventKind = "capped"       // a caller's cap passed before it let go
	EventLeft           EventKind = "left"         // a planned departure ended
	EventDead           EventKind = "dead"         // ended by evidence
	EventLapsed         EventKind = "lapsed"       // ended by silence
	EventSuspect        EventKind = "suspect"      // a reason to doubt was added
	EventCured          EventKind = "cured"        // a reason to doubt was taken away
	EventTrial          EventKind = "trial"        // a caller was asked to try an instance that is suspect for hanging
	EventStreamEnded    EventKind = "stream ended" // an instance's stream ended without a leave
	EventPreserving     EventKind = "preserving"   // silence no longer ends instances of this group
	EventPreserved      EventKind = "preserving ended"
	EventDegraded       EventKind = "node degraded" // many streams ended at once: this node's network, not the instances
	EventMassRefusal    EventKind = "mass refusal"  // too many refused dials: refusals only make suspects for now
	EventPaused         EventKind = "paused"        // this node didn't run for a while; that time doesn't count
	EventRestored       EventKind = "restored"      // this node has read what the run before it kept on disk
	EventNotKept        EventKind = "not kept"      // what this node learns can't be written to disk; it goes on serving
	EventKept           EventKind = "kept again"    // everything is on disk again
	EventCallerJoined   EventKind = "caller joined"
	EventCallerLeft     EventKind = "caller left"
	EventRefused        EventKind = "refused"  // a registration was refused
	EventDenied         EventKind = "denied"   // somebody wasn't let in, or hadn't the role; Caller is who, as far as that is known
	EventOperated       EventKind = "operator" // an operator did something; Caller is who
	EventHeld           EventKind = "held"     // an operator holds the instance of a key; also when another one of it comes
	EventReleased       EventKind = "released"
	EventHoldEnded      EventKind = "hold ended"      // by itself, as it was to
	EventBreakerOpen    EventKind = "breaker open"    // the first caller's breaker of an instance turns calls away; Caller is whose. Without an ID: the one that callers share
	EventBreakersClosed EventKind = "breakers closed" // the last one's doesn't any more, or isn't heard of
	EventHeldGone       EventKind = "held and gone"   // nobody of that key has been listed for days: perhaps the hold is forgotten
)

// Event is one thing that happened, as one node saw it. Events are told in order.
type Event struct {
	Seq         uint64      `json:"seq"` // counts this node run's events, from 1
	Time        time.Time   `json:"time"`
	Kind        EventKind   `json:"kind"`
	Service     string      `json:"service,omitempty"`
	ID          string      `json:"id,omitempty"`
	Incarnation Incarnation `json:"incarnation,omitzero"`
	Status      Status      `json:"status,omitzero"`
	Suspicion   Suspicion   `json:"suspicion,omitzero"`
	Caller      string      `json:"caller,omitempty"`
	Hold        uint64      `json:"hold,omitempty"`   // the count of the hold that this is about; 0: of none
	Detail      string      `json:"detail,omitempty"` // a sentence for people
}

// String writes the event as one line for people.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(string(e.Kind))
	if e.Service != "" {
		b.WriteString(" " + e.Service)
		if e.ID != "" {
			b.WriteString("/" + e.ID)
		}
	}
	if e.Status != StatusUnknown {
		b.WriteString(" " + e.Status.String())
	}
	if e.Suspicion != 0 {
		fmt.Fprintf(&b, " (%s)", e.Suspicion)
	}
	if e.Caller != "" {
		b.WriteString(" " + e.Caller)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}
