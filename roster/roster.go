// Package roster answers: who of this service can I call, right now? It follows a service, keeps the last good
// view through every outage, picks instances, and lets go of those that leave.
package roster

import (
	"context"
	"slices"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// Config sets a roster up. The zero value works.
type Config struct {
	// LetGo is called when the last pick of a leaving instance has settled and before that is
	// acknowledged: close every idle connection to it, in a way that new ones stay closed. nil if the
	// user holds none.
	LetGo func(eider.Instance)

	// Companion makes what lives and dies with an instance in this caller: its connections, its
	// breaker. It is called once an incarnation, before the first pick. nil means none.
	Companion func(eider.Instance) Companion
}

// Companion lives beside one incarnation of one instance in one caller.
type Companion interface {
	LetGo() // close idle connections, now and as they become idle: nobody will pick it again
	Close() // the instance is gone, or the roster is closed; calls in flight may still end
}

// Roster is the live list of one service. Its methods may be called from any goroutine.
type Roster struct{}

// Follow begins to follow a service with the default configuration. It does no I/O.
func Follow(reg *registry.Registry, service string) *Roster { return Config{}.Follow(reg, service) }

// Follow begins to follow a service. It does no I/O; the first Pick or View does.
func (c Config) Follow(reg *registry.Registry, service string) *Roster { panic("under construction") }

// Pick chooses an instance: least loaded of two. It waits for the first view, until ctx ends. Call
// done when the call has ended, with its error if it failed; until then the instance counts as in use
// here and isn't let go of.
func (r *Roster) Pick(ctx context.Context) (in eider.Instance, done func(*error), err error) {
	panic("under construction")
}

// Take is Pick for transports: without a closure, with instances to leave out, and with a Choice that
// tells apart a request that is on its way from one that has arrived.
func (r *Roster) Take(ctx context.Context, not *Excluded) (Choice, error) {
	panic("under construction")
}

// Excluded are the incarnations that one request has already tried. The zero value is empty; up to
// eight cost no allocation.
type Excluded struct {
	few  [8]uint64 // nonces
	n    int
	more []uint64
}

// Add leaves an incarnation out from now on.
func (x *Excluded) Add(in eider.Incarnation) {
	switch {
	case x.Has(in):
	case x.n < len(x.few):
		x.few[x.n] = in.Nonce
		x.n++
	default:
		x.more = append(x.more, in.Nonce)
	}
}

// Has tells whether the incarnation is left out. A nil set leaves out nobody.
func (x *Excluded) Has(in eider.Incarnation) bool {
	return x != nil && (slices.Contains(x.few[:x.n], in.Nonce) || slices.Contains(x.more, in.Nonce))
}

// Len returns how many are left out.
func (x *Excluded) Len() int { return x.n + len(x.more) }

// Choice is one pick. It is a value; it must be ended by Done, exactly once.
type Choice struct{}

// Instance returns who was picked. It is shared: don't write to it.
func (c *Choice) Instance() *eider.Instance { panic("under construction") }

// Companion returns what Config.Companion made for it.
func (c *Choice) Companion() Companion { panic("under construction") }

// Wrote tells that the request is wholly written. One second later it no longer holds up letting go.
func (c *Choice) Wrote() { panic("under construction") }

// Answered tells that the first byte of the answer has come: from now on the pick no longer holds up letting go, if
// it is written too.
func (c *Choice) Answered() { panic("under construction") }

// Leaving tells that the instance said of itself, in band, that it is leaving.
func (c *Choice) Leaving(eider.Incarnation) { panic("under construction") }

// Outcome is what a call showed about its instance.
type Outcome uint8

// The outcomes.
const (
	Neutral Outcome = iota // says nothing about the instance: the caller's own cancel, a rejection
	Success                // it answered
	Failure                // it failed: two in a row set it aside
	Refusal                // the dial was refused: sets it aside at once, and is told upstream
)

// Done ends the pick.
func (c *Choice) Done(Outcome) { panic("under construction") }

// View returns the last good view, nil before the first, and what is known of its freshness.
func (r *Roster) View() registry.Update { panic("under construction") }

// Close ends the following and everything that the roster started.
func (r *Roster) Close() error { panic("under construction") }
