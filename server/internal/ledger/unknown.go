package ledger

import (
	"time"

	"github.com/eiderhq/eider"
)

// Unknown callers send requests without saying who they are, and learn of instances who knows how. Their instance
// sees them; nobody hears them let go. They are one member of its drain, with a pause that the instance asks for,
// and nothing else ends it.

// strangers takes down whether an instance has unknown callers.
func (t *Table) strangers(e *entry, has bool) {
	w, svc := e.work, e.svc
	if w.unknown == has {
		return
	}
	w.unknown = has
	t.note(e)
	before := svc.strangers
	svc.strangers += toInt(has) - toInt(!has)
	switch {
	case before == 0:
		svc.strange = t.last
		t.event(eider.Event{Kind: eider.EventCallerJoined, Service: svc.name, Caller: string(eider.UnknownCallers),
			Detail: e.rec.ID + " is called by somebody who doesn't say who he is"})
	case svc.strangers == 0:
		t.event(eider.Event{Kind: eider.EventCallerLeft, Service: svc.name, Caller: string(eider.UnknownCallers),
			Detail: "no instance is called by them any more"})
	}
}

// asks takes down how long a leaving instance wants unknown callers waited for. Asked while its drain runs, it
// counts from the leave all the same.
func (t *Table) asks(e *entry, pause time.Duration) {
	if pause <= 0 {
		return
	}
	if w := t.works(e); w.pause != min(pause, maxWait) {
		w.pause = min(pause, maxWait)
		t.note(e)
	}
	if d := t.drains[departureOf(&e.rec)]; d != nil && !d.reached {
		t.awaitUnknown(d, e)
	}
}

// awaitUnknown makes the unknown callers of an instance a member of its drain. For a hold no instance asks: if it has
// any, the pause is the expected one.
func (t *Table) awaitUnknown(d *drain, e *entry) {
	if e.work == nil {
		return
	}
	pause, name := e.work.pause, string(eider.UnknownCallers)
	if d.key.hold != 0 {
		pause = t.cfg.Unknown * time.Duration(toInt(e.work.unknown))
	}
	if _, ok := d.index[name]; !ok && pause > 0 {
		t.enter(d, member{caller: name, kind: eider.UnknownCallers, cap: pause})
	}
}

// unknownWord shows the unknown callers of a service as one caller.
func (t *Table) unknownWord(svc *service) eider.Caller {
	return eider.Caller{ID: string(eider.UnknownCallers), Kind: eider.UnknownCallers, Service: svc.name, Since: svc.strange, Cap: t.cfg.Unknown}
}
