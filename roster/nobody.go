package roster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
)

// ending is how an instance ended, and when this roster heard of it.
type ending struct {
	at     time.Duration
	status eider.Status
}

// since says "the last left 3s ago", as seen from now.
func (e *ending) since(now time.Duration) string {
	how := map[eider.Status]string{eider.Dead: "died", eider.Lapsed: "fell silent"}[e.status]
	if how == "" {
		how = "left"
	}
	if ago := (now - e.at).Truncate(time.Second); ago > 0 {
		return fmt.Sprintf("the last %s %s ago", how, ago)
	}
	return "the last " + how + " just now"
}

// nobody says who is there and why none of them can be picked: "orders: 2 instances, both DOWN".
func (s *snapshot) nobody(not *Excluded, now time.Duration) error {
	op := "pick " + s.service
	if s.closed {
		return eider.Errorf(eider.Closed, op, "the roster is closed")
	}
	n := len(s.view.Instances)
	if n == 0 {
		gone := len(s.view.Gone)
		switch {
		case s.ended != nil:
			return eider.Errorf(eider.NoInstance, op, "nobody serves %s now (%s)", s.service, s.ended.since(now))
		case gone == 1:
			return eider.Errorf(eider.NoInstance, op, "nobody serves %s now (the last ended lately)", s.service)
		case gone > 1:
			return eider.Errorf(eider.NoInstance, op, "nobody serves %s now (%d ended lately)", s.service, gone)
		case !s.view.Complete:
			return eider.Errorf(eider.NoInstance, op, "nobody is registered so far, and the registry has started too lately to know everybody; try again")
		}
		return eider.Errorf(eider.NoInstance, op, "nobody is registered under this name; check the name, and that an instance has started")
	}
	if full := s.rejections(not); len(full) > 0 {
		return &eider.Error{Op: op, Kind: eider.Unavailable, Err: &rejected{n, full}, RetryAfter: full.soonest()}
	}
	var why []string // in the order of the view
	many := map[string]int{}
	for i := range s.view.Instances {
		in := &s.view.Instances[i]
		word := s.reason(in, not)
		if many[word]++; many[word] == 1 {
			why = append(why, word)
		}
	}
	if len(why) > 1 {
		for i, word := range why {
			why[i] = fmt.Sprintf("%d %s", many[word], word)
		}
		return eider.Errorf(eider.NoInstance, op, "%d instances: %s", n, strings.Join(why, ", "))
	}
	switch n {
	case 1:
		return eider.Errorf(eider.NoInstance, op, "1 instance, %s", why[0])
	case 2:
		return eider.Errorf(eider.NoInstance, op, "2 instances, both %s", why[0])
	}
	return eider.Errorf(eider.NoInstance, op, "%d instances, all %s", n, why[0])
}

// reason says in a word or a few why an instance isn't picked.
func (s *snapshot) reason(in *eider.Instance, not *Excluded) string {
	switch {
	case slices.Contains(s.renounced, in.ID):
		if in.Hold != nil {
			return "held and let go of"
		}
		return eider.Draining.String() + " and let go of"
	case not.Has(in.Incarnation):
		return "tried already by this request"
	}
	return in.Status.String()
}

// rejections are what breakers and bulkheads say of those who could be picked but for them, by their names.
type rejections []rejection

// rejection is one guard's.
type rejection struct {
	name  string
	err   error
	retry time.Duration
}

// rejections asks the guards; who lets a call through by now says nothing.
func (s *snapshot) rejections(not *Excluded) (all rejections) {
	for i := range s.tier {
		for _, e := range s.tier[i].All() {
			if not.has(e.m.nonce) {
				continue
			}
			if b := e.m.guard.Load(); b != nil && !e.free {
				p, err := b.Allow()
				p.Settle(breaker.Neutral)
				if r, ok := err.(*breaker.Rejected); ok {
					all = append(all, rejection{r.Name, r, time.Until(r.Retry)})
					continue
				}
			}
			if b := e.m.bulk.Load(); b != nil {
				slot, err := b.Acquire(context.Background())
				slot.Forget()
				if f, ok := err.(*bulkhead.Full); ok {
					all = append(all, rejection{f.Name, f, f.Retry})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b rejection) int { return strings.Compare(a.name, b.name) }) // not by their words: those cost more than all the rest
	return all
}

// soonest is when the first of them lets a call through, 0 if it isn't known.
func (all rejections) soonest() time.Duration {
	var soonest time.Duration
	for _, r := range all {
		if r.retry > 0 && (soonest == 0 || r.retry < soonest) {
			soonest = r.retry
		}
	}
	return soonest
}

// rejected is why nobody is picked of n instances.
type rejected struct {
	n   int
	all rejections
}

// mostNamed bounds the guards that an error names.
const mostNamed = 8

func (r *rejected) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "of %d instances %d can't be called now", r.n, len(r.all))
	for i, one := range r.all {
		if i == mostNamed {
			fmt.Fprintf(&b, "; and %d more", len(r.all)-i)
			break
		}
		b.WriteString("; " + one.err.Error())
	}
	return b.String()
}

// Unwrap returns each of them.
func (r *rejected) Unwrap() []error {
	out := make([]error, len(r.all))
	for i, one := range r.all {
		out[i] = one.err
	}
	return out
}
