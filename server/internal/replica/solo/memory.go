package solo

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/disk"
	"github.com/eiderhq/eider/server/internal/ledger"
)

const (
	saveEvery   = 50 * time.Millisecond // changes this close travel to the disk together; a crash forgets them
	saveAtOnce  = 256                   // pieces that are read under one hold of the lock
	mostPending = 1 << 18               // changed pieces by name; beyond it all are looked at
)

// memory is what hands the table's changes to the disk. The registry's lock guards the names of what has changed and
// how it went; the rest is the one goroutine's that writes. Only names wait: what is kept is asked of the table
// when it is written, so the newest wins, and a disk that hangs holds up nobody.
type memory struct {
	store *disk.Store // nil when nothing is kept
	wake  chan struct{}
	stop  chan struct{}

	pending []ledger.Trace // some perhaps twice: the second time nothing is written
	all     bool           // everything is to be looked at
	stats   disk.Stats
	failing error // why nothing is written; nil while it is
}

// DiskStats tell how a node's memory fares.
type DiskStats struct {
	disk.Stats
	Failing bool // what the node learns isn't kept
}

// Disk tells how the node's memory fares; false if it keeps nothing.
func (r *Registry) Disk() (DiskStats, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return DiskStats{r.memory.stats, r.memory.failing != nil}, r.memory.store != nil
}

// open reads what the run before has kept.
func (r *Registry) open() (found disk.Found, err error) {
	if r.cfg.Data == "" {
		return found, nil
	}
	store, found, err := disk.Open(r.cfg.Data)
	if err != nil {
		kind := eider.Unavailable
		switch {
		case errors.Is(err, disk.ErrLocked):
			kind = eider.Conflict
		case errors.Is(err, disk.ErrFolder):
			kind = eider.Invalid
		}
		return found, &eider.Error{Op: "open data", Kind: kind, Err: err}
	}
	for _, note := range found.Notes {
		r.cfg.Logger.Warn("eider: memory: " + note)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory = memory{store: store, wake: make(chan struct{}, 1), stop: make(chan struct{}), all: true}
	r.memory.signal()
	return found, nil
}

// restore tells the table what was found.
func (r *Registry) restore(now time.Time, found *disk.Found) {
	m := ledger.Memory{Written: found.Written, Closed: found.Closed}
	strange := 0
	for key, value := range found.Pairs {
		if !recall(&m, key, []byte(value)) {
			strange++
		}
	}
	if strange > 0 {
		m.Closed = false // one of them may have been a caller
		r.cfg.Logger.Warn(fmt.Sprintf("eider: memory: %d of %d pieces can't be read by this version, and are left out", strange, len(found.Pairs)))
	}
	r.apply(now, r.table.Restore(now, m))
}

// recall adds a piece to a memory; false if this version can't read it.
func recall(m *ledger.Memory, key string, value []byte) bool {
	t, ok := traceOf(key)
	switch {
	case !ok:
	case t.ID != "":
		var k ledger.Kept
		if k, ok = decodeInstance(t, value); ok {
			m.Instances = append(m.Instances, k)
		}
	case t.Held != "":
		var mark ledger.Mark
		if mark, ok = decodeMark(t, value); ok {
			m.Marks = append(m.Marks, mark)
		}
	case t.Caller != "":
		var c eider.Caller
		if c, ok = decodeCaller(t, value); ok {
			m.Callers = append(m.Callers, c)
		}
	default:
		m.Before, ok = decodeBefore(value)
	}
	return ok
}

// note takes down what has changed, under the lock.
func (m *memory) note(traces []ledger.Trace) {
	if m.all || m.store == nil {
		return
	}
	if len(m.pending) == 0 && len(traces) > 0 {
		m.signal()
	}
	m.pending = append(m.pending, traces...)
	if len(m.pending) > mostPending { // the disk hangs
		m.all, m.pending = true, nil
	}
}

func (m *memory) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// keep writes until it is told to stop, and then the rest.
func (r *Registry) keep() {
	m := &r.memory
	timer := time.NewTimer(0)
	defer timer.Stop()
	for stopped := false; !stopped; {
		select {
		case <-m.stop:
			stopped = true
		case <-m.wake:
			timer.Reset(saveEvery)
			continue
		case <-timer.C:
		}
		r.save()
		timer.Reset(max(0, time.Until(m.store.Due())))
	}
	if err := m.store.Close(time.Now()); err != nil {
		r.cfg.Logger.Error("eider: memory: the last of it can't be kept, so the next run waits for callers as after a crash", slog.Any("err", err))
	}
}

// save writes what has changed.
func (r *Registry) save() {
	changed, all := r.changed()
	if all {
		r.saveAll()
	}
	r.put(changed)
	r.saved(time.Now(), r.memory.store.Flush(time.Now()))
}

func (r *Registry) changed() (changed []ledger.Trace, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.memory
	changed, all = m.pending, m.all
	m.pending, m.all = nil, false
	return changed, all
}

// saveAll looks at everything, a service after the other. What changes meanwhile is noted, and comes again.
func (r *Registry) saveAll() {
	r.mu.Lock()
	names, some := r.table.Names(), append(r.table.HoldTraces(), ledger.Trace{})
	r.mu.Unlock()
	known := make(map[string]struct{})
	for {
		for _, t := range some {
			known[keyOf(t)] = struct{}{}
		}
		r.put(some)
		if len(names) == 0 {
			break
		}
		r.mu.Lock()
		some, names = r.table.Traces(names[0]), names[1:]
		r.mu.Unlock()
	}
	r.memory.store.Retain(func(key string) bool {
		_, ok := known[key]
		return ok
	})
}

// put hands pieces to the store as they now are.
func (r *Registry) put(traces []ledger.Trace) {
	pieces := make([]piece, 0, min(saveAtOnce, len(traces)))
	for len(traces) > 0 {
		some := traces[:min(saveAtOnce, len(traces))]
		traces = traces[len(some):]
		pieces = r.pieces(some, pieces[:0])
		for i := range pieces {
			if err := pieces[i].put(r.memory.store); err != nil {
				r.cfg.Logger.Error("eider: memory: a piece can't be kept", slog.Any("err", err))
			}
		}
	}
}

// piece is one piece of the memory as it is now; gone if nothing is to be kept.
type piece struct {
	trace  ledger.Trace
	kept   ledger.Kept
	caller eider.Caller
	mark   ledger.Mark
	before time.Duration
	gone   bool
}

func (r *Registry) pieces(traces []ledger.Trace, out []piece) []piece {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range traces {
		p := piece{trace: t}
		var ok bool
		if t == (ledger.Trace{}) {
			p.before, ok = r.table.KeptBefore()
		} else if t.ID != "" {
			p.kept, ok = r.table.Kept(eider.Key{Service: t.Service, ID: t.ID})
		} else if t.Held != "" {
			p.mark, ok = r.table.KeptHold(eider.Key{Service: t.Service, ID: t.Held})
		} else {
			p.caller, ok = r.table.KeptCaller(t.Service, t.Caller)
		}
		p.gone = !ok
		out = append(out, p)
	}
	return out
}

func (p *piece) put(store *disk.Store) error {
	key := keyOf(p.trace)
	switch {
	case p.gone:
		store.Delete(key)
		return nil
	case p.trace == (ledger.Trace{}):
		return store.Put(key, encodeBefore(p.before))
	case p.trace.Caller != "":
		return store.Put(key, encodeCaller(&p.caller))
	}
	value, err := p.encode()
	if err != nil {
		return err
	}
	return store.Put(key, value)
}

func (p *piece) encode() ([]byte, error) {
	if p.trace.Held != "" {
		return encodeMark(&p.mark)
	}
	return encodeInstance(&p.kept)
}

// saved tells once when writing begins to fail, and once when it goes again.
func (r *Registry) saved(now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.memory
	was := m.failing
	m.failing, m.stats = err, m.store.Stats()
	switch {
	case err != nil && was == nil:
		r.events.add(now, eider.Event{Kind: eider.EventNotKept, Detail: m.sentence()})
	case err == nil && was != nil:
		r.events.add(now, eider.Event{Kind: eider.EventKept, Detail: "all that this node knows is on disk again"})
	default:
		return
	}
	r.kick()
}

// sentence says what a failure means.
func (m *memory) sentence() string {
	since := "nothing that this node has learned"
	if !m.stats.Written.IsZero() {
		since += " since " + m.stats.Written.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s is on disk (%v): it serves on, and a restart would forget that; make room, or make the folder writable", since, m.failing)
}
