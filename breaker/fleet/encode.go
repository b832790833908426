package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// written is a record as it is in a store: words for people who look there, and lengths in milliseconds.
type written struct {
	Fleet      int     `json:"fleet"` // the form: 1
	Epoch      uint64  `json:"epoch"`
	Generation uint64  `json:"generation"`
	State      string  `json:"state"`
	For        float64 `json:"for_ms,omitempty"`
	Streak     int     `json:"streak,omitempty"`
	Length     float64 `json:"length_ms,omitempty"`
	Rule       string  `json:"rule,omitempty"`
	Count      uint64  `json:"count,omitempty"`
	Of         uint64  `json:"of,omitempty"`
	Seers      int     `json:"seers,omitempty"`
	Won        int     `json:"won,omitempty"`
	Abandoned  uint64  `json:"abandoned,omitempty"`
	Holder     string  `json:"holder,omitempty"`
	Token      uint64  `json:"token,omitempty"`
}

// states and rules are those that a record may have, by their words.
var (
	states = []breaker.State{breaker.Closed, breaker.Ramping, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.ForcedClosed}
	rules  = []breaker.Rule{breaker.NoRule, breaker.RuleFailureRate, breaker.RuleSlowRate, breaker.RuleTrial, breaker.RuleByHand}
)

func ms(d time.Duration) float64       { return float64(d) / float64(time.Millisecond) }
func duration(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }

// Bytes is the record as a store keeps it.
func (r Record) Bytes() []byte {
	b, err := json.Marshal(written{
		1, r.Epoch, r.Generation, r.State.String(), ms(r.For), r.Streak, ms(r.Length), r.Rule.String(), r.Count, r.Of, r.Seers, r.Won, r.Abandoned, r.Holder, r.Token,
	})
	if err != nil {
		panic(err) // numbers and words: there is nothing that JSON can't say
	}
	return b
}

// Read reads what a store has. Of nothing it is a zero Record; what isn't a record, or one from a later form of this package, is
// an error.
func Read(s Sight) (Record, error) {
	if s.Version == 0 {
		return Record{}, nil
	}
	var w written
	d := json.NewDecoder(bytes.NewReader(s.Record))
	if err := d.Decode(&w); err != nil {
		return Record{}, fmt.Errorf("the store has something else under this key than a fleet breaker's record (%v): give one of the two another key or prefix", err)
	}
	r := Record{
		Epoch: w.Epoch, Generation: w.Generation, For: duration(w.For), Streak: w.Streak, Length: duration(w.Length), Count: w.Count, Of: w.Of,
		Seers: w.Seers, Won: w.Won, Abandoned: w.Abandoned, Holder: w.Holder, Token: w.Token,
	}
	var err error
	if r.State, err = find(states, w.State); err != nil {
		return Record{}, err
	}
	if r.Rule, err = find(rules, w.Rule); err != nil {
		return Record{}, err
	}
	longest := ms(longestOpen)
	switch {
	case w.Fleet != 1:
		return Record{}, fmt.Errorf("the fleet breaker's record is of form %d, and this caller reads form 1: bring all callers to one version", w.Fleet)
	case r.Epoch == 0, !(w.For >= 0 && w.For <= longest), !(w.Length >= 0 && w.Length <= longest), r.Streak < 0, r.Streak > mostStreak, r.Seers < 0, r.Won < 0, r.Won > mostWon,
		len(r.Holder) > longestName, (r.Holder != "") != (r.Token != 0), r.Holder != "" && r.State != breaker.HalfOpen:
		return Record{}, errors.New("the fleet breaker's record can't be true: somebody else writes under this key; reset it, or give one of the two another key")
	}
	return r, nil
}

func find[T fmt.Stringer](all []T, word string) (T, error) {
	for _, v := range all {
		if v.String() == word {
			return v, nil
		}
	}
	var none T
	return none, fmt.Errorf("the fleet breaker's record says %q, which this caller doesn't know: bring all callers to one version", word)
}

// toldCount is what a caller tells, as it is in a store.
type toldCount struct {
	Epoch      uint64 `json:"e"`
	Generation uint64 `json:"g"`
	Calls      uint64 `json:"calls"`
	Failures   uint64 `json:"failures,omitempty"`
	Bad        uint64 `json:"slow,omitempty"`
	Open       bool   `json:"open,omitempty"`
}

func (c counted) bytes() []byte {
	b, err := json.Marshal(toldCount(c))
	if err != nil {
		panic(err) // numbers
	}
	return b
}

func readCount(b []byte) (counted, error) {
	var c toldCount
	err := json.Unmarshal(b, &c)
	if err == nil && max(c.Failures, c.Bad) > c.Calls || c.Calls > mostCalls {
		err = errors.New("a count that can't be true")
	}
	return counted(c), err
}

const mostCalls = 1 << 40 // in a window of one caller: sums of so many callers don't overflow

// Told is what a caller has told of its calls, for those who look at a store.
type Told struct {
	Caller                string
	Age                   time.Duration
	Calls, Failures, Slow uint64
	Open                  bool // its own breaker is
}

// ReadCounts reads what the callers have told lately of a record; what doesn't concern it is left out.
func ReadCounts(s Sight) []Told {
	r, err := Read(s)
	if err != nil {
		return nil
	}
	var all []Told
	for _, c := range s.Counts {
		if n, err := readCount(c.Count); err == nil && n.Epoch == r.Epoch && n.Generation == r.Generation {
			all = append(all, Told{c.Caller, c.Age, n.Calls, n.Failures, n.Bad, n.Open})
		}
	}
	return all
}
