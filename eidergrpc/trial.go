package eidergrpc

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider/roster"
)

// A trial of an instance that is suspect for hanging goes with a unary call whose method was declared idempotent: it is
// given trialSlow × Slow for its answer, and then to somebody else, at no cost to tries and budget. It was the registry's
// wish, and not the caller's. A stream isn't taken: it may be meant to be silent.
const trialSlow = 3

// trialWaits tells whether the first try of a unary call that can be sent again may be a trial. One that begins a moment
// before the registry asks has no bound, and so is none: the next of its kind will be.
func (cl *client) trialWaits() bool {
	p := cl.follows.Load()
	return p != nil && p.roster.TrialWaits()
}

// trying makes the first try of a call, in a context that can be ended before the call's own.
func (c *call) trying(try func(context.Context) error) error {
	ctx, cancel := context.WithCancel(c)
	defer cancel()
	c.giveUpTry(cancel)
	defer c.giveUpTry(nil)
	err := try(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.overdue && c.flt != nil {
		return c.flt.Err // gRPC's own says that it was cancelled, and it wasn't by the caller
	}
	return err
}

// giveUpTry sets what ends a try that is a trial and takes too long; nil: nothing, and so it is none.
func (c *call) giveUpTry(cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	if c.timer != nil {
		c.timer.Stop()
	}
}

// time gives a trial its bound, once it is handed out.
func (c *call) time() {
	if c.cancel != nil && c.choice.Trial() {
		c.timer = time.AfterFunc(c.cl.trialBound(), c.tooLate)
	}
}

func (cl *client) trialBound() time.Duration { return max(trialSlow*cl.slow(), time.Millisecond) }

// tooLate ends a trial that hasn't been answered. What gRPC has put in its place meanwhile is none.
func (c *call) tooLate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == out && c.cancel != nil && c.choice.Trial() {
		c.overdue = true
		c.cancel()
	}
}

// judgeTrial is the fault of a trial that hasn't been answered.
func (c *call) judgeTrial() *fault {
	f := c.newFault(status.Errorf(codes.Unavailable, "no answer to a trial within %v", c.cl.trialBound()), TimedOut, repeatable, roster.Failure)
	f.status = true
	return f
}
