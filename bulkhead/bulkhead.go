package bulkhead

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Bulkhead bounds the calls of one dependency. Its methods may be called from any goroutine. It starts none, holds
// nothing but memory, and needs no Close.
type Bulkhead struct {
	// What every call writes: state packs, from the top, calls admitted since the beginning, whether somebody waits,
	// calls in flight. Admitting is one step, so there are never more than the limit.
	state atomic.Uint64
	went  atomic.Uint64 // healthy calls since the last look and the microseconds they took, packed
	// What every call reads.
	limit atomic.Int64
	due   atomic.Int64 // when somebody has to look after the leases and the limit

	ring  leases
	base  time.Time // times are nanoseconds since it, by the monotonic clock
	set   Config
	queue queue
	study study
	news  news
	marks sync.Pool // of *mark

	ill      atomic.Uint64 // calls that ended otherwise than healthy since the last look
	rate     atomic.Uint64 // λ, a float64's bits
	took     atomic.Int64  // W
	comeBack atomic.Int64  // how long a slot takes to become free
	turning  atomic.Bool   // calls are being turned away, and Filled was told
	full     atomic.Pointer[Full]
	tally    tally
}

const (
	flyBits   = 21 // more than mostAtOnce
	flyMask   = 1<<flyBits - 1
	oneFlying = 1
	someWait  = 1 << flyBits
	comeShift = flyBits + 1
	comeMask  = 1<<(64-comeShift) - 1
	oneCome   = 1 << comeShift

	wentBits = 20 // a million between two looks
	wentMask = 1<<wentBits - 1
	oneWent  = 1
)

// tally is what has happened since the beginning.
type tally struct{ refused, gaveUp, reclaimed, late, twice atomic.Uint64 }

// New makes a bulkhead. What [Config.Validate] would complain of is bent to the nearest that can be.
func New(c Config) *Bulkhead {
	c = c.settle()
	b := &Bulkhead{set: c, base: time.Now()}
	b.ring.width = int64(c.Lease-1)/(cells-1) + 1
	b.study.sizer = sizer{least: float64(c.Min), most: float64(c.Max), headroom: c.Headroom}
	limit := c.Limit
	if limit == 0 {
		limit = min(max(firstLimit, c.Min), c.Max)
	}
	b.limit.Store(int64(limit))
	b.study.limit, b.study.told = float64(limit), limit
	b.due.Store(min(int64(period), b.ring.width))
	b.comeBack.Store(int64(unmeasured))
	return b
}

// pass is what a call has to give back.
type pass struct {
	at    int64  // when it was admitted
	epoch uint64 // the word that it is counted in
}

// enter admits a call, or says why not.
func (b *Bulkhead) enter(ctx context.Context) (pass, error) {
	now := b.now()
	if now >= b.due.Load() {
		b.look(now)
		b.deliver()
	}
	for {
		s := b.state.Load()
		if s&someWait != 0 || int64(s&flyMask) >= b.limit.Load() {
			return b.wait(ctx, now)
		}
		if b.state.CompareAndSwap(s, s+oneCome+oneFlying) {
			return b.enroll(now), nil
		}
	}
}

// verdict is what a call says of its dependency.
type verdict uint8

const (
	ill verdict = iota // also of one that panicked: nobody says anything else
	healthy
	neither
)

// leave gives back what a call holds, unless that has been taken back.
func (b *Bulkhead) leave(p pass, v verdict) {
	if !b.ring.out(p.epoch) {
		b.tally.late.Add(1)
		return
	}
	switch v {
	case healthy:
		if took := b.now() - p.at; took <= int64(b.set.SlowLimit) {
			b.went.Add(oneWent + uint64(took+500)/1000<<wentBits)
			break
		}
		fallthrough
	case ill:
		b.ill.Add(1)
	}
	b.free(1)
	b.deliver()
}

// free makes room for n more.
func (b *Bulkhead) free(n uint64) {
	if s := b.state.Add(-n * oneFlying); s&someWait != 0 {
		b.serve()
	}
}

// enroll counts an admitted call in, in the word of now.
func (b *Bulkhead) enroll(now int64) pass {
	for {
		epoch, lapsed, ok := b.ring.in(now)
		if lapsed > 0 {
			b.reclaim(lapsed)
		}
		if ok {
			return pass{at: now, epoch: epoch}
		}
		now = b.now()
	}
}

// reclaim frees what the leases of n slots held.
func (b *Bulkhead) reclaim(n uint64) {
	b.tally.reclaimed.Add(n)
	b.ill.Add(n)
	b.free(n)
	b.note(Event{Kind: Reclaimed, Slots: int(n)})
}

// look takes back slots whose lease has ended, and learns from what has passed since the last look. One of those who
// come when it is due does it; the others go on.
func (b *Bulkhead) look(now int64) {
	due := b.due.Load()
	if now < due || !b.due.CompareAndSwap(due, min(now+int64(period), b.ring.next(now))) {
		return
	}
	b.sweep(now)
	b.learn(now)
}

func (b *Bulkhead) sweep(now int64) {
	if n := b.ring.sweep(now); n > 0 {
		b.reclaim(n)
	}
}

func (b *Bulkhead) now() int64 { return int64(time.Since(b.base)) }

// Admits tells whether a call would be admitted now, without taking room: for choosing among targets. It calls nobody, so
// it may be asked under a lock.
func (b *Bulkhead) Admits() bool {
	if b.roomy() {
		return true
	}
	b.sweep(b.now()) // who asks first and calls then must not be kept away by what is over
	return b.roomy()
}

func (b *Bulkhead) roomy() bool {
	s := b.state.Load()
	return s&someWait == 0 && int64(s&flyMask) < b.limit.Load()
}

// Do makes the call if there is room, and returns its error, or a [*Full]. A call that returns no error within SlowLimit
// is a healthy one, whose time is learnt; one that its caller cancelled, or that another guard turned away, says nothing.
// However it ends, by a panic and by runtime.Goexit too, its room is given back. A context that is done already isn't
// worth a call: its error is returned.
func (b *Bulkhead) Do(ctx context.Context, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := b.enter(ctx)
	if err != nil {
		return err
	}
	said := ill
	defer func() { b.leave(p, said) }()
	err = f(ctx)
	said = judge(ctx, err)
	return err
}

// Call is [Bulkhead.Do] for a call that returns a value.
func Call[T any](ctx context.Context, b *Bulkhead, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	p, err := b.enter(ctx)
	if err != nil {
		return none, err
	}
	said := ill
	defer func() { b.leave(p, said) }()
	v, err := f(ctx)
	said = judge(ctx, err)
	return v, err
}

func judge(ctx context.Context, err error) verdict {
	if err == nil {
		return healthy
	}
	var r interface{ Rejection() bool }
	if ctx.Err() == context.Canceled || errors.As(err, &r) && r.Rejection() {
		return neither
	}
	return ill
}

// Slot is the room for one call, for those who can't say with a function where it ends: an answer's body is read
// elsewhere. It is a value: keep it, pass it on. The zero Slot holds nothing.
type Slot struct {
	b    *Bulkhead
	mark *mark
	turn uint64
	pass
}

// mark tells whether a slot was released already, of whichever copy: a slot's turn is the mark's until then. Marks are
// used again, with the next turn.
type mark struct{ turn atomic.Uint64 }

// Acquire takes room for a call, waits for it as [Config] allows and ctx lasts, or returns a [*Full]. It allocates
// nothing unless it waits.
func (b *Bulkhead) Acquire(ctx context.Context) (Slot, error) {
	p, err := b.enter(ctx)
	if err != nil {
		return Slot{}, err
	}
	m, _ := b.marks.Get().(*mark)
	if m == nil {
		m = new(mark)
	}
	return Slot{b: b, mark: m, turn: m.turn.Load(), pass: p}, nil
}

// Release gives the room back. A healthy call is one that came back by itself, and well: unless that took longer than
// SlowLimit, how long it took is learnt. Every way out must come here, or to Forget, once; a second time, by any copy, does
// nothing, and nor does one after the lease.
func (s Slot) Release(well bool) {
	if well {
		s.settle(healthy)
	} else {
		s.settle(ill)
	}
}

// Forget gives the room back of a call that says nothing of the dependency: its caller cancelled it, another one was
// quicker, or it wasn't made after all.
func (s Slot) Forget() { s.settle(neither) }

func (s Slot) settle(v verdict) {
	if s.b == nil {
		return
	}
	if !s.mark.turn.CompareAndSwap(s.turn, s.turn+1) {
		s.b.tally.twice.Add(1)
		return
	}
	s.b.marks.Put(s.mark)
	s.b.leave(s.pass, v)
}
