package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// link is one stretch of being in touch with the store.
type link struct {
	ctx  context.Context
	fail context.CancelCauseFunc
}

// run keeps in touch with the store until Close: it watches, and tells. What fails parts this caller from the fleet; it
// joins again by itself, after a pause with jitter.
func (b *Breaker) run() {
	for pause := b.set.retry; ; {
		ctx, fail := context.WithCancelCause(b.ctx)
		l, began := &link{ctx, fail}, b.now()
		err := b.touch(l)
		if b.ctx.Err() != nil {
			fail(nil)
			b.leave()
			return
		}
		b.part(l, err)
		if b.now()-began > int64(10*b.set.retry) {
			pause = b.set.retry
		}
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}
		pause = min(2*pause, 10*b.set.retry)
	}
}

// touch joins, watches and tells, until something fails.
func (b *Breaker) touch(l *link) error {
	if err := b.join(l); err != nil {
		return err
	}
	var telling sync.WaitGroup
	telling.Go(func() { b.telling(l) })
	defer telling.Wait()
	defer l.fail(errClosed)
	for s, err := range b.c.Store.Watch(l.ctx, b.c.Key) {
		if err == nil {
			err = b.take(l, s)
		}
		if err != nil {
			if why := context.Cause(l.ctx); why != nil {
				return why // what ended the watch
			}
			return err
		}
	}
	return errors.New("the store's watch ended without a word")
}

// join makes the record if there is none, and goes by it.
func (b *Breaker) join(l *link) error {
	ctx, cancel := b.patience(l.ctx)
	defer cancel()
	s, err := b.c.Store.Tell(ctx, b.c.Key, b.c.Caller, nil, false)
	if err == nil && b.shy.Load() { // who had no answer to a swap wants to see that one is answered; whether it may write, this doesn't tell
		s, _, err = b.c.Store.Swap(ctx, b.c.Key, math.MaxUint64, nil)
		b.shy.Store(err != nil)
	}
	if err == nil && s.Version == 0 {
		s, _, err = b.c.Store.Swap(ctx, b.c.Key, 0, Record{Epoch: rand.Uint64() | 1}.Bytes())
	}
	if err != nil {
		return b.slow(ctx, err)
	}
	return b.take(l, s)
}

// patience is for what is told beside calls: nobody waits for it.
func (b *Breaker) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.set.patience(), errSlow)
}

// telling tells what there is to tell, at once if something is urgent.
func (b *Breaker) telling(l *link) {
	looked, told, early := b.now(), b.now(), rand.Float64()/4
	for {
		urgent := false
		select {
		case <-l.ctx.Done():
			return
		case <-b.wake:
			urgent = true
		case <-b.turned:
		case <-time.After(max(b.rest(looked, early), 1)): // never due already: the race detector of Go 1.26 dies of that in a bubble
		}
		b.mature()
		b.timeUp()
		if !urgent && b.rest(looked, early) > 0 {
			continue
		}
		looked, early = b.now(), rand.Float64()/4
		v := b.view.Load()
		if v == nil {
			return // a call that asked has parted
		}
		c := b.count(v)
		if !urgent && v.own && c.Calls == 0 && looked-told < int64(b.set.poll) {
			continue // nothing is to be told or heard soon
		}
		if err := b.tell(l, v, c); err != nil {
			if l.ctx.Err() == nil { // else what ended it is the reason, and is told
				b.part(l, err)
			}
			return
		}
		told = looked
	}
}

// rest is how long there is nothing to do: until it is time to look again, up to a quarter early, a ramp ends, or the trial has had
// its time.
func (b *Breaker) rest(looked int64, early float64) time.Duration {
	next := looked + int64(float64(b.set.report)*(1-early))
	if v := b.view.Load(); v != nil && v.State == breaker.Ramping {
		next = min(next, v.end)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trial != nil {
		next = min(next, b.trial.began+int64(b.set.trial))
	}
	return time.Duration(max(next-b.now(), 0))
}

// timeUp settles a trial that has had its time: it hangs, and that is a verdict too.
func (b *Breaker) timeUp() {
	b.mu.Lock()
	t := b.trial
	b.mu.Unlock()
	if t != nil && b.now()-t.began >= int64(b.set.trial) {
		t.settle(breaker.Failure)
	}
}

// tell hands verdicts and counts to the store, takes what it says, and opens the fleet's breaker if that is what they amount to.
func (b *Breaker) tell(l *link, v *view, c counted) error {
	ctx, cancel := b.patience(l.ctx)
	defer cancel()
	if err := b.settle(ctx, l); err != nil {
		return b.slow(ctx, err)
	}
	failing, slow := c.sees(&b.set)
	var count []byte
	if c.Calls > 0 {
		count = c.bytes()
	}
	s, err := b.c.Store.Tell(ctx, b.c.Key, b.c.Caller, count, failing || slow)
	if err != nil {
		return b.slow(ctx, err)
	}
	r, err := Read(s)
	if err != nil {
		return err
	}
	if r.Epoch == v.Epoch && r.Generation < v.Generation {
		return errRolledBack // what was there before it was asked is gone
	}
	if err := b.take(l, s); err != nil {
		return err
	}
	next, turns := r.judged(&b.set, s.Age, s.Counts)
	if !turns && r.State == breaker.Ramping && s.Age >= r.For {
		next, turns = r.next(breaker.Closed, 0), true // so that nobody who comes later takes the ramp for a new one
	}
	if !turns {
		return nil
	}
	if s, _, err = b.c.Store.Swap(ctx, b.c.Key, s.Version, next.Bytes()); err != nil {
		return b.slow(ctx, err)
	}
	return b.take(l, s)
}

// settle hands the verdicts over. One that comes too late isn't heard.
func (b *Breaker) settle(ctx context.Context, l *link) error {
	for {
		b.mu.Lock()
		if len(b.verdicts) == 0 {
			b.mu.Unlock()
			return nil
		}
		d := b.verdicts[0]
		b.mu.Unlock()
		done, err := b.settleOne(ctx, l, d)
		if err != nil {
			return err // it is kept: who joins again in time tells it then
		}
		if done {
			b.mu.Lock()
			if len(b.verdicts) > 0 && b.verdicts[0] == d {
				b.verdicts = b.verdicts[1:]
			}
			b.mu.Unlock()
		}
	}
}

// settleOne is done when the verdict has been taken or refused; it isn't if somebody else was faster with something else.
func (b *Breaker) settleOne(ctx context.Context, l *link, d verdict) (bool, error) {
	v, now := b.view.Load(), b.now()
	if v == nil || v.link != l {
		return false, errClosed
	}
	next, ok := v.settled(&b.set, v.age(now), d.fence, d.outcome)
	if !ok || now >= d.until {
		b.mu.Lock()
		b.stats.dropt++
		b.mu.Unlock()
		return true, nil
	}
	s, swapped, err := b.c.Store.Swap(ctx, b.c.Key, v.version, next.Bytes())
	if err != nil {
		return false, err
	}
	if err := b.take(l, s); err != nil {
		return false, err
	}
	if !swapped && b.view.Load() == v {
		return false, fmt.Errorf("%w: it has another version of generation %d than it told", errRolledBack, v.Generation)
	}
	return swapped, nil
}

// leave hands over what is left to tell, gives back a permit that no call has begun with, and takes this caller's counts away.
// What isn't heard grows old by itself.
func (b *Breaker) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), b.set.wait)
	defer cancel()
	v := b.view.Load()
	if v == nil {
		return
	}
	if t := b.kept.Swap(nil); t != nil {
		t.settle(breaker.Neutral)
	}
	b.mu.Lock()
	verdicts := b.verdicts
	b.mu.Unlock()
	for _, d := range verdicts {
		if next, ok := v.settled(&b.set, v.age(b.now()), d.fence, d.outcome); ok {
			_, _, _ = b.c.Store.Swap(ctx, b.c.Key, v.version, next.Bytes())
		}
	}
	_, _ = b.c.Store.Tell(ctx, b.c.Key, b.c.Caller, nil, false)
}
