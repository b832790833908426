package solo

import (
	"context"
	"time"

	"github.com/eiderhq/eider"
)

// kept is how many events are kept.
const kept = 4096

// events is a ring of the last events. It is guarded by the registry's lock.
type events struct {
	ring []eider.Event // the event number n is at (n-1) % kept
	last uint64
	news chan struct{} // closed at the next event; nil while nobody waits
}

func (es *events) add(now time.Time, e eider.Event) {
	es.last++
	e.Seq, e.Time = es.last, now
	if len(es.ring) < kept {
		es.ring = append(es.ring, e)
	} else {
		es.ring[(e.Seq-1)%kept] = e
	}
	es.wake()
}

func (es *events) wake() {
	if es.news != nil {
		close(es.news)
		es.news = nil
	}
}

// since returns what is kept after a number; false if events after it were lost.
func (es *events) since(after uint64) ([]eider.Event, bool) {
	if after >= es.last {
		return nil, true
	}
	first := es.last - uint64(len(es.ring)) + 1
	whole := after+1 >= first
	from := max(after+1, first)
	out := make([]eider.Event, 0, es.last-from+1)
	for n := from; n <= es.last; n++ {
		out = append(out, es.ring[(n-1)%kept])
	}
	return out, whole
}

// Audit takes an event of a front. After the end of Run it is nobody's.
func (r *Registry) Audit(e eider.Event) {
	defer r.mu.Unlock()
	if now, err := r.enter("audit"); err == nil {
		r.events.add(now, e)
		r.kick()
	}
}

// Events returns the events after a number; false if some of them are no longer kept.
func (r *Registry) Events(after uint64) ([]eider.Event, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events.since(after)
}

// EventsWait returns once there is an event after a number.
func (r *Registry) EventsWait(ctx context.Context, after uint64) error {
	for {
		news, err := r.eventsAfter(after)
		if news == nil || err != nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// eventsAfter returns nil if there are events, else what is closed when there may be.
func (r *Registry) eventsAfter(after uint64) (<-chan struct{}, error) {
	defer r.mu.Unlock()
	if _, err := r.enter("wait for events"); err != nil {
		return nil, err
	}
	if r.events.last > after {
		return nil, nil
	}
	if r.events.news == nil {
		r.events.news = make(chan struct{})
	}
	return r.events.news, nil
}
