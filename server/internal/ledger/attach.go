package ledger

import (
	"time"

	"github.com/eiderhq/eider"
)

// Attach opens a process' stream for its instances.
func (t *Table) Attach(now time.Time, s Session, p Peer) Effects {
	t.begin(now)
	if t.sessions[s] == nil {
		sess := &session{id: s, peer: p}
		sess.pulse = t.pulses.get(sess)
		sess.beat = t.clock
		if p.Caller != "" {
			sess.proc = t.claim(p)
			sess.peer.Caller = sess.proc.name
			sess.proc.sessions++
		}
		t.sessions[s] = sess.pulse
	}
	return t.take()
}

// Register lists an instance on a session, or attaches a known one again. rec.Incarnation.Number is the
// one that an earlier Grant gave, 0 before the first; rec.Attachment must rise with each attach. A status
// of DRAINING is for one that began to leave while it was attached elsewhere, or nowhere.
//
// Errors: Invalid for a record that breaks a bound; Conflict when another process holds the id and lives
// (D17, R15); Stale for an incarnation that was superseded or has left, for an attachment that isn't higher than
// the last (D16), and for a known incarnation whose secret isn't shown; Limited when the table is full. The table is then as it was.
func (t *Table) Register(now time.Time, s Session, rec eider.Record, lease time.Duration, p Proof) (Grant, Effects, error) {
	t.begin(now)
	grant, err := t.register(s, rec, lease, p)
	if err != nil {
		t.refuse(rec, err)
	}
	return grant, t.take(), err
}

func (t *Table) register(s Session, rec eider.Record, lease time.Duration, p Proof) (Grant, error) {
	sess := t.session(s)
	if sess == nil {
		return Grant{}, errorf(eider.Stale, "register", rec.Key, "its stream has ended; attach anew")
	}
	if err := checkRegistration(&rec); err != nil {
		return Grant{}, err
	}
	if rec.Incarnation.Number > maxNumber {
		rec.Incarnation.Number = 0 // no node gave it
	}
	e := t.find(rec.Key)
	if err := t.admit(e, &rec); err != nil {
		return Grant{}, err
	}
	known := e != nil && e.rec.Incarnation.Is(rec.Incarnation)
	if known && !e.proven(p) {
		return Grant{}, errUnproven(e)
	}
	reachable := known && e.reachable && e.rec.Address == rec.Address
	if e == nil {
		e = &entry{svc: t.service(rec.Service)}
	}
	rec.Version = 1
	t.become(e, rec, "", sess)
	secret := e.seal(p)
	e.lease, e.extra = t.cfg.lease(lease), 0
	e.dialable, e.reachable = t.cfg.dialable(rec.Address, sess.peer.Addr), reachable
	t.renew(sess.pulse)
	t.watch(sess)
	t.resume(e)
	t.announce(e, known)
	t.takeAddress(e)
	return Grant{Record: e.rec, Lease: e.lease, Bound: t.Bound(rec.Service), Secret: secret}, nil
}

// checkRegistration holds a registration to its form, all faults at once.
func checkRegistration(rec *eider.Record) error {
	err := rec.Check()
	switch {
	case err != nil:
	case rec.Incarnation.Nonce == 0:
		err = eider.Errorf(eider.Invalid, "", "incarnation: the nonce is missing; draw a random one, never 0")
	case rec.Attachment == 0:
		err = eider.Errorf(eider.Invalid, "", "attachment: 0 is none; count a process' attaches from 1")
	case !rec.Status.Live():
		err = eider.Errorf(eider.Invalid, "", "status: nobody registers as %s; use STARTING, UP, DOWN or DRAINING", rec.Status)
	default:
		return nil
	}
	return &eider.Error{Op: "register", Kind: eider.Invalid, Err: err}
}

// admit decides whether a record may replace what is known of its key, and gives it its number.
func (t *Table) admit(e *entry, rec *eider.Record) error {
	op, in := "register", &rec.Incarnation
	switch {
	case e == nil:
		if t.unused(rec.Service) && t.used >= t.cfg.MaxServices {
			return t.full(op, rec.Key, "services", t.cfg.MaxServices)
		}
		in.Number = max(in.Number, 1)
	case in.Is(e.rec.Incarnation):
		if e.rec.Status == eider.Left {
			return errorf(eider.Stale, op, rec.Key, "incarnation %s has left, which is final; a new run draws a new nonce", e.rec.Incarnation)
		}
		if rec.Attachment <= e.rec.Attachment {
			return errorf(eider.Stale, op, rec.Key, "attachment %d of incarnation %s comes after %d; count up with each attach", rec.Attachment, e.rec.Incarnation, e.rec.Attachment)
		}
		in.Number = max(in.Number, e.rec.Incarnation.Number)
		if e.rec.Status == eider.Draining {
			rec.Status = eider.Draining // a leave is final
		}
		return nil // and it was here before: no limit is in its way
	case e.isFormer(in.Nonce) || in.Number != 0 && in.Compare(e.rec.Incarnation) < 0:
		return errorf(eider.Stale, op, rec.Key, "incarnation %s was superseded by %s; a process that still runs draws a new nonce", in, e.rec.Incarnation)
	case e.held() && (e.owned || e.rec.Address != rec.Address):
		return errorf(eider.Conflict, op, rec.Key, "incarnation %s at %s holds the id and is alive; use another id, or stop that process first", e.rec.Incarnation, e.rec.Address)
	case in.Number == 0:
		in.Number = e.rec.Incarnation.Number + 1
	}
	if (e == nil || !e.live()) && t.live >= t.cfg.MaxInstances {
		return t.full(op, rec.Key, "instances", t.cfg.MaxInstances)
	}
	return nil
}

// unused tells whether an instance or a caller of the service would make it count.
func (t *Table) unused(service string) bool {
	svc := t.services[service]
	return svc == nil || !svc.used
}

func (t *Table) full(op string, key eider.Key, what string, limit int) *eider.Error {
	err := errorf(eider.Limited, op, key, "this node already has %d %s, the most it takes; raise --max-%s or use another node", limit, what, what)
	err.RetryAfter = retryFull
	return err
}

func (t *Table) refuse(rec eider.Record, err error) {
	ev := eider.Event{Kind: eider.EventRefused, Service: rec.Service, ID: rec.ID, Incarnation: rec.Incarnation, Detail: err.Error()}
	if eider.KindOf(err) == eider.Invalid {
		ev.Service, ev.ID = "", "" // may be of any size and content; the sentence names what is wrong with them
	}
	t.event(ev)
}

// announce tells of an attach, and does what a first or new status brings with it.
func (t *Table) announce(e *entry, known bool) {
	t.changed(e)
	kind := eider.EventRegistered
	if known {
		kind = eider.EventReattached
	}
	t.tell(kind, e, "")
	if e.rec.Status == eider.Up {
		t.probe(e)
	}
	if e.rec.Status == eider.Draining {
		t.leaving(e)
	}
	t.holding(e)
}

// takeAddress ends whoever held the address of a new registration without a stream: nobody else can
// listen there now. Another instance of the same process is only late to attach again.
func (t *Table) takeAddress(e *entry) {
	var ended []*entry
	n := t.addresses[e.rec.Address]
	for range maxNeighbours {
		if n == nil {
			break
		}
		if n != e && n.owned && n.sess == nil && n.proc != e.proc {
			ended = append(ended, n)
		}
		n = n.after
	}
	for _, n := range ended {
		t.end(n, eider.Dead, eider.EventDead, "its address "+e.rec.Address+" was registered by "+e.rec.Key.String())
		t.fx.Flush = true
	}
}

// Detach ends a session. Lost makes the table look for evidence: it asks for dials of the addresses that
// are known to be reachable, and suspects what hasn't attached again in time. What leaves is asked for
// too: a process that dies in mid-drain has ended.
func (t *Table) Detach(now time.Time, s Session, how Ending) Effects {
	t.begin(now)
	sess := t.session(s)
	if sess == nil {
		return t.take()
	}
	delete(t.sessions, s)
	t.alarms.cancel(sess)
	sess.over = true
	if how == Lost && len(sess.entries) > 0 { // else its process had said all that it had to say
		t.streamLost()
	}
	for _, e := range sess.entries {
		e.sess, e.beat = nil, sess.beat
		if how == Lost {
			t.lose(e)
		}
		t.arm(e)
	}
	sess.entries = nil
	if sess.proc != nil {
		sess.proc.sessions--
		t.ended(sess.proc)
		t.part(sess.proc)
	}
	if !sess.round { // else the rounds find it
		t.pulses.put(sess.pulse)
	}
	return t.take()
}
