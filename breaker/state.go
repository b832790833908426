package breaker

import (
	"errors"
	"fmt"
	"time"
)

// State is what a breaker does with calls.
type State uint8

const (
	Closed       State = iota // lets calls through, and counts
	Ramping                   // the same, with a share of the calls that grows: it has just closed
	Open                      // rejects every call until its open time has passed
	HalfOpen                  // lets a few trials through, and rejects the rest
	ForcedOpen                // by hand: rejects every call
	ForcedClosed              // by hand: lets every call through, counts nothing
	MetricsOnly               // by hand: lets every call through, counts, and says once when it would have opened
)

var stateNames = [...]string{"closed", "ramping", "open", "half-open", "forced open", "forced closed", "metrics only"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Rule is why a breaker opened.
type Rule uint8

const (
	NoRule          Rule = iota
	RuleFailureRate      // too large a share of failures
	RuleSlowRate         // too large a share of slow calls
	RuleHanging          // the same, and most of them haven't come back; or a trial hasn't by its deadline
	RuleConsecutive      // failures in a row
	RuleTrial            // a trial failed, or was slow
	RuleRefused          // nobody was there
	RuleByHand           // somebody's decision
)

var ruleNames = [...]string{"", "failure rate", "slow-call rate", "hanging", "failures in a row", "trial", "refused", "by hand"}

func (r Rule) String() string {
	if int(r) < len(ruleNames) {
		return ruleNames[r]
	}
	return fmt.Sprintf("Rule(%d)", uint8(r))
}

// ErrRejected is what errors.Is finds in every rejection.
var ErrRejected = errors.New("rejected by a circuit breaker")

// Rejected is the error of a call that a breaker didn't let through. The target never saw the call, so it may be made
// elsewhere whatever its method.
type Rejected struct {
	Name  string
	State State     // Open, HalfOpen, Ramping or ForcedOpen
	Rule  Rule      // why it opened
	Count uint64    // what the rule counted
	Of    uint64    // of how many outcomes
	Retry time.Time // when a call may be let through again; zero: when somebody says so
}

func (r *Rejected) Error() string {
	name := "circuit breaker"
	if r.Name != "" {
		name += " " + r.Name
	}
	why := r.why()
	switch r.State {
	case HalfOpen:
		return fmt.Sprintf("%s is half-open, its trials are under way%s", name, r.when())
	case Ramping:
		return fmt.Sprintf("%s has just closed and lets a growing share of calls through%s", name, r.when())
	default:
		return fmt.Sprintf("%s is %v: %s%s", name, r.State, why, r.when())
	}
}

func (r *Rejected) why() string {
	switch r.Rule {
	case RuleFailureRate:
		return fmt.Sprintf("%d of %d calls failed", r.Count, r.Of)
	case RuleSlowRate:
		return fmt.Sprintf("%d of %d calls were slow", r.Count, r.Of)
	case RuleHanging:
		return fmt.Sprintf("calls hang there, %d of the last %d", r.Count, r.Of)
	case RuleConsecutive:
		return fmt.Sprintf("%d calls in a row failed", r.Count)
	case RuleTrial:
		return "a trial call didn't go well"
	case RuleRefused:
		return "the connection was refused"
	default:
		return "by hand"
	}
}

func (r *Rejected) when() string {
	if r.Retry.IsZero() {
		return ""
	}
	return fmt.Sprintf("; try again in %v", max(time.Until(r.Retry), 0).Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrRejected) true.
func (r *Rejected) Is(target error) bool { return target == ErrRejected }

// Rejection marks the error as a guard's, not the target's: see [Judge].
func (r *Rejected) Rejection() bool { return true }

// Event is a change of a breaker.
type Event struct {
	Name     string
	From, To State // both MetricsOnly: it would have opened
	Rule     Rule  // why it opens, or would
	Count    uint64
	Of       uint64
	At       time.Time
	OpenFor  time.Duration // To is Open: until the first trial
	Missed   int           // changes before this one that OnEvent was too slow for
}
