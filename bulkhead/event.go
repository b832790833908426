package bulkhead

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Kind names what happened.
type Kind string

// The kinds of event.
const (
	Filled    Kind = "filled"    // a call was turned away, the first since there was room for all
	Relieved  Kind = "relieved"  // none was turned away for a while
	Resized   Kind = "resized"   // the limit has moved by a fifth or more since the last such event
	Reclaimed Kind = "reclaimed" // leases ended of slots that nobody has released
)

// Event is one thing that happened. Events are told in order.
type Event struct {
	Name     string
	At       time.Time
	Kind     Kind
	Limit    int
	InFlight int
	Rate     float64       // λ, calls a second; 0: not known yet
	Latency  time.Duration // W; 0: not known yet
	Was      int           // of Resized: the limit of the last one
	Slots    int           // of Reclaimed: how many
	Refused  uint64        // of Relieved: how many were turned away or gave up since the last one
	Missed   int           // older events that were dropped, since OnEvent was slow
}

// String tells it in a sentence.
func (e Event) String() string {
	s := fmt.Sprintf("bulkhead %q %s: ", e.Name, e.Kind)
	switch e.Kind {
	case Resized:
		s += fmt.Sprintf("limit %d, was %d: %.3g/s of %v", e.Limit, e.Was, e.Rate, e.Latency)
	case Reclaimed:
		s += fmt.Sprintf("%d slots that weren't released by the end of their lease: is an answer's body not closed?", e.Slots)
	case Relieved:
		s += fmt.Sprintf("%d calls were turned away", e.Refused)
	default:
		s += fmt.Sprintf("%d of %d calls in flight", e.InFlight, e.Limit)
	}
	return s
}

// mostNews is how many events wait for an OnEvent that is slow. Older ones are dropped then.
const mostNews = 64

// news is what is to be told.
type news struct {
	any     atomic.Bool
	lock    sync.Mutex
	telling bool // somebody delivers
	missed  int
	events  []Event
}

// note keeps an event for whoever delivers next. Who is told is a stranger: that happens where nothing is held, so that
// he may do what he likes, even end the goroutine.
func (b *Bulkhead) note(e Event) {
	if b.set.OnEvent == nil {
		return
	}
	n := &b.news
	n.lock.Lock()
	defer n.lock.Unlock()
	e.Name, e.At = b.set.Name, time.Now()
	e.Limit, e.InFlight = int(b.limit.Load()), int(b.state.Load()&flyMask)
	e.Rate, e.Latency = math.Float64frombits(b.rate.Load()), time.Duration(b.took.Load())
	if len(n.events) == mostNews {
		n.events = append(n.events[:0], n.events[1:]...)
		n.missed++
	}
	n.events = append(n.events, e)
	n.any.Store(true)
}

// deliver tells what has happened, unless somebody is at it: who delivers goes on until nothing is left, so that the order
// is kept and OnEvent may call the bulkhead.
func (b *Bulkhead) deliver() {
	n := &b.news
	if !n.any.Load() {
		return
	}
	n.lock.Lock()
	if n.telling {
		n.lock.Unlock()
		return
	}
	n.telling = true
	told := true
	defer func() {
		if !told { // OnEvent ended its goroutine
			n.lock.Lock()
		}
		n.telling = false
		n.lock.Unlock()
	}()
	for len(n.events) > 0 {
		e := n.events[0]
		e.Missed = n.missed
		n.events, n.missed = n.events[1:], 0
		n.lock.Unlock()
		told = false
		b.tell(e)
		n.lock.Lock()
		told = true
	}
	n.events = nil
	n.any.Store(false)
}

// tell calls OnEvent. Its panic is its own: the call that happened to pass is innocent.
func (b *Bulkhead) tell(e Event) {
	defer func() { _ = recover() }()
	b.set.OnEvent(e)
}
