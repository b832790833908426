package solo

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/replica"
)

// progressEvery is the least time between two notices of a drain's progress, but for the barrier.
const progressEvery = 100 * time.Millisecond

// attachment is one process' stream for its instances.
type attachment struct {
	r       *Registry
	session ledger.Session
	wake    chan struct{}

	// What follows is guarded by r.mu.
	err   error // why the stream has ended; nil while it lives
	owned map[eider.Key]*owned
	news  []*owned // those with something to tell, each once, in the order in which it came up
}

// owned is an instance on the stream, and what its process hasn't been told of it. Only that there is
// news is kept: the news itself is asked of the table when it is fetched, so the newest wins.
type owned struct {
	by        *attachment
	departure eider.Departure
	drain     bool // its drain's progress changed
	urgent    bool // … and must not wait
	bound     bool // its bound changed
	queued    bool
	told      time.Time // when its drain's progress was last told
}

// Attach opens a process' stream for its instances.
func (r *Registry) Attach(p replica.Peer) (replica.Attachment, error) {
	defer r.mu.Unlock()
	now, err := r.enter("attach " + p.Caller)
	if err != nil {
		return nil, err
	}
	r.streams++
	a := &attachment{r: r, session: ledger.Session(r.streams), wake: make(chan struct{}, 1),
		owned: make(map[eider.Key]*owned)}
	r.sessions[a.session] = a
	r.apply(now, r.table.Attach(now, a.session, ledger.Peer{Caller: p.Caller, Identity: p.Identity, Addr: p.Addr}))
	return a, nil
}

// enter locks for a call on the stream. The caller unlocks, also after an error.
func (a *attachment) enter(op string) (time.Time, error) {
	now, err := a.r.enter(op)
	if err == nil {
		err = a.err
	}
	return now, err
}

func (a *attachment) Register(rec eider.Record, lease time.Duration, secret [16]byte) (replica.Grant, error) {
	r, proof := a.r, ledger.Proof{Shown: secret}
	if secret == (ledger.Secret{}) {
		_, _ = rand.Read(proof.Fresh[:]) // it never fails
	}
	defer r.mu.Unlock()
	now, err := a.enter("register " + rec.Key.String())
	if err != nil {
		return replica.Grant{}, err
	}
	grant, effects, err := r.table.Register(now, a.session, rec, lease, proof)
	if err == nil {
		a.own(grant)
	}
	r.apply(now, effects)
	return replica.Grant(grant), err
}

// own makes the stream the one that hears of the instance.
func (a *attachment) own(g ledger.Grant) {
	s := a.r.services.get(g.Record.Service)
	if before := s.owned[g.Record.ID]; before != nil {
		before.by.disown(before)
	}
	if len(s.owned) == 0 {
		s.bound, s.seen = g.Bound, g.Bound
	}
	o := &owned{by: a, departure: g.Record.Departure()}
	s.owned[g.Record.ID], a.owned[g.Record.Key] = o, o
}

func (a *attachment) disown(o *owned) {
	s := a.r.services.get(o.departure.Service)
	if s.owned[o.departure.ID] == o {
		delete(s.owned, o.departure.ID)
	}
	delete(a.owned, o.departure.Key)
	if o.queued {
		a.news = slices.DeleteFunc(a.news, func(other *owned) bool { return other == o })
	}
}

// Beat renews the leases of the stream's instances, without an allocation.
func (a *attachment) Beat(work ...replica.Work) {
	r := a.r
	r.mu.Lock()
	if r.phase == running && a.err == nil {
		now := time.Now()
		if e := r.table.Beat(now, a.session); !nothing(&e) {
			r.apply(now, e)
		}
		for i := range work {
			if e := r.table.Work(now, a.session, work[i].Key, work[i].Done); !nothing(&e) {
				r.apply(now, e)
			}
		}
	}
	r.mu.Unlock()
}

func (a *attachment) SetStatus(key eider.Key, status eider.Status) error {
	defer a.r.mu.Unlock()
	now, err := a.enter("set status of " + key.String())
	if err != nil {
		return err
	}
	effects, err := a.r.table.SetStatus(now, a.session, key, status)
	a.r.apply(now, effects)
	return err
}

func (a *attachment) Leave(key eider.Key, unknown time.Duration) error {
	defer a.r.mu.Unlock()
	now, err := a.enter("leave " + key.String())
	if err != nil {
		return err
	}
	effects, err := a.r.table.Leave(now, a.session, key, unknown)
	a.r.apply(now, effects)
	if o := a.owned[key]; o != nil && err == nil {
		o.drain, o.urgent = true, true // also when the leave was known: its process asks where it stands
		a.queue(o)
	}
	return err
}

func (a *attachment) Left(key eider.Key) error {
	defer a.r.mu.Unlock()
	now, err := a.enter("end " + key.String())
	if err != nil {
		return err
	}
	effects, err := a.r.table.Left(now, a.session, key)
	a.r.apply(now, effects)
	if o := a.owned[key]; o != nil && err == nil {
		a.disown(o)
	}
	return err
}

// End ends the stream, as its process did.
func (a *attachment) End(how replica.Ending) {
	r := a.r
	defer r.mu.Unlock()
	now, err := r.enter("end")
	if err != nil || r.sessions[a.session] != a {
		return
	}
	ending := ledger.Lost
	switch how {
	case replica.Moving:
		ending = ledger.Moving
	case replica.Stopping:
		ending = ledger.Stopping
	}
	a.end(eider.Errorf(eider.Closed, "attach", "the stream has ended"))
	delete(r.sessions, a.session)
	for _, o := range a.owned {
		o.queued = false
		a.disown(o)
	}
	r.apply(now, r.table.Detach(now, a.session, ending))
}

// end makes Next return err, under the lock. The first reason stays.
func (a *attachment) end(err error) {
	if a.err == nil {
		a.err, a.news = err, nil
		a.signal()
	}
}

func (a *attachment) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// queue notes, under the lock, that the stream has something to tell of an instance.
func (a *attachment) queue(o *owned) {
	if o.queued || a.err != nil {
		if o.urgent {
			a.signal()
		}
		return
	}
	o.queued = true
	a.news = append(a.news, o)
	a.signal()
}

// progress notes that a drain has moved on, under the lock. An instance isn't told of its being held: it stays.
func (r *Registry) progress(d eider.Departure, urgent bool) {
	s := r.services.known[d.Service]
	if s == nil || d.Hold != 0 {
		return
	}
	if o := s.owned[d.ID]; o != nil && o.departure.Incarnation.Is(d.Incarnation) {
		o.drain, o.urgent = true, o.urgent || urgent
		o.by.queue(o)
	}
}

// Next blocks until there is news of an instance on the stream.
func (a *attachment) Next(ctx context.Context) (replica.Notice, error) {
	for {
		notice, found, wait, err := a.fetch()
		if found || err != nil {
			return notice, err
		}
		if err := a.rest(ctx, wait); err != nil {
			return replica.Notice{}, err
		}
	}
}

// rest waits for news, and no longer than wait for news that has to wait; 0 is for ever.
func (a *attachment) rest(ctx context.Context, wait time.Duration) error {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-a.wake:
	case <-due:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// fetch takes the first news that is due, or says how long until there is some; 0 if there is none.
func (a *attachment) fetch() (n replica.Notice, found bool, wait time.Duration, err error) {
	r := a.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.err != nil {
		return n, false, 0, a.err
	}
	now := time.Now()
	for i := 0; i < len(a.news); i++ {
		o := a.news[i]
		left := progressEvery - now.Sub(o.told)
		if o.drain && (o.urgent || left <= 0) {
			o.drain, o.urgent, o.told = false, false, now
			n.Drain, found = r.table.Drain(o.departure)
		} else if o.bound {
			o.bound = false
			n.Key, n.Bound, found = o.departure.Key, r.services.get(o.departure.Service).bound, true
		}
		if !o.drain && !o.bound {
			o.queued = false
			a.news = slices.Delete(a.news, i, i+1)
			i--
		} else if wait == 0 || left < wait {
			wait = left
		}
		if found {
			return n, true, 0, nil
		}
	}
	return replica.Notice{}, false, wait, nil
}
