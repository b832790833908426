package eider

import (
	"fmt"
	"strings"
	"time"
)

// BreakerState is what a caller's circuit breaker does with calls of one instance. Its numbers and words are those of
// package breaker's State.
type BreakerState uint8

// The states of a breaker.
const (
	BreakerClosed       BreakerState = iota // lets calls through
	BreakerRamping                          // has just closed, and lets a growing share of them through
	BreakerOpen                             // rejects calls
	BreakerHalfOpen                         // lets a few trials through, and rejects the rest
	BreakerForcedOpen                       // by hand: rejects calls
	BreakerForcedClosed                     // by hand: lets calls through whatever comes of them
	BreakerMetricsOnly                      // by hand: lets calls through, and would have opened
)

// BreakerStates is how many states there are.
const BreakerStates = len(breakerStates)

var breakerStates = [...]string{"closed", "ramping", "open", "half-open", "forced open", "forced closed", "metrics only"}

// gravity orders the states by how little they let through.
var gravity = [...]uint8{BreakerForcedClosed: 1, BreakerMetricsOnly: 2, BreakerRamping: 3, BreakerHalfOpen: 4, BreakerOpen: 5, BreakerForcedOpen: 6}

// String returns the state's word: closed, half-open and so on.
func (s BreakerState) String() string {
	if int(s) < len(breakerStates) {
		return breakerStates[s]
	}
	return fmt.Sprintf("BreakerState(%d)", uint8(s))
}

// Rejects tells whether a breaker in this state turns calls away, but for a trial: open, half-open, forced open.
func (s BreakerState) Rejects() bool {
	return s == BreakerOpen || s == BreakerHalfOpen || s == BreakerForcedOpen
}

// Graver tells whether this state lets less through than the other one.
func (s BreakerState) Graver(other BreakerState) bool {
	return int(s) < len(gravity) && int(other) < len(gravity) && gravity[s] > gravity[other]
}

// MarshalText writes the state's word.
func (s BreakerState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's word.
func (s *BreakerState) UnmarshalText(text []byte) error {
	for i, word := range breakerStates {
		if word == string(text) {
			*s = BreakerState(i)
			return nil
		}
	}
	return fmt.Errorf("breaker state %q is none of %s", text, strings.Join(breakerStates[:], ", "))
}

// BreakerRule is why a breaker opened. Its numbers and words are those of package breaker's Rule.
type BreakerRule uint8

// The rules by which a breaker opens.
const (
	BreakerNoRule      BreakerRule = iota // it isn't known which
	BreakerFailureRate                    // too large a share of failures
	BreakerSlowRate                       // too large a share of slow calls
	BreakerHanging                        // the same, and most of them haven't come back
	BreakerConsecutive                    // failures in a row
	BreakerTrial                          // a trial didn't go well
	BreakerRefused                        // nobody was there
	BreakerByHand                         // somebody's decision
)

var breakerRules = [...]string{"", "failure rate", "slow-call rate", "hanging", "failures in a row", "trial", "refused", "by hand"}

// BreakerRules is how many rules there are.
const BreakerRules = len(breakerRules)

// String returns the rule's words, "" when it isn't known which.
func (r BreakerRule) String() string {
	if int(r) < len(breakerRules) {
		return breakerRules[r]
	}
	return fmt.Sprintf("BreakerRule(%d)", uint8(r))
}

// MarshalText writes the rule's words.
func (r BreakerRule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a rule's words.
func (r *BreakerRule) UnmarshalText(text []byte) error {
	for i, words := range breakerRules {
		if words == string(text) {
			*r = BreakerRule(i)
			return nil
		}
	}
	return fmt.Errorf("breaker rule %q is none of %s", text, strings.Join(breakerRules[1:], ", "))
}

// Breaker is what one caller's circuit breaker of one instance says of itself.
type Breaker struct {
	State BreakerState `json:"state"`
	Rule  BreakerRule  `json:"rule,omitempty"`  // why it opened
	Count uint64       `json:"count,omitempty"` // what the rule counted
	Of    uint64       `json:"of,omitempty"`    // of how many outcomes
	Since time.Time    `json:"since,omitzero"`  // when it came to be so
	Retry time.Time    `json:"retry,omitzero"`  // when a call may be let through again; zero or past: with the next call, or by hand
}

// Why says in words why it opened, "" when that isn't known.
func (b Breaker) Why() string {
	switch b.Rule {
	case BreakerFailureRate:
		return fmt.Sprintf("%d of %d calls failed", b.Count, b.Of)
	case BreakerSlowRate:
		return fmt.Sprintf("%d of %d calls were slow", b.Count, b.Of)
	case BreakerHanging:
		return fmt.Sprintf("calls hang there, %d of the last %d", b.Count, b.Of)
	case BreakerConsecutive:
		return fmt.Sprintf("%d calls in a row failed", b.Count)
	case BreakerTrial:
		return "a trial call didn't go well"
	case BreakerRefused:
		return "the connection was refused"
	}
	return b.Rule.String()
}

// MaxVerdicts bounds the instances on which one caller's verdicts are kept at a time, all services together. Closed
// breakers don't count. It is part of the protocol: a caller tells no more, and a node keeps no more.
const MaxVerdicts = 256

// Verdict is what a caller tells of its breaker of an instance, for people to see. It makes the registry look for
// itself, and never changes a status: a caller sees its own network, and nobody vouches for what it says.
type Verdict struct {
	Key
	Incarnation Incarnation `json:"incarnation"` // which run of its process; by the nonce
	Breaker                 // closed takes back what was said before
}

// Breakers is what the callers' breakers say of one instance, as one node has heard it.
type Breakers struct {
	Key
	Incarnation Incarnation  `json:"incarnation"`
	State       BreakerState `json:"state"`             // the gravest of all
	Rejecting   int          `json:"rejecting"`         // callers whose breaker is open, half-open or forced open
	Told        int          `json:"told"`              // callers whose breaker is something else than closed
	Callers     int          `json:"callers"`           // callers of the service with a stream: who could tell
	Seen        []Seen       `json:"seen_by"`           // the gravest first, of those who said it first; at most [MaxSeen]
	LeftOut     int          `json:"left_out,omitzero"` // further callers that tell something
}

// MaxSeen bounds the callers that a node names for one instance.
const MaxSeen = 16

// Seen is one caller's word on an instance.
type Seen struct {
	Caller string `json:"caller"`
	Breaker
}
