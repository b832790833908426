package roster

import (
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// Letting go. An instance leaves because a view says DRAINING, or because it says so itself on an answer; or it is
// held, and stays. Either way it is let go of, and named for what it is let go of: see departures.
//
//	       leaves, is held                       an alternative                    no pick from before
//	picked ──────► leaving, and picked as the last one ──────► marked, not picked ─────────────────────► settled
//	                      ▲ "no alternative"                     │ waiting                                  │ connections
//	                      └───────the alternative is gone────────┘                                          ▼ closed
//	                                                                                         let go, acknowledged, for good
//
// For good is for this member: one that is UP and not held any more is another member, with connections of its own.
//
// In this order, and never another: the snapshot without it is published, then the mark is set, then
// the picks from before are waited for, then its connections are closed, then it is acknowledged. Who
// sees the mark picks again, and finds a snapshot without it.

// publish puts out a new snapshot and marks who isn't to be picked any more.
func (r *Roster) publish(now time.Duration) {
	if r.bearing || r.closed {
		return // apply will, with everybody it has; or nobody is picked at all
	}
	alternatives, _ := r.count()
	if alternatives == 0 {
		for i, m := range r.members {
			if m.marked && !m.settling {
				r.members[i] = m.unmarked(now)
			}
		}
	}
	r.snap.Store(r.build(now))
	if alternatives > 0 {
		for _, m := range r.members {
			if m.yields() && !m.marked && !r.hinted(m) {
				m.mark()
				m.markedAt = now
				if m.opened != 0 {
					r.judge(m)
				}
			}
		}
	}
	for _, m := range r.out {
		m.mark()
	}
	r.begun()
}

// unmarked makes the member of one that is marked, isn't let go of yet, and is the last one to call
// again. The mark itself is for good, so that no picker ever sees it vanish.
func (m *member) unmarked(now time.Duration) *member {
	again := newMember(m.in, now)
	again.left = m.left
	again.first, again.companion, again.born, again.since = m.first, m.companion, m.born, m.since
	again.absent = m.absent
	again.said.Store(m.said.Load())
	again.inherit(m)
	again.after(m, now)
	return again
}

// heardLeaving takes the word of an instance that it is leaving. It is final, as a leave is: a record
// that still says UP was written before it. Whoever has the incarnation now has to know.
func (r *Roster) heardLeaving(m *member) {
	if m.said.Swap(true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, ok := r.find(m.id); ok && now.nonce == m.nonce {
		now.said.Store(true)
		r.publish(r.now())
		r.wake()
		return
	}
	i := slices.IndexFunc(r.past, func(p past) bool { return p.nonce == m.nonce })
	if i < 0 {
		r.remember(past{nonce: m.nonce, renounced: true, said: true, letGo: true})
		return
	}
	r.past[i].said, r.past[i].renounced = true, true
}

// warming tells whether newcomers are being warmed up, and until when.
func (r *Roster) warming() (until time.Duration, ok bool) {
	s := r.snap.Load()
	if s == nil {
		return 0, false
	}
	for i := range s.tier {
		if end, warming := s.tier[i].Warming(); warming {
			until, ok = max(until, end), true
		}
	}
	return until, ok
}

// find returns the member that has an id now.
func (r *Roster) find(id string) (*member, bool) {
	i, ok := slices.BinarySearchFunc(r.members, id, func(m *member, id string) int { return strings.Compare(m.id, id) })
	if !ok {
		return nil, false
	}
	return r.members[i], true
}

// work is what the tender has to do outside the lock.
type work struct {
	out     []*member // companions to close
	settled []settled // to let go of
	doubts  []eider.Departure
	judged  []judged
	due     time.Duration // when to look again; 0 means not before somebody wakes it
}

type settled struct {
	m  *member
	in *eider.Instance
}

// look finds out what is to be done now.
func (r *Roster) look(now time.Duration) work {
	r.mu.Lock()
	defer r.mu.Unlock()
	var w work
	var dropped bool
	dropped, w.due = r.expire(now)
	warm, warming := r.warming()
	if dropped || warming && now >= warm {
		r.publish(now)
		warm, warming = r.warming()
	}
	if warming && now < warm {
		w.due = earlier(w.due, warm)
	}
	for _, m := range r.members {
		if m.before != nil {
			if done, _ := m.before.settled(now); done {
				m.before = nil
			}
		}
		if !m.marked || m.letGo {
			continue
		}
		if done, again := m.settled(now); done {
			m.settling = true
			w.settled = append(w.settled, settled{m, m.in})
		} else if again > 0 {
			w.due = earlier(w.due, again)
		}
	}
	if !r.bearing || r.closed { // else they aren't marked yet
		w.out, r.out = r.out, nil
	}
	w.doubts, r.doubts = r.doubts, nil
	w.judged = r.judgements()
	return w
}

// untended tells whether the tender would have something to do, now or at a time that it has to find out.
// Called under the lock.
func (r *Roster) untended() bool {
	if len(r.out)+len(r.doubts)+len(r.judged) > 0 || r.closed {
		return true
	}
	if _, warming := r.warming(); warming {
		return true
	}
	return slices.ContainsFunc(r.members, func(m *member) bool {
		return m.before != nil || m.marked && !m.letGo || m.in.Suspicion.Has(eider.Absent)
	})
}

// tend does what is due, tells the registry, and returns when to be called again at the latest.
func (r *Roster) tend(src source, now time.Duration) (due time.Duration) {
	w := r.look(now)
	for _, d := range w.doubts {
		src.Doubt(d)
	}
	tellVerdicts(src, w.judged)
	for _, s := range w.settled {
		if s.m.companion != nil {
			s.m.companion.LetGo()
		}
		if r.config.LetGo != nil {
			r.config.LetGo(*s.in)
		}
	}
	for _, m := range w.out {
		if m.companion != nil {
			m.companion.Close()
		}
	}
	r.acknowledge(src, w.settled)
	return w.due
}

// word is an acknowledgement.
type word struct {
	at                   eider.Cursor
	letGo, noAlternative []eider.Departure
}

func (a *word) equal(b *word) bool {
	return a.at == b.at && slices.Equal(a.letGo, b.letGo) && slices.Equal(a.noAlternative, b.noAlternative)
}

// acknowledge says what pickers have switched to, and whom they have let go of, if that is news. Feeder and
// tender both do: one at a time, so that the later word is the one that stays.
func (r *Roster) acknowledge(src source, done []settled) {
	r.saying.Lock()
	defer r.saying.Unlock()
	r.mu.Lock()
	for _, s := range done {
		s.m.letGo, s.m.before = true, nil
		r.counts.LetGo(r.now() - s.m.markedAt)
	}
	if r.news.View == nil || r.news.FromDisk || r.closed || r.bearing {
		r.mu.Unlock()
		return
	}
	next := word{at: r.news.View.Cursor}
	for _, m := range r.members {
		switch {
		case m.letGo:
			next.letGo = m.departures(next.letGo)
		case !m.marked && (m.in.Status == eider.Draining || m.in.Hold != nil):
			next.noAlternative = m.departures(next.noAlternative)
		}
	}
	news := !next.equal(&r.told)
	r.told = next
	r.mu.Unlock()
	if news {
		src.Ack(next.at, next.letGo, next.noAlternative)
	}
}
