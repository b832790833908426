package ledger

import "github.com/eiderhq/eider"

// become makes a record what is known of its key; whether it may is decided by the caller. sess is where
// it is attached here, nil when another node wrote it.
func (t *Table) become(e *entry, rec eider.Record, owner string, sess *session) {
	another := e.rec.Status != eider.StatusUnknown && !e.rec.Incarnation.Is(rec.Incarnation)
	wasLive := e.live()
	if e.sess != nil && e.sess != sess {
		t.takeAway(e, &rec)
	}
	rec, same := t.words.repack(rec, e.rec, e.svc.name)
	stays := same && wasLive && rec.Status.Live()
	t.release(e)
	if wasLive && !stays {
		t.moveOut(e)
	}
	t.unsettle(e)
	if another {
		if wasLive && e.proc != nil && (sess == nil || sess.proc != e.proc) {
			e.proc.unknown++ // superseded, which says nothing of how its process fares
		}
		t.finishAll(e, eider.Dead)
		e.supersede()
		e.reachable, e.refused, e.doubted = false, false, 0
		e.secret = Secret{}
	} else if sess != nil {
		sess.proc.revive(e.rec.Status)
	}
	doubt := e.suspicion & eider.Wedged // a new stream is no completion
	if another || sess == nil {
		t.idle(e)
		doubt = 0
	}
	before, home := e.proc, e.home
	e.rec, e.suspicion, e.lost = rec, doubt, false
	if e.hold = nil; t.holds[rec.Key].held() {
		e.hold = t.holds[rec.Key]
	}
	e.owned, e.owner, e.proc, e.home = sess != nil, owner, nil, 0
	if sess != nil {
		e.refused, e.doubted, e.dialed = false, 0, 0
		sess.add(e)
		e.proc = sess.proc
	} else if !another && rec.Status == eider.Left {
		e.home = home // its last words may still come
	}
	switch live := e.live(); {
	case live && !wasLive:
		t.enlist(e)
	case !live:
		t.entomb(e, wasLive)
	}
	if e.live() && !stays {
		t.moveIn(e)
	}
	t.settle(e)
	t.note(e)
	t.reconsider(e)
	if e.hold != nil {
		e.hold.look(t, e)
	}
	t.ended(before)
	t.part(before)
}

// takeAway decides when a session's process hears that an instance is no longer on it. One that moved, with
// a higher attachment, knows; but if it still beats here after a while, it has come back without a word.
// One that lost its key, or whose attach elsewhere was an earlier one that came late and got a higher
// number, believes itself listed, and must hear at its next beat.
func (t *Table) takeAway(e *entry, rec *eider.Record) {
	at := t.clock
	if e.rec.Incarnation.Is(rec.Incarnation) && rec.Attachment > e.rec.Attachment {
		at += t.cfg.SuspectAfter
	}
	e.sess.attachAnew(at)
}

// release takes an entry out of what holds those that may fall silent: its session, the alarms, the overdue.
func (t *Table) release(e *entry) {
	if !e.live() {
		return
	}
	t.unkeep(e)
	t.alarms.cancel(e)
	if sess := e.sess; sess != nil {
		e.beat = sess.beat
		sess.drop(e)
	}
}

// enlist lists a new key, or one that was gone.
func (t *Table) enlist(e *entry) {
	if e.svc.gone[e.rec.ID] == e {
		t.tombs.remove(e)
		delete(e.svc.gone, e.rec.ID)
		t.unlapse(e)
	}
	e.svc.list(e)
	t.live++
	t.use(e.svc)
}

// revive undoes what the end of an instance has told of its process.
func (p *process) revive(ending eider.Status) {
	if p == nil {
		return
	}
	switch ending {
	case eider.Dead:
		p.ended = max(p.ended-1, 0)
	case eider.Lapsed:
		p.unknown = max(p.unknown-1, 0)
	}
}

// end writes how an instance that is attached here has ended.
func (t *Table) end(e *entry, status eider.Status, kind eider.EventKind, why string) {
	p := e.proc
	if e.sess != nil && status != eider.Left {
		e.sess.attachAnew(t.clock)
	}
	t.release(e)
	t.moveOut(e)
	e.rec.Version++
	e.rec.Status = status
	e.suspicion = 0
	t.settle(e)
	t.tell(kind, e, why)
	t.changed(e)
	t.note(e)
	t.entomb(e, true)
	t.finishAll(e, status)
	t.reconsider(e)
	if e.hold != nil {
		e.hold.look(t, e)
	}
	t.ended(p)
	t.part(p)
}

// finishAll ends the drains of an instance that has ended.
func (t *Table) finishAll(e *entry, status eider.Status) {
	t.finish(departureOf(&e.rec), status)
	if e.hold != nil {
		t.finish(departureOf(&e.rec).of(e.hold.count), status)
	}
}

// entomb keeps what is left of a gone instance, which is counted already; the oldest make room.
func (t *Table) entomb(e *entry, wasLive bool) {
	t.idle(e)
	svc := e.svc
	if wasLive {
		delete(svc.live, e.rec.ID)
		svc.stale = true
		t.live--
		t.use(svc)
	}
	if svc.gone[e.rec.ID] == e {
		t.tombs.remove(e)
		delete(svc.gone, e.rec.ID)
	}
	e.rec = stub(e.rec)
	e.proc, e.counted, e.endedAt = nil, tally{}, t.clock
	if svc.gone == nil {
		svc.gone = map[string]*entry{}
	}
	svc.gone[e.rec.ID] = e
	t.tombs.push(e)
	svc.recent = append(svc.recent, e)
	if len(svc.recent) >= 2*recentGone {
		svc.recent = append(svc.recent[:0], svc.recent[len(svc.recent)-recentGone:]...)
		clear(svc.recent[recentGone:cap(svc.recent)])
	}
	for t.tombs.length > t.cfg.MaxTombstones {
		t.dropTomb(t.tombs.first)
	}
}

func (t *Table) dropTomb(e *entry) {
	t.note(e)
	t.tombs.remove(e)
	t.unlapse(e)
	delete(e.svc.gone, e.rec.ID)
	t.sweep(e.svc)
}

// forget lets go of what has been kept for its time.
func (t *Table) forget() {
	for n := 0; n < lookWork && !t.tombs.empty() && t.tombs.first.endedAt+t.cfg.Retention <= t.clock; n++ {
		t.dropTomb(t.tombs.first)
	}
	for len(t.lapses) > 0 && t.lapses[0].at+t.cfg.Lease <= t.clock {
		if l := t.lapses[0]; l.e.lapse == l.at {
			t.unlapse(l.e)
		}
		t.lapses = t.lapses[1:]
	}
	t.forgetRefusals()
	t.forgetPeers()
}

// moveIn and moveOut keep who is at which address.
func (t *Table) moveIn(e *entry) {
	first := t.addresses[e.rec.Address]
	if first != nil {
		first.ahead = e
		delete(t.addresses, e.rec.Address) // a key's string belongs to the entry that it leads to
	}
	e.ahead, e.after = nil, first
	t.addresses[e.rec.Address] = e
}

func (t *Table) moveOut(e *entry) {
	if e.after != nil {
		e.after.ahead = e.ahead
	}
	if e.ahead != nil {
		e.ahead.after = e.after
	} else {
		delete(t.addresses, e.rec.Address)
		if e.after != nil {
			t.addresses[e.after.rec.Address] = e.after
		}
	}
	e.ahead, e.after = nil, nil
}
