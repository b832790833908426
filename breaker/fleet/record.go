package fleet

import (
	"math"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// Record is where a fleet's breaker stands, and who holds its permit. It is a value: what happens to it makes a new one, which
// replaces it in the [Store], or nothing if somebody else was faster.
//
//	        Quorum callers see it, and it is true of all calls together
//	Closed ─────────────────────────────────────────────────────────────► Open ◄─────────────┐
//	  ▲                                                                     │ For is over,    │ the holder says
//	  │ For is over                                                         │ and a caller    │ that it failed
//	  │                                                                     ▼ asks            │
//	Ramping ◄────────── the holder says that it went well ───────────── HalfOpen ─────────────┘
//	  └─ a quorum again: Open                                             │ ▲ the lease (For) is over, or a neutral
//	                                                                      └─┘ word: the next caller who asks holds it
//
// Every arrow but the end of a ramp, which time alone makes, is a new Generation. Who speaks of an older one, of another Epoch or
// with another token isn't heard. There are no times in it, but lengths, which count from its being written: a store
// says how old a record is.
type Record struct {
	Epoch      uint64        // random: another one says that the store has lost what it knew
	Generation uint64        // counts what has happened
	State      breaker.State // Closed, Open, HalfOpen, Ramping, ForcedOpen or ForcedClosed
	For        time.Duration // how long: Open until a trial may be, HalfOpen until the permit is nobody's, Ramping until it is closed
	Streak     int           // times it opened without having stayed closed for as long as it was open
	Length     time.Duration // how long it was open the last time
	Rule       breaker.Rule  // why it opened
	Count      uint64        // what the rule counted, of all callers
	Of         uint64
	Seers      int    // how many callers saw it
	Won        int    // trials that went well, while HalfOpen
	Abandoned  uint64 // trials whose holder was never heard of again
	Holder     string // of the permit, while HalfOpen; "": nobody
	Token      uint64 // random: what the holder's verdict must show
}

// fence is what a verdict must show to be heard.
type fence struct{ epoch, generation, token uint64 }

func (r *Record) fence() fence { return fence{r.Epoch, r.Generation, r.Token} }

// At is the record as time has made it: a ramp that is over is Closed, a permit whose lease is over is nobody's.
func (r Record) At(age time.Duration) Record {
	switch {
	case r.State == breaker.Ramping && age >= r.For:
		r.State, r.For = breaker.Closed, 0
	case r.State == breaker.HalfOpen && r.Holder != "" && age >= r.For:
		r.Holder, r.Token, r.For = "", 0, 0
	}
	return r
}

// next is what follows: nobody holds it.
func (r Record) next(to breaker.State, lasting time.Duration) Record {
	r.Generation++
	r.State, r.For = to, lasting
	r.Holder, r.Token = "", 0
	return r
}

// Force is the record as an operator wants it: ForcedOpen, ForcedClosed, or Closed, as if it had never opened.
func (r Record) Force(to breaker.State) Record {
	r = r.next(to, 0)
	r.Streak, r.Length, r.Won, r.Count, r.Of, r.Seers = 0, 0, 0, 0, 0, 0
	if r.Rule = breaker.NoRule; to == breaker.ForcedOpen {
		r.Rule = breaker.RuleByHand
	}
	return r
}

// counted is what a caller has counted since the record it names was written.
type counted struct {
	Epoch, Generation    uint64
	Calls, Failures, Bad uint64 // Bad: slow, or hanging
	Open                 bool   // its own breaker is open: these are what opened it, and its own minimum is met
}

// sees tells by which rule the counts are bad enough.
func (c counted) sees(s *settings) (failing, slow bool) {
	return reaches(c.Failures, c.Calls, s.failureRate), reaches(c.Bad, c.Calls, s.slowRate)
}

func reaches(n, of uint64, rate float64) bool {
	const rounding = 1e-9
	return rate > 0 && n > 0 && float64(n) >= rate*float64(of)-rounding
}

// judged opens it if enough callers see that it is bad, and if it is true of all calls together: one that is sick itself
// sees bad calls everywhere, and speaks for nobody else.
func (r Record) judged(s *settings, age time.Duration, counts []Count) (Record, bool) {
	if r.State != breaker.Closed && r.State != breaker.Ramping {
		return r, false
	}
	var all counted
	failing, slow, open := seers{}, seers{}, seers{}
	for _, told := range counts {
		c, err := readCount(told.Count)
		if err != nil || told.Age >= s.window || c.Epoch != r.Epoch || c.Generation != r.Generation {
			continue
		}
		all.Calls += c.Calls
		all.Failures += c.Failures
		all.Bad += c.Bad
		f, b := c.sees(s)
		failing.add(f, told)
		slow.add(b, told)
		open.add(c.Open, told)
	}
	f, b := all.sees(s)
	switch {
	case all.Calls < uint64(s.least) && len(open) < s.quorum:
		return r, false
	case f && len(failing) >= s.quorum:
		r.Rule, r.Count, r.Of, r.Seers = breaker.RuleFailureRate, all.Failures, all.Calls, len(failing)
	case b && len(slow) >= s.quorum:
		r.Rule, r.Count, r.Of, r.Seers = breaker.RuleSlowRate, all.Bad, all.Calls, len(slow)
	default:
		return r, false
	}
	if age >= r.Length {
		r.Streak = 0 // it has held: this is no relapse
	}
	return r.opened(s), true
}

// seers are those who see it: by where they tell it from, if the store can say.
type seers map[string]struct{}

func (s seers) add(sees bool, c Count) {
	if sees {
		s[orElse(c.From, "\x00"+c.Caller)] = struct{}{}
	}
}

// opened is open, for longer than the last time if that was of no use.
func (r Record) opened(s *settings) Record {
	r.Length = s.openFor
	for range r.Streak {
		if r.Length *= 2; r.Length >= s.maxOpen {
			break
		}
	}
	r.Length = min(r.Length, s.maxOpen)
	r.Streak, r.Won = min(r.Streak+1, mostStreak), 0
	return r.next(breaker.Open, r.Length)
}

const mostStreak = 30 // doubling a nanosecond so often makes a second

// due tells whether who asks gets the permit, and in how long if not yet; math.MaxInt64: that isn't for time to say.
func (r *Record) due(age time.Duration) time.Duration {
	switch {
	case r.State == breaker.Open, r.State == breaker.HalfOpen && r.Holder != "":
		return max(r.For-age, 0)
	case r.State == breaker.HalfOpen:
		return 0
	}
	return math.MaxInt64
}

// granted gives the permit to a caller with a call in hand, if it is to be had.
func (r Record) granted(s *settings, age time.Duration, holder string, token uint64) (Record, bool) {
	if r.due(age) > 0 {
		return r, false
	}
	if r.Holder != "" {
		r.Abandoned++
	}
	r = r.next(breaker.HalfOpen, s.lease)
	r.Holder, r.Token = holder, token
	return r, true
}

// settled takes the holder's verdict; false if it isn't the holder's any more.
func (r Record) settled(s *settings, age time.Duration, f fence, o breaker.Outcome) (Record, bool) {
	if r.State != breaker.HalfOpen || r.Holder == "" || r.fence() != f || age >= r.For {
		return r, false
	}
	switch o {
	case breaker.Neutral:
		return r.next(breaker.HalfOpen, 0), true
	case breaker.Success:
		if r.Won++; r.Won < s.successes {
			return r.next(breaker.HalfOpen, 0), true
		}
		r.Won = 0
		if s.ramp == 0 {
			return r.next(breaker.Closed, 0), true
		}
		return r.next(breaker.Ramping, s.ramp), true
	default:
		r.Rule, r.Count, r.Of, r.Seers = breaker.RuleTrial, 1, 1, 1
		return r.opened(s), true
	}
}
