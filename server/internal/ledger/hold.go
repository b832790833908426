package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// Holds are kept by key, beside the record and outside its order: whatever becomes of the instance, its
// incarnations and its tombstone, the key stays held until it is released, or its hold ends by itself.
//
//	       Hold, with a new count                    Release, or its time is over
//	free ──────────────────────────► held ──────────────────────────────────────► released ── Retention ──► forgotten
//	                                 │  ▲ Hold again: another count, another drain    │
//	                                 └──┘◄────────────────────────────────────────────┘ Hold
//
// While an instance of a held key is listed and doesn't leave, there is a drain of its holding: whoever calls
// lets go, naming the count. A count is never given twice, so no let-go is ever taken for that of a later hold,
// and never for that of a leave.

const (
	heldGone  = 48 * time.Hour // nobody of a held key has been listed for so long: somebody should look
	heldAgain = 24 * time.Hour // and again
)

// hold is what is known of one key's holding.
type hold struct {
	key   eider.Key
	count uint64
	word  *eider.Hold // nil: released. Never written to: views share it
	slot  int32
	ends  int32     // its place among the endings
	alone bool      // nobody of the key is listed,
	gone  time.Time // by the wall's clock, since then
	warn  moment    // when that is next told, if alone
	freed moment    // when it was released
}

func (h *hold) place() *int32 { return &h.slot }

// ending is a hold that ends by itself. It was promised until a time of the wall's clock, which everybody is shown, and
// that clock goes on while the machine sleeps, or is set: so it is in a heap of its own, by that clock.
type ending hold

func (h *ending) place() *int32 { return &h.ends }

// due ends a hold whose time is over.
func (h *ending) due(t *Table) {
	t.mark(t.last, Mark{Key: h.key, Count: t.nextCount()}, eider.EventHoldEnded, "as it was to; held for "+t.last.Sub(h.word.Since).Round(time.Second).String())
}

// wall is the wall's clock, counted from the table's start.
func (t *Table) wall() moment { return t.since(t.last) }

func (t *Table) since(at time.Time) moment { return at.Round(0).Sub(t.start) }

// held tells whether the key is. A nil hold is none.
func (h *hold) held() bool { return h != nil && h.word != nil }

// said is the hold in force, nil if there is none.
func (h *hold) said() *eider.Hold {
	if h == nil {
		return nil
	}
	return h.word
}

// Mark is what travels of one key's holding, to a disk or to another node: the hold, or that it was released.
type Mark struct {
	Key   eider.Key
	Count uint64
	Hold  *eider.Hold // nil: released
	Gone  time.Time   // since when nobody of the key is listed; zero: somebody is
}

// Hold has callers let go of the instance of a key, and of every later one, until it is released or h.Until has
// come. Count, Since and By's form aside it is taken as it is; held again, it gets a new count, and a drain of
// its own. It returns the hold as it is in force.
//
// Errors: Invalid for texts or times that break a bound; NotFound for a key that nobody has had lately (most
// likely it is misspelt); Limited when as many keys are held as may be.
func (t *Table) Hold(now time.Time, key eider.Key, h eider.Hold) (eider.Hold, Effects, error) {
	t.begin(now)
	h, err := t.holdKey(now, key, h)
	return h, t.take(), err
}

func (t *Table) holdKey(now time.Time, key eider.Key, h eider.Hold) (eider.Hold, error) {
	const op = "hold"
	e, known := t.find(key), t.holds[key]
	err := h.Check()
	switch left := h.Until.Sub(now); {
	case err != nil:
		return h, &eider.Error{Op: op + " " + key.String(), Kind: eider.Invalid, Err: err}
	case !h.Until.IsZero() && (left <= 0 || left > eider.MaxHoldFor):
		return h, errorf(eider.Invalid, op, key, "it would end in %s; give it a time from now on, at most %s ahead, or none", left.Round(time.Second), eider.MaxHoldFor)
	case e == nil && !known.held():
		return h, errorf(eider.NotFound, op, key, "nobody of that name is registered, or was lately; check service and id")
	case !known.held() && t.held >= t.cfg.MaxHolds:
		return h, errorf(eider.Limited, op, key, "this node already has %d holds, the most it takes; release some, or raise --max-holds", t.held)
	}
	h.Reason, h.By = strings.Clone(h.Reason), strings.Clone(h.By)
	h.Count, h.Since = t.nextCount(), now.Truncate(time.Millisecond)
	if !h.Until.IsZero() {
		h.Until = h.Until.Truncate(time.Millisecond)
	}
	t.mark(now, Mark{Key: key, Count: h.Count, Hold: &h}, eider.EventHeld, "")
	return h, nil
}

// nextCount gives a count that no hold or release had before. A run begins at random above all it has heard of:
// one before may have given more than was kept of it, and callers may still name what they let go of then.
func (t *Table) nextCount() uint64 {
	if !t.counting {
		t.counting = true
		t.counted += t.cfg.Run >> 32
	}
	t.counted++
	return t.counted
}

// Release ends a hold: the instance is picked again, as if it had just come up. NotFound if the key isn't held.
func (t *Table) Release(now time.Time, key eider.Key, by string) (Effects, error) {
	t.begin(now)
	h := t.holds[key]
	if !h.held() {
		return t.take(), errorf(eider.NotFound, "release", key, "it isn't held; `eider instances` shows who is")
	}
	why := ""
	if by != "" {
		why = "by " + by + ", "
	}
	t.mark(now, Mark{Key: key, Count: t.nextCount()}, eider.EventReleased, why+"held for "+now.Sub(h.word.Since).Round(time.Second).String())
	return t.take(), nil
}

// ApplyHold merges what another node or a disk says of a key's holding: the higher count stays, and of a hold and
// a release with one count the hold. It is commutative, associative and idempotent.
func (t *Table) ApplyHold(now time.Time, m Mark) Effects {
	t.begin(now)
	t.applyHold(now, m)
	return t.take()
}

func (t *Table) applyHold(now time.Time, m Mark) {
	h := t.holds[m.Key]
	switch {
	case m.Key.Service == "" || m.Key.ID == "" || m.Count == 0 || m.Hold != nil && m.Hold.Count != m.Count:
	case h == nil || m.after(h):
		kind := eider.EventHeld
		if m.Hold == nil {
			kind = eider.EventReleased
		}
		t.mark(now, m, kind, "")
	}
}

// after tells whether a mark replaces what is known of its key. Two holds with one count were given by two nodes at
// once; that all keep the same one of them is all that matters.
func (m *Mark) after(h *hold) bool {
	switch {
	case m.Count != h.count || m.Hold == nil:
		return m.Count > h.count
	case h.word == nil:
		return true
	}
	a, b := m.Hold, h.word
	return cmp.Or(a.Until.Compare(b.Until), a.Since.Compare(b.Since), cmp.Compare(a.By, b.By), cmp.Compare(a.Reason, b.Reason)) > 0
}

// mark makes a mark what is known of its key; whether it may is decided by the caller.
func (t *Table) mark(now time.Time, m Mark, kind eider.EventKind, why string) {
	t.counted = max(t.counted, m.Count)
	h, e := t.holds[m.Key], t.find(m.Key)
	if h == nil {
		h = &hold{key: eider.Key{Service: strings.Clone(m.Key.Service), ID: strings.Clone(m.Key.ID)}, gone: m.Gone}
		t.holds[h.key] = h
	}
	if was := h.word; was != nil {
		t.held--
		if e != nil {
			t.finish(departureOf(&e.rec).of(was.Count), e.rec.Status)
		}
	} else if h.freed > 0 {
		h.freed = 0
		t.freed = slices.DeleteFunc(t.freed, func(other *hold) bool { return other == h })
	}
	h.count, h.word = m.Count, m.Hold
	t.endings.cancel((*ending)(h))
	if h.word == nil {
		t.free(h)
	} else {
		t.held++
		if until := h.word.Until; !until.IsZero() {
			t.endings.set((*ending)(h), t.since(until))
		}
	}
	t.bind(e)
	h.look(t, e)
	t.noteHold(h)
	if e == nil || !e.live() {
		if h.word != nil {
			why = h.about() + "nobody of that name is listed now"
		}
		t.tellHold(kind, h, e, why)
		return
	}
	t.changed(e)
	t.fx.Flush = true
	switch {
	case h.word == nil:
		t.tellHold(kind, h, e, why)
	case e.rec.Status == eider.Draining:
		t.tellHold(kind, h, e, h.about()+"it is leaving already")
	default:
		t.holding(e) // which tells it
	}
}

func (t *Table) tellHold(kind eider.EventKind, h *hold, e *entry, detail string) {
	ev := eider.Event{Kind: kind, Service: h.key.Service, ID: h.key.ID, Hold: h.count, Detail: detail}
	if e != nil {
		ev.Incarnation, ev.Status = e.rec.Incarnation, e.rec.Status
	}
	t.event(ev)
}

// bind has an entry know of the hold on its key.
func (t *Table) bind(e *entry) {
	if e == nil {
		return
	}
	e.hold = nil
	if h := t.holds[e.rec.Key]; h.held() {
		e.hold = h
	}
	t.settle(e)
}

// free keeps a release in mind, so that an older hold that comes late is told from a new one. The oldest make room.
func (t *Table) free(h *hold) {
	h.freed = max(t.clock, 1)
	t.freed = append(t.freed, h)
	if len(t.freed) > t.cfg.MaxHolds {
		t.forgetHold(t.freed[0])
	}
}

func (t *Table) forgetHold(h *hold) {
	t.alarms.cancel(h)
	delete(t.holds, h.key)
	t.noteHold(h)
	t.freed = slices.DeleteFunc(t.freed, func(other *hold) bool { return other == h })
}

// holding begins the drain of a held instance, if it has none: it is listed, doesn't leave, and callers are to let
// go of it.
func (t *Table) holding(e *entry) {
	if e.hold == nil || !e.live() || e.rec.Status == eider.Draining {
		return
	}
	t.depart(e, e.hold.count)
}

// about says in words who holds, why and until when: "by ops: disk swap; ".
func (h *hold) about() string {
	var text string
	if h.word.By != "" {
		text = "by " + h.word.By + "; "
	}
	if h.word.Reason != "" {
		text = strings.TrimSuffix(text, "; ")
		if text != "" {
			text += ": "
		}
		text += h.word.Reason + "; "
	}
	if !h.word.Until.IsZero() {
		text += "until " + h.word.Until.UTC().Format(time.RFC3339) + "; "
	}
	return text
}

// look finds out whether somebody of the key is listed, and when there is something to do.
func (h *hold) look(t *Table, e *entry) {
	switch listed := e != nil && e.live(); {
	case listed && h.alone:
		h.alone, h.gone = false, time.Time{}
		t.noteHold(h)
	case listed:
		h.gone = time.Time{}
	case !h.alone:
		h.alone = true
		if h.gone.IsZero() {
			h.gone = t.last
			t.noteHold(h)
		}
		h.warn = t.clock + max(heldGone-t.last.Sub(h.gone), 0)
	}
	switch {
	case h.word == nil:
		t.alarms.set(h, h.freed+t.cfg.Retention)
	case h.alone:
		t.alarms.set(h, h.warn)
	default:
		t.alarms.cancel(h)
	}
}

// due forgets a release, and warns of a hold that is perhaps forgotten.
func (h *hold) due(t *Table) {
	if h.word == nil {
		t.forgetHold(h)
		return
	}
	h.warn = t.clock + heldAgain
	t.tellHold(eider.EventHeldGone, h, nil, h.about()+"nobody of that name has been listed for "+t.last.Sub(h.gone).Round(time.Hour).String()+"; release it if it is forgotten")
	h.look(t, t.find(h.key))
}

// Holds returns the keys that are held, ordered by service and id.
func (t *Table) Holds() []eider.Held {
	var out []eider.Held
	for key, h := range t.holds {
		if h.word == nil {
			continue
		}
		one := eider.Held{Key: key, Hold: *h.word, Gone: h.gone}
		if e := t.find(key); e != nil {
			one.Status = e.rec.Status
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b eider.Held) int { return a.Key.Compare(b.Key) })
	return out
}

// Marks returns all that is known of holds and releases, ordered by service and id: what a node sends to another.
func (t *Table) Marks() []Mark {
	out := make([]Mark, 0, len(t.holds))
	for key := range t.holds {
		m, _ := t.KeptHold(key)
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Mark) int { return a.Key.Compare(b.Key) })
	return out
}
