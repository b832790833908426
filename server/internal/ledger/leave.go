package ledger

import (
	"time"

	"github.com/eiderhq/eider"
)

// SetStatus tells that an instance is STARTING, UP or DOWN. On one that is leaving it changes nothing,
// since a leave is final. Errors as for Leave, and Invalid for another status.
func (t *Table) SetStatus(now time.Time, s Session, key eider.Key, status eider.Status) (Effects, error) {
	t.begin(now)
	e, err := t.holder("set status of", s, key)
	switch {
	case err != nil:
	case status != eider.Starting && status != eider.Up && status != eider.Down:
		err = errorf(eider.Invalid, "set status of", key, "status: %s can't be set; use STARTING, UP or DOWN, and Leave and Left to leave", status)
	case e.rec.Status != status && e.live() && e.rec.Status != eider.Draining:
		t.write(e, status)
		t.tell(eider.EventStatus, e, "")
		if status == eider.Up {
			t.probe(e)
			t.resume(e)
		}
	}
	return t.take(), err
}

// Leave begins a planned departure: the instance goes on serving, every caller is to let go of it. It is
// idempotent, and final for the incarnation. unknown is how long the instance wants callers waited for that
// it has and can't name, counted from the leave; 0: it has none. Errors: NotFound for a key that nobody knows,
// Stale when the session isn't the one that holds it (D16, D17).
func (t *Table) Leave(now time.Time, s Session, key eider.Key, unknown time.Duration) (Effects, error) {
	t.begin(now)
	e, err := t.holder("leave", s, key)
	if err == nil && e.live() {
		t.asks(e, unknown)
		if e.rec.Status != eider.Draining {
			t.write(e, eider.Draining)
			t.leaving(e)
		}
	}
	return t.take(), err
}

// Left ends a departure: the process no longer serves. Without a Leave before it, it begins and ends one
// at once. It is idempotent; errors as for Leave.
func (t *Table) Left(now time.Time, s Session, key eider.Key) (Effects, error) {
	t.begin(now)
	e, err := t.holder("end", s, key)
	if err == nil && e.live() {
		if e.rec.Status != eider.Draining {
			t.write(e, eider.Draining)
			t.leaving(e)
		}
		t.end(e, eider.Left, eider.EventLeft, "")
	}
	return t.take(), err
}

// holder returns the entry that a session may write to: the instance that is attached on it, or that has
// left on it, whose last words may come twice.
func (t *Table) holder(op string, s Session, key eider.Key) (*entry, error) {
	e := t.find(key)
	switch {
	case e == nil:
		return nil, errorf(eider.NotFound, op, key, "nobody of that name is registered; register it first")
	case e.sess != nil && e.sess.id == s:
		t.renew(e.sess.pulse) // it speaks, so it lives: a leave after a long stop must not lapse for want of a beat
		return e, nil
	case e.home == s && e.rec.Status == eider.Left:
		return e, nil
	case e.home == s && e.owned:
		t.fx.End = append(t.fx.End, s)
		return nil, errorf(eider.Stale, op, key, "it has ended here as %s; attach anew with a higher attachment", e.rec.Status)
	}
	return nil, errorf(eider.Stale, op, key, "this stream doesn't hold it; incarnation %s does, from another attach", e.rec.Incarnation)
}

// write changes the status of an instance that is attached here.
func (t *Table) write(e *entry, status eider.Status) {
	if status == eider.Draining {
		t.unkeep(e)
	}
	e.rec.Version++
	e.rec.Status = status
	t.settle(e)
	t.changed(e)
	t.note(e)
	if e.sess.silent {
		t.arm(e)
	}
}
