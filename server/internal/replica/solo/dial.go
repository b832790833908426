package solo

import (
	"container/heap"
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/eiderhq/eider/server/internal/ledger"
)

const (
	dialTimeout = 250 * time.Millisecond // no answer within it is no answer
	dialQueue   = 1 << 16                // dials waiting in a lane; one beyond counts as not answered
)

// dialer holds the dials that the table asked for: evidence after the end of a stream in one lane,
// whether new addresses are reachable at all in the other, so that a mass start doesn't delay evidence.
// It is guarded by the registry's lock.
type dialer struct{ evidence, checks lane }

func newDialer() dialer {
	return dialer{
		evidence: lane{most: 64, limit: rate.NewLimiter(1000, 256)},
		checks:   lane{most: 16, limit: rate.NewLimiter(200, 64)},
	}
}

// lane is a queue by time with a bounded number of dials at once and in a second.
type lane struct {
	queue   dialHeap
	most    int
	running int
	limit   *rate.Limiter
	token   time.Time // when the limit has room again; zero if it has
}

func (d *dialer) lane(dial *ledger.Dial) *lane {
	if dial.Try > 0 {
		return &d.evidence
	}
	return &d.checks
}

// add queues a dial; false if there are too many.
func (d *dialer) add(now time.Time, dial ledger.Dial) bool {
	l := d.lane(&dial)
	if len(l.queue) >= dialQueue {
		return false
	}
	heap.Push(&l.queue, queuedDial{dial, now.Add(dial.After)})
	return true
}

// take returns the dials to begin now. Those that idle says are of no use any more are dropped.
func (d *dialer) take(now time.Time, idle func(*ledger.Dial) bool) []ledger.Dial {
	return d.checks.take(now, idle, d.evidence.take(now, idle, nil))
}

func (l *lane) take(now time.Time, idle func(*ledger.Dial) bool, out []ledger.Dial) []ledger.Dial {
	l.token = time.Time{}
	for l.running < l.most && len(l.queue) > 0 && !l.queue[0].due.After(now) {
		if idle(&l.queue[0].dial) {
			heap.Pop(&l.queue)
			continue
		}
		if !l.limit.AllowN(now, 1) {
			l.token = now.Add(time.Duration(float64(time.Second) / float64(l.limit.Limit())))
			break
		}
		out = append(out, heap.Pop(&l.queue).(queuedDial).dial)
		l.running++
	}
	return out
}

// next tells when a dial can begin; the zero time if none can before another ends, or is asked for.
func (d *dialer) next() time.Time {
	a, b := d.evidence.next(), d.checks.next()
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (l *lane) next() time.Time {
	if len(l.queue) == 0 || l.running >= l.most {
		return time.Time{}
	}
	if l.token.After(l.queue[0].due) {
		return l.token
	}
	return l.queue[0].due
}

// idle tells whether a dial would tell nothing new: its instance has attached again, or is gone.
func (r *Registry) idle(d *ledger.Dial) bool {
	in, ok := r.table.Instance(d.Departure.Key)
	return !ok || !in.Incarnation.Is(d.Departure.Incarnation) || in.Attachment != d.Attachment
}

// dial asks one address and tells the table.
func (r *Registry) dial(ctx context.Context, d ledger.Dial) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	err := r.cfg.Dial(ctx, d.Address)
	cancel()
	answer := ledger.NoAnswer
	switch {
	case err == nil:
		answer = ledger.Accepted
	case errors.Is(err, syscall.ECONNREFUSED):
		answer = ledger.Refused
	}
	defer r.mu.Unlock()
	now, err := r.enter("dial")
	r.dials.lane(&d).running--
	if err == nil {
		r.apply(now, r.table.Dialed(now, d, answer))
	}
}

func dialTCP(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// dialHeap is container/heap's: the dial that is due first is first.
type dialHeap []queuedDial

type queuedDial struct {
	dial ledger.Dial
	due  time.Time
}

func (h dialHeap) Len() int           { return len(h) }
func (h dialHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dialHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dialHeap) Push(x any)        { *h = append(*h, x.(queuedDial)) }
func (h *dialHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = queuedDial{}
	*h = (*h)[:last]
	return d
}
