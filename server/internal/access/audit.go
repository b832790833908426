package access

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/eiderhq/eider"
)

// Audit tells who was refused and what operators did: as an event and a log line each, with who, what and from
// where, and nothing of what was shown. nil tells nothing. One is shared by all fronts of a node.
type Audit struct {
	Tell func(eider.Event) // nil: no events
	Log  *slog.Logger      // nil means slog.Default()

	mu     sync.Mutex
	tokens float64
	last   time.Time
	silent int   // refusals since the last that was told
	denied int64 // ever
}

// Refusals come from strangers, so that their number is bounded; an operator's acts are all told.
const (
	deniedBurst  = 10
	deniedSecond = 1.0
)

// Denied tells that somebody was refused; who is nil when that isn't known.
func (a *Audit) Denied(who *Identity, from, what string, err error) {
	if a == nil {
		return
	}
	silent, tell := a.admit(time.Now())
	if !tell {
		return
	}
	detail := fmt.Sprintf("%s from %s: %v", what, from, err)
	if silent > 0 {
		detail += fmt.Sprintf(" (and %d refusals before, untold)", silent)
	}
	a.log().Warn("eider: refused", "who", cmp.Or(who.String(), "a stranger"), "from", from, "what", what, "err", err, "untold", silent)
	if a.Tell != nil {
		a.Tell(eider.Event{Kind: eider.EventDenied, Caller: who.String(), Detail: detail})
	}
}

// Operated tells what an operator did to an instance or service.
func (a *Audit) Operated(who *Identity, from, what string, key eider.Key) {
	if a == nil {
		return
	}
	name := cmp.Or(who.String(), "somebody on this machine")
	a.log().Info("eider: operator", "who", name, "from", from, "what", what, "service", key.Service, "id", key.ID)
	if a.Tell != nil {
		a.Tell(eider.Event{Kind: eider.EventOperated, Service: key.Service, ID: key.ID, Caller: name, Detail: what + ", from " + from})
	}
}

// admit counts a refusal, and tells whether it is told, and how many weren't before it.
func (a *Audit) admit(now time.Time) (silent int, tell bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied++
	if a.last.IsZero() {
		a.tokens = deniedBurst
	} else {
		a.tokens = min(deniedBurst, a.tokens+deniedSecond*now.Sub(a.last).Seconds())
	}
	a.last = now
	if a.tokens < 1 {
		a.silent++
		return 0, false
	}
	a.tokens--
	silent, a.silent = a.silent, 0
	return silent, true
}

// Refusals tells how many there were, told or not.
func (a *Audit) Refusals() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.denied
}

func (a *Audit) log() *slog.Logger {
	if a.Log != nil {
		return a.Log
	}
	return slog.Default()
}
