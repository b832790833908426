package roster

import (
	"slices"
	"sync/atomic"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
)

// Choice is one pick. It is a value; it must be ended by Done, exactly once. From its first method
// that isn't Instance or Companion on it must stay where it is: a copy made later counts on its own.
//
// Wrote, Answered, Leaving and Done may be called by different goroutines and in any order. A pick
// holds up letting go of its instance
//
//	picked ──Wrote──► written ──Answered, or 1s──► free
//	   │  └─Answered─► answered ──Wrote──────────► free
//	   └──────── Done, from anywhere ────────────► free, and no longer in flight
type Choice struct {
	r  *Roster
	m  *member
	in *eider.Instance

	permit breaker.Permit // of the instance's breaker; zero: it wasn't asked
	slot   bulkhead.Slot  // of its bulkhead; zero: it wasn't asked
	stage  uint32         // what has become of the permit
	state  uint32         // flags, and the tick of Wrote
	asked  bool           // it is a trial that the registry has asked for
	waits  bool           // it may wait for its answer
}

const (
	isWritten uint32 = 1 << iota
	isAnswered
	isDone
	stateBits = 3
)

// Instance returns who was picked. It is shared: don't write to it.
func (c *Choice) Instance() *eider.Instance { return c.in }

// Companion returns what Config.Companion made for it.
func (c *Choice) Companion() Companion {
	if c.m == nil {
		return nil
	}
	return c.m.companion
}

// Yields tells whether the instance leaves, is held or has ended, as far as is known by now: whatever comes of the pick then says
// nothing of it.
func (c *Choice) Yields() bool { return c.m != nil && c.r.failed(c.m, Failure) == breaker.Neutral }

// Wrote tells that the request is wholly written. One second later it no longer holds up letting go.
func (c *Choice) Wrote() {
	if c.m == nil || atomic.LoadUint32(&c.state)&(isWritten|isDone) != 0 {
		return
	}
	if c.waits {
		c.begin()
	}
	t := tickOf(c.r.now())
	c.m.wrote(t) // before it leaves the word: for a moment counted twice, never not at all
	for {
		s := atomic.LoadUint32(&c.state)
		switch {
		case s&(isWritten|isDone) != 0:
			c.wake(c.m.unwrote(t))
			return
		case !atomic.CompareAndSwapUint32(&c.state, s, s|isWritten|t<<stateBits):
			continue
		case s&isAnswered != 0:
			c.m.unwrote(t)
		}
		c.wake(c.m.leave(unwritten))
		return
	}
}

// Answered tells that the answer has begun to come: from now on the pick no longer holds up letting go, if it is written
// too, and however long the rest takes, the instance isn't slow. A trial has gone well.
func (c *Choice) Answered() {
	if c.m == nil {
		return
	}
	s := atomic.OrUint32(&c.state, isAnswered)
	if s&(isAnswered|isDone) == 0 && s&isWritten != 0 {
		c.wake(c.m.unwrote(s >> stateBits))
	}
	if s&(isAnswered|isDone) == 0 {
		c.slot.Release(true)
	}
	c.begin()
}

// Failed tells that the answer has come, and says itself that the instance failed: a gateway's 502. That is the pick's
// outcome, whatever Done is told of the rest.
func (c *Choice) Failed() {
	if c.m == nil {
		return
	}
	s := atomic.OrUint32(&c.state, isAnswered)
	if s&(isAnswered|isDone) == 0 && s&isWritten != 0 {
		c.wake(c.m.unwrote(s >> stateBits))
	}
	if s&(isAnswered|isDone) == 0 {
		c.slot.Release(false)
	}
	for _, g := range []uint32{owed, begun} {
		if atomic.CompareAndSwapUint32(&c.stage, g, spent) {
			c.permit.Settle(c.r.failed(c.m, Failure))
			return
		}
	}
}

// Leaving tells that the instance said of itself, in band, that it is leaving. The word of another
// incarnation, that answers at its address, says nothing about it.
func (c *Choice) Leaving(in eider.Incarnation) {
	if c.m != nil && in.Nonce == c.m.nonce && !c.m.said.Load() {
		c.r.heardLeaving(c.m)
	}
}

// Outcome is what a call showed about its instance.
type Outcome uint8

// The outcomes.
const (
	Neutral Outcome = iota // says nothing about the instance: the caller's own cancel, a rejection
	Success                // it answered
	Failure                // it failed: by the rules of its breaker, two in a row open it
	Refusal                // the dial was refused: opens its breaker at once, and is told upstream
)

// Done ends the pick.
func (c *Choice) Done(o Outcome) {
	if c.m == nil {
		return
	}
	s := atomic.OrUint32(&c.state, isDone)
	if s&isDone != 0 {
		return
	}
	switch {
	case s&isWritten == 0:
		c.wake(c.m.leave(unwritten | 1))
	case s&isAnswered == 0:
		c.m.leave(1)
		c.wake(c.m.unwrote(s >> stateBits))
	default:
		c.m.leave(1)
	}
	if s&isAnswered == 0 {
		c.freeSlot(o)
	}
	c.learn(o)
}

// freeSlot gives back the slot of a pick that ends before an answer has begun.
func (c *Choice) freeSlot(o Outcome) {
	if o == Neutral {
		c.slot.Forget()
		return
	}
	c.slot.Release(o == Success)
}

// wake has the letting go looked at, if this was perhaps what it waited for.
func (c *Choice) wake(now bool) {
	if now {
		c.r.wake()
	}
}

// Excluded are the incarnations that one request has already tried. The zero value is empty; up to
// eight cost no allocation.
type Excluded struct {
	// Unrepeatable says that the request can't be sent again should it be lost: it is spared the trial of an
	// instance that is suspect for hanging, as long as there are others that can.
	Unrepeatable bool
	// NoTrial says that the request is never to be such a trial, whatever others pass by: it could be sent again, but
	// nobody would give it up while it hangs.
	NoTrial bool
	// Waits says that the request is meant to wait for its answer, as a long poll is: however long it does, the instance
	// isn't slow. It isn't the trial of one that was slow or hung; of any other it is one that goes well once it is
	// written.
	Waits bool

	// Spare says that the request is out already and can do without this pick: it is made only of an instance that is UP and
	// unsuspected, whose breaker is closed and whose bulkhead has room. It is never a trial, nor a last resort.
	Spare bool

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
func (x *Excluded) Has(in eider.Incarnation) bool { return x.has(in.Nonce) }

func (x *Excluded) has(nonce uint64) bool {
	return x != nil && (slices.Contains(x.few[:x.n], nonce) || slices.Contains(x.more, nonce))
}

// Len returns how many are left out.
func (x *Excluded) Len() int {
	if x == nil {
		return 0
	}
	return x.n + len(x.more)
}
