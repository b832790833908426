package eider

import (
	"fmt"
	"strings"
)

// Status is what an instance says of itself, or what the registry has concluded about it.
//
//	STARTING ──► UP ◄──► DOWN
//	    │         │        │
//	    └────┬────┴────────┘
//	         ├── leave ─────► DRAINING ──► LEFT      planned, final for the incarnation
//	         ├── evidence ──► DEAD    ─┐
//	         └── silence ───► LAPSED  ─┴─ revived by an attach with a higher attachment only
type Status uint8

// The statuses. The zero value is no status at all and is never stored.
const (
	StatusUnknown Status = iota
	Starting             // registered, not ready to be called yet
	Up                   // ready to be called
	Down                 // says itself that it can't serve
	Draining             // leaving, still serving whoever calls
	Left                 // gone as planned
	Dead                 // gone by evidence: its stream ended and its port refused
	Lapsed               // gone by silence: its lease ran out
)

var statusNames = [...]string{"UNKNOWN", "STARTING", "UP", "DOWN", "DRAINING", "LEFT", "DEAD", "LAPSED"}

// String returns the status as it is written everywhere: UP, DRAINING and so on.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Gone tells whether the instance has ended: LEFT, DEAD or LAPSED.
func (s Status) Gone() bool { return s == Left || s == Dead || s == Lapsed }

// Live tells whether the instance is listed: STARTING, UP, DOWN or DRAINING.
func (s Status) Live() bool { return s >= Starting && s <= Draining }

// ParseStatus reads what String writes, in any case.
func ParseStatus(text string) (Status, error) {
	for i, name := range statusNames {
		if i != 0 && strings.EqualFold(text, name) {
			return Status(i), nil
		}
	}
	return StatusUnknown, fmt.Errorf("status %q is none of %s", text, strings.Join(statusNames[1:], ", "))
}

// MarshalText writes the status' name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a status' name, in any case.
func (s *Status) UnmarshalText(text []byte) (err error) {
	*s, err = ParseStatus(string(text))
	return err
}

// Suspicion is an observer's opinion beside the record: a set of reasons to doubt an instance, each
// with its own cure. It never changes the record and has no part in the record's order.
type Suspicion uint8

// The reasons to suspect an instance.
const (
	StreamEnded Suspicion = 1 << iota // its stream ended and it hasn't attached again; cured by an attach
	BeatsMissed                       // two beats are missing; cured by a beat
	Wedged                            // it beats but completes no request; cured by a completion
	Orphaned                          // its node is gone; cured by an attach elsewhere
	Restored                          // read from disk after a restart; cured by an attach
	Absent                            // a caller's own: missing from a complete view; cured by any view that has it
)

var suspicionNames = [...]string{"stream ended", "beats missed", "wedged", "orphaned", "restored", "absent"}

// Has tells whether every reason in r is in s.
func (s Suspicion) Has(r Suspicion) bool { return s&r == r }

// Reasons lists the reasons in words, nil when there are none.
func (s Suspicion) Reasons() []string {
	var out []string
	for i, name := range suspicionNames {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// String joins the reasons by commas; it is empty when nothing is suspected.
func (s Suspicion) String() string { return strings.Join(s.Reasons(), ", ") }

// MarshalText writes the reasons joined by commas.
func (s Suspicion) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes; a reason that it doesn't know is an error.
func (s *Suspicion) UnmarshalText(text []byte) error {
	*s = 0
	if len(text) == 0 {
		return nil
	}
next:
	for word := range strings.SplitSeq(string(text), ", ") {
		for i, name := range suspicionNames {
			if word == name {
				*s |= 1 << i
				continue next
			}
		}
		return fmt.Errorf("suspicion %q is none of %s", word, strings.Join(suspicionNames[:], ", "))
	}
	return nil
}
