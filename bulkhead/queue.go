package bulkhead

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"
)

// queue is who waits, in order. While it isn't empty the state says so: then nobody is admitted but from its front,
// and whoever frees a slot comes to serve it. Its lock is held for a few steps, never over a call.
type queue struct {
	sync.Mutex
	waiters list.List // of chan struct{}, closed when it is the waiter's turn; its call is counted in the state then
}

// wait is for a call that found no room.
func (b *Bulkhead) wait(ctx context.Context, now int64) (pass, error) {
	if b.set.Wait == 0 {
		b.tally.refused.Add(1)
		return pass{}, b.refuse(0, nil)
	}
	b.queue.Lock()
	most := orElse(b.set.MaxWaiting, int(b.limit.Load()))
	if b.queue.waiters.Len() >= most {
		b.queue.Unlock()
		b.tally.refused.Add(1)
		return pass{}, b.refuse(0, nil)
	}
	turn := make(chan struct{})
	place := b.queue.waiters.PushBack(turn)
	b.state.Or(someWait)
	b.serveLocked() // room may have come before the state said that somebody waits
	b.queue.Unlock()

	until := now + min(int64(b.set.Wait), math.MaxInt64-now)
	timer := time.NewTimer(time.Duration(min(until, b.ring.oldest(now)) - now))
	defer timer.Stop()
	for {
		select {
		case <-turn:
			return b.enroll(b.now()), nil
		case <-ctx.Done():
			return pass{}, b.giveUp(place, b.now()-now, ctx.Err())
		case <-timer.C:
		}
		at := b.now()
		b.sweep(at) // nobody else may come by. What there is to tell is told by who isn't in a queue
		if at >= until {
			if b.cancel(place) {
				b.tally.refused.Add(1)
				return pass{}, b.refuse(at-now, nil)
			}
			return b.enroll(at), nil // its turn came in time
		}
		timer.Reset(time.Duration(max(min(until, b.ring.oldest(at)), at+1) - at))
	}
}

// giveUp is for one whose context ended. If its turn came in the same moment, that is the next one's.
func (b *Bulkhead) giveUp(place *list.Element, waited int64, why error) error {
	if b.cancel(place) {
		b.tally.gaveUp.Add(1)
	} else {
		b.free(1) // it stays counted as admitted
	}
	return b.refuse(waited, why)
}

// cancel takes a waiter out of the queue. It fails if its turn has come.
func (b *Bulkhead) cancel(place *list.Element) bool {
	b.queue.Lock()
	defer b.queue.Unlock()
	select {
	case <-place.Value.(chan struct{}):
		return false
	default:
	}
	b.queue.waiters.Remove(place)
	b.serveLocked()
	return true
}

// serve admits from the front of the queue while there is room.
func (b *Bulkhead) serve() {
	b.queue.Lock()
	b.serveLocked()
	b.queue.Unlock()
}

func (b *Bulkhead) serveLocked() {
	for front := b.queue.waiters.Front(); front != nil; {
		s := b.state.Load()
		if int64(s&flyMask) >= b.limit.Load() {
			return
		}
		if b.state.CompareAndSwap(s, s+oneCome+oneFlying) {
			close(b.queue.waiters.Remove(front).(chan struct{}))
			front = b.queue.waiters.Front()
		}
	}
	b.state.And(^uint64(someWait))
}

func (b *Bulkhead) waiting() int {
	if b.state.Load()&someWait == 0 {
		return 0
	}
	b.queue.Lock()
	defer b.queue.Unlock()
	return b.queue.waiters.Len()
}
