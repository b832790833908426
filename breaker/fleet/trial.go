package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// trial is the fleet's one permit, while this caller holds it.
type trial struct {
	b     *Breaker
	fence fence
	began int64
	until int64 // the lease, counted from before it was asked for: here it ends no later than there
	over  atomic.Bool
}

// live ends with the trial's time, before its lease: then it has failed, and another may try. It ends as well when the fleet has got on
// without it: it has been overruled by an operator, or forgotten by the store. Who is alone knows of neither.
func (t *trial) live() bool {
	v := t.b.view.Load()
	return !t.over.Load() && t.b.now() < t.until && (v == nil || v.fence() == t.fence)
}

// begin hands the permit to a call.
func (b *Breaker) begin(t *trial) Permit {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.began = b.now()
	b.trial = t
	signal(b.turned) // it is waited for
	return Permit{trial: t}
}

// settle is heard once: a call's own word, or that of who has waited long enough for it.
func (t *trial) settle(o breaker.Outcome) {
	if !t.over.CompareAndSwap(false, true) {
		return
	}
	b := t.b
	if o == breaker.Success && b.set.slow > 0 && b.now()-t.began > int64(b.set.slow) {
		o = breaker.Failure // it answered, too slowly to let all the others in
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trial == t {
		b.trial = nil
	}
	b.verdict(verdict{t.fence, o, t.until})
}

// late gives the permit back of a call that wasn't made.
func (t *trial) late() error {
	t.settle(breaker.Neutral)
	return &breaker.Rejected{Name: t.b.c.Key + " of the fleet", State: breaker.HalfOpen, Rule: breaker.RuleTrial, Retry: time.Now()}
}

// verdict is a trial's, to be told to the store.
type verdict struct {
	fence
	outcome breaker.Outcome
	until   int64 // then it isn't worth telling
}

const mostVerdicts = 16

// verdict keeps one to be told, with the lock held.
func (b *Breaker) verdict(v verdict) {
	if len(b.verdicts) == mostVerdicts {
		b.verdicts = b.verdicts[1:]
		b.stats.dropt++
	}
	b.verdicts = append(b.verdicts, v)
	b.poke()
}

// ask takes the permit for a call in hand, if nobody else is faster. The store is asked beside the call: what comes too late for
// this one is the next one's.
func (b *Breaker) ask(ctx context.Context, v *view) (Permit, error) {
	answer, gone := make(chan *trial), make(chan struct{})
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return Permit{}, v.rejected
	}
	b.stats.asked++
	b.running.Go(func() {
		t := b.acquire(v)
		select {
		case answer <- t:
		case <-gone:
			if t != nil {
				b.kept.Store(t)
			}
		}
	})
	b.mu.Unlock()
	enough := time.NewTimer(b.set.wait)
	defer enough.Stop()
	select {
	case t := <-answer:
		if t != nil {
			return b.begin(t), nil
		}
	case <-ctx.Done():
		close(gone)
		return Permit{}, ctx.Err()
	case <-enough.C:
		close(gone)
		return b.alone()
	}
	// Somebody else was faster, or the store is away: it is as if the call came now, but that it asks no more.
	switch v := b.view.Load(); {
	case v == nil || v.lets():
		return b.alone()
	case v.State == breaker.ForcedClosed:
		return Permit{}, nil
	default:
		return Permit{}, v.rejected
	}
}

func (b *Breaker) alone() (Permit, error) {
	p, err := b.local.Allow()
	return Permit{local: p}, err
}

// acquire asks the store for the permit, once; nil if somebody else has it, or if the store doesn't answer: then this caller parts.
func (b *Breaker) acquire(v *view) *trial {
	ctx, cancel := b.patience(v.link.ctx)
	defer cancel()
	token, asked := rand.Uint64()|1, b.now()
	next, ok := v.granted(&b.set, v.age(asked), b.c.Caller, token)
	if !ok {
		v.asking.Store(false)
		return nil
	}
	s, swapped, err := b.c.Store.Swap(ctx, b.c.Key, v.version, next.Bytes())
	b.shy.Store(err != nil)
	if err != nil {
		b.mu.Lock()
		b.lost = token // perhaps it was granted: whoever sees it gives it back
		b.mu.Unlock()
		b.part(v.link, b.slow(ctx, err))
		return nil
	}
	if r, err := Read(s); err == nil && r == next {
		swapped = true // a client that asks again when an answer is lost is told that somebody was faster: itself
	}
	var t *trial
	if swapped {
		t = &trial{b: b, fence: next.fence(), until: asked + int64(b.set.lease)}
		b.mu.Lock()
		b.stats.won++
		b.mu.Unlock()
	}
	if err := b.take(v.link, s); err != nil {
		b.part(v.link, err)
	}
	if b.view.Load() == v {
		v.asking.Store(false)
	}
	return t
}

var errSlow = errors.New("the store hasn't answered in time")

// slow says of an error that the time was ours.
func (b *Breaker) slow(ctx context.Context, err error) error {
	if context.Cause(ctx) == errSlow {
		return fmt.Errorf("%w: %w", errSlow, err)
	}
	return err
}
