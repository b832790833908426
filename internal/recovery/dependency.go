package recovery

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrDown and ErrDied are what callers hear: nobody is there, and who was there ended with the call in it.
var (
	ErrDown = errors.New("the dependency is down")
	ErrDied = errors.New("the dependency died with this call in it")
)

// Dependency is what the callers need. It judges by its own count of the calls in it, never by how long they take: a
// busy machine doesn't push it over.
//
//	warm ──Break──▶ down ──Mend──▶ cold ──an answer──▶ warming ──enough of them──▶ warm
//	                 ▲ │             │                    │
//	                 │ └──restart────┼──────▶ cold        │
//	                 └── choking ◀───┴── too many at once ┘
type Dependency struct {
	mu     sync.Mutex
	life   *life // nil while it is down
	broken bool  // it stays down until it is mended
	tally  Tally
	timers []*time.Timer
	closed bool
}

// Tally is what a dependency has seen since it was mended.
type Tally struct {
	Probes   int // calls that came before its first answer
	Parallel int // the most of them that were in it at once
	Warming  int // the most calls that were in it at once between its first answer and being warm
	Relapses int // times that too many at once pushed it over
}

// life is one run of it, from a start to an end.
type life struct {
	in       int // calls in it
	answered int
	choking  bool          // it answers nobody any more
	died     chan struct{} // closed with its end
}

func newLife(answered int) *life { return &life{answered: answered, died: make(chan struct{})} }

// bears is how many calls at once it stands. After nine answers that is all the callers, and it is warm.
func (l *life) bears() int { return AtOnce * (1 + l.answered) }

func (l *life) warm() bool { return l.bears() >= Callers }

// NewDependency makes one that is warm. Close it.
func NewDependency() *Dependency { return &Dependency{life: newLife(Callers / AtOnce)} }

// Call is one call of it.
func (d *Dependency) Call(ctx context.Context) error {
	l, work, err := d.enter()
	if err != nil {
		return err
	}
	for ; work > 0; work -= step {
		if err := d.stay(ctx, l, time.After(min(work, step))); err != nil {
			return err
		}
	}
	if d.answer(l) {
		return nil
	}
	return d.stay(ctx, l, nil)
}

// step is how much work is done at a time. Work that were one long wait would be done at once when a busy machine has stood still
// for as long, before any other call could come.
const step = 25 * time.Millisecond

// stay is in it until then, unless it dies or the call is given up.
func (d *Dependency) stay(ctx context.Context, l *life, until <-chan time.Time) error {
	select {
	case <-until:
		return nil
	case <-l.died:
		return ErrDied
	case <-ctx.Done():
		return d.leave(ctx, l)
	}
}

func (d *Dependency) enter() (*life, time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.life
	if l == nil {
		return nil, 0, ErrDown
	}
	l.in++
	if l.warm() {
		return l, Work, nil
	}
	if l.answered > 0 {
		d.tally.Warming = max(d.tally.Warming, l.in)
	} else {
		d.tally.Probes++
		d.tally.Parallel = max(d.tally.Parallel, l.in)
	}
	if !l.choking && l.in > l.bears() {
		l.choking = true
		d.tally.Relapses++
		d.after(Chokes, func() { d.die(l) })
	}
	if l.answered > 0 {
		return l, Work, nil
	}
	return l, ColdWork, nil
}

// answer ends a call well, unless nobody is answered any more.
func (d *Dependency) answer(l *life) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life != l || l.choking {
		return false
	}
	l.in--
	l.answered++
	return true
}

func (d *Dependency) leave(ctx context.Context, l *life) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.in--
	return ctx.Err()
}

// die ends a life, with the lock not held.
func (d *Dependency) die(l *life) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life != l {
		return
	}
	close(l.died)
	d.life = nil
	d.after(Restarts, d.rise)
}

func (d *Dependency) rise() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life == nil && !d.broken {
		d.life = newLife(0)
	}
}

// after is time.AfterFunc until Close, with the lock held.
func (d *Dependency) after(length time.Duration, f func()) {
	if !d.closed {
		d.timers = append(d.timers, time.AfterFunc(length, f))
	}
}

// Break begins the outage: it is down, and what was in it has failed.
func (d *Dependency) Break() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life != nil {
		close(d.life.died)
	}
	d.life, d.broken = nil, true
}

// Mend ends the outage: from now on it could recover, if it were let.
func (d *Dependency) Mend() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life, d.broken, d.tally = newLife(0), false, Tally{}
	return time.Now()
}

// Tally returns what it has seen since it was mended.
func (d *Dependency) Tally() Tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tally
}

// Close stops its timers. Calls end with their contexts.
func (d *Dependency) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, t := range d.timers {
		t.Stop()
	}
}
