// Package tries keeps whom a call was tried at in vain, and how many more tries it has. What a failed try shows is
// eiderhttp's and eidergrpc's to say; this is what they have in common.
package tries

import (
	"errors"
	"strings"

	"github.com/eiderhq/eider"
)

// Why no further try was made.
var (
	ErrFinal  = errors.New("no other instance would do better")
	ErrSpent  = errors.New("no tries are left")
	ErrBudget = errors.New("the service's retry budget is spent")
	ErrAlone  = errors.New("no other instance can be called")
)

// mostFree bounds the free tries of one call: a refusal costs nobody anything, but a list may be long.
const mostFree = 16

// Failed is one failed try: who was tried, and what came of it.
type Failed struct {
	Key     eider.Key
	Address string
	Err     error
	Reason  string // Err in words that need no address
}

func (f Failed) Error() string { return f.Key.String() + " " + f.Address + ": " + f.Reason }
func (f Failed) Unwrap() error { return f.Err }

// List is what a call was tried at. The zero value is a call whose first try hasn't failed yet.
type List struct {
	failed []Failed
	spent  int // of those, the ones that count
}

// Add counts a failed try of a call that has most tries. A free one doesn't count, up to sixteen, unless it is the
// only one that the call has.
func (l *List) Add(f Failed, free bool, most int) {
	l.failed = append(l.failed, f)
	if !free || most == 1 || len(l.failed)-l.spent > mostFree {
		l.spent++
	}
}

// Spent tells whether a call that has most tries has none left.
func (l *List) Spent(most int) bool { return l.spent >= most }

// Len counts the tries, free or not.
func (l *List) Len() int { return len(l.failed) }

// End returns the error of a call that isn't tried again: it names every try, and why there was no further one.
func (l *List) End(why error) *Error { return &Error{l.failed, why} }

// Error is a call's that was tried in vain.
type Error struct {
	failed []Failed
	why    error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("tried ")
	for i, f := range e.failed {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Error())
	}
	if e.why != nil && e.why != ErrFinal {
		b.WriteString(" (" + e.why.Error() + ")")
	}
	return b.String()
}

// Unwrap returns the causes, the last try's first, as that is the one to act on.
func (e *Error) Unwrap() []error {
	var out []error
	for i := len(e.failed) - 1; i >= 0; i-- {
		out = append(out, e.failed[i].Err)
	}
	return append(out, e.why)
}
