package solo

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
	"github.com/eiderhq/eider/server/internal/replica"
)

// look runs a read under the lock; before Run has started there is nothing to read.
func (r *Registry) look(read func(now time.Time, t *ledger.Table)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table != nil {
		read(time.Now(), r.table)
	}
}

// Node describes this node.
func (r *Registry) Node() eider.Node {
	n := eider.Node{Name: r.cfg.Node, Run: r.cfg.Run, Version: r.cfg.Version, Stance: "AP, one node"}
	r.look(func(now time.Time, t *ledger.Table) {
		counts := t.Counts()
		n.Since, n.Ready, n.Complete, n.Void = r.since, r.phase == running, r.complete, t.Void()
		n.Services, n.Instances, n.Callers, n.Holds = counts.Services, counts.Instances, counts.Callers, counts.Holds
		n.Bound = t.Bound("")
		if r.memory.failing != nil {
			n.Void = append(n.Void, r.memory.sentence())
		}
	})
	return n
}

// atALook is how many services are read under one lock: a node of many thousands must go on meanwhile.
const atALook = 256

// Services returns every service at a glance, ordered by name.
func (r *Registry) Services() (out []eider.Summary) {
	names := r.names()
	out = make([]eider.Summary, 0, len(names))
	for some := range slices.Chunk(names, atALook) {
		r.look(func(_ time.Time, t *ledger.Table) {
			for _, name := range some {
				if t.Knows(name) {
					out = append(out, r.summary(t, name))
				}
			}
		})
	}
	return out
}

// Glances walks over every service, ordered by name. Nothing is locked while the asker has one.
func (r *Registry) Glances() iter.Seq[replica.Glance] {
	return func(yield func(replica.Glance) bool) {
		some := make([]replica.Glance, 0, atALook)
		for names := range slices.Chunk(r.names(), atALook) {
			some = some[:0]
			r.look(func(_ time.Time, t *ledger.Table) {
				for _, name := range names {
					if steps, known := t.Steps(name); known {
						steps.Batch = window
						some = append(some, replica.Glance{Summary: r.summary(t, name), Timing: steps, Away: t.Away(name), Tripped: replica.Tripped(t.Tripped(name))})
					}
				}
			})
			for _, one := range some {
				if !yield(one) {
					return
				}
			}
		}
	}
}

// names returns those of all services, in order; they are sorted while the node goes on.
func (r *Registry) names() (names []string) {
	r.look(func(_ time.Time, t *ledger.Table) { names = t.Services() })
	slices.Sort(names)
	return names
}

// Summary returns one service at a glance; false as with View.
func (r *Registry) Summary(service string) (out eider.Summary, known bool) {
	r.look(func(_ time.Time, t *ledger.Table) {
		if known = t.Knows(service); known {
			out = r.summary(t, service)
		}
	})
	return out, known
}

func (r *Registry) summary(t *ledger.Table, service string) eider.Summary {
	s, number := t.Summary(service), r.number(service)
	s.Cursor = eider.Cursor{Run: r.cfg.Run, Number: number}
	s.Behind = t.Behind(service, number)
	return s
}

// Running counts the drains that run.
func (r *Registry) Running() (out replica.Running) {
	r.look(func(_ time.Time, t *ledger.Table) { out = replica.Running(t.Running()) })
	return out
}

// number returns a service's number, also if it has never changed.
func (r *Registry) number(service string) uint64 {
	if s := r.services.known[service]; s != nil {
		return s.number
	}
	return r.services.floor
}

// View returns a service as it is: at least what was published under its cursor. It is false if the
// service has neither an instance nor a caller, and none is remembered.
func (r *Registry) View(service string) (v *eider.View, known bool) {
	r.look(func(_ time.Time, t *ledger.Table) {
		if known = t.Knows(service); known {
			v = &eider.View{Service: service, Cursor: eider.Cursor{Run: r.cfg.Run, Number: r.number(service)}, Complete: r.complete}
			v.Instances, v.Gone = t.View(service)
		}
	})
	return v, known
}

// Callers returns who follows a service, "" means any, ordered by service and id.
func (r *Registry) Callers(service string) (out []eider.Caller) {
	r.look(func(_ time.Time, t *ledger.Table) {
		out = t.Callers(service)
		for i := range out {
			c := &out[i]
			if c.Kind == eider.UnknownCallers {
				continue // who reads no view isn't behind one
			}
			c.Cursor.Run = r.cfg.Run
			if number := r.number(c.Service); number > c.Cursor.Number {
				c.Behind = number - c.Cursor.Number
			}
		}
	})
	slices.SortFunc(out, func(a, b eider.Caller) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.ID, b.ID))
	})
	return out
}

// Breakers returns what callers' breakers say of the instances of a service, "" means any, ordered by service and id;
// and how many callers have a stream to tell by.
func (r *Registry) Breakers(service string) (out []eider.Breakers, callers int) {
	names := []string{service}
	if service == "" {
		names = r.names()
	}
	r.look(func(_ time.Time, t *ledger.Table) { callers = t.Reporting(service) })
	for some := range slices.Chunk(names, atALook) {
		r.look(func(_ time.Time, t *ledger.Table) {
			for _, name := range some {
				out = append(out, t.Breakers(name)...)
			}
		})
	}
	return out, callers
}

// Drains returns the departures of a service, "" means any, the newest first.
func (r *Registry) Drains(service string) (out []eider.Drain) {
	r.look(func(_ time.Time, t *ledger.Table) { out = t.Drains(service) })
	return out
}

// Timing returns what the windows of a service are derived from; false if nothing is known of it.
func (r *Registry) Timing(service string) (out eider.Timing, known bool) {
	r.look(func(_ time.Time, t *ledger.Table) { out, known = t.Timing(service) })
	out.Batch = window
	return out, known
}

// Postpone adds a retry-after that was handed out for a known instance to its lease.
func (r *Registry) Postpone(key eider.Key, secret [16]byte, by time.Duration) {
	defer r.mu.Unlock()
	if now, err := r.enter("postpone"); err == nil {
		r.apply(now, r.table.Extend(now, key, secret, by))
	}
}

// PostponeCaller adds a retry-after that was handed out to a known caller to its cap.
func (r *Registry) PostponeCaller(p replica.Peer, by time.Duration) {
	defer r.mu.Unlock()
	if now, err := r.enter("postpone"); err == nil {
		r.apply(now, r.table.ExtendCaller(now, ledger.Peer{Caller: p.Caller, Identity: p.Identity, Addr: p.Addr}, by))
	}
}
