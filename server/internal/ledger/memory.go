package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// Memory: what a node takes from one run to the next. It knows less than a node that ran on: who is attached, who
// has let go. So what it brings back is doubted until its process attaches again.

// Memory is what the run before has left.
type Memory struct {
	Instances []Kept
	Callers   []eider.Caller // of which Service, ID, Kind and Cap count
	Marks     []Mark         // of holds and releases
	Before    time.Duration  // how long that run meant to wait for callers from before itself; 0 when that was over
	Written   time.Time      // when the run before was last heard of, by the wall's clock
	Closed    bool           // that run ended in order, and nothing that it knew is missing
}

// Kept is what is kept of one instance, live or gone. A field that one version doesn't write is zero in the next.
type Kept struct {
	Record eider.Record // of a tombstone: what orders it, and how it ended
	Former [4]uint64    // nonces of superseded incarnations, the latest first
	Secret Secret       // the digest of its incarnation's
	Ended  time.Time    // of a tombstone, by the wall's clock

	// Of a live one:
	Caller    string // its process
	Lease     time.Duration
	Dialable  bool          // its address may be dialled,
	Reachable bool          // and has accepted a dial
	Unknown   bool          // callers that don't say who they are have called it lately,
	Pause     time.Duration // for which its leave asks; 0: it doesn't leave, or has none
}

// Trace names a piece of the memory: an instance by its id, a caller of the service, or the holding of a key. The
// zero Trace is the wait for callers from before.
type Trace struct{ Service, ID, Caller, Held string }

// note tells that what is to be kept of an instance has changed.
func (t *Table) note(e *entry) {
	if t.cfg.Memory {
		t.noted(Trace{Service: e.svc.name, ID: e.rec.ID})
	}
}

// noteCaller tells the same of a caller.
func (t *Table) noteCaller(f *following) {
	if t.cfg.Memory {
		t.noted(Trace{Service: f.svc.name, Caller: f.proc.name})
	}
}

// noteHold tells the same of a key's holding.
func (t *Table) noteHold(h *hold) {
	if t.cfg.Memory {
		t.noted(Trace{Service: h.key.Service, Held: h.key.ID})
	}
}

func (t *Table) noted(trace Trace) {
	if n := len(t.fx.Memory); n == 0 || t.fx.Memory[n-1] != trace {
		t.fx.Memory = append(t.fx.Memory, trace)
	}
}

// Kept returns what is to be kept of an instance, false if nothing is. Of what another node leases that node
// keeps it.
func (t *Table) Kept(key eider.Key) (Kept, bool) {
	e := t.find(key)
	if e == nil || e.live() && !e.owned {
		return Kept{}, false
	}
	k := Kept{Record: e.rec, Secret: e.secret}
	if e.former != nil {
		k.Former = *e.former
	}
	if !e.live() {
		k.Ended = t.last.Add(e.endedAt - t.clock).Round(0)
		return k, true
	}
	k.Lease, k.Dialable, k.Reachable = e.lease, e.dialable, e.reachable
	if e.proc != nil {
		k.Caller = e.proc.name
	}
	if e.work != nil {
		k.Unknown, k.Pause = e.work.unknown, e.work.pause
	}
	return k, true
}

// KeptCaller returns what is to be kept of a caller, false if it is none.
func (t *Table) KeptCaller(service, caller string) (eider.Caller, bool) {
	svc, p := t.services[service], t.processes[caller]
	if svc == nil || p == nil {
		return eider.Caller{}, false
	}
	f := p.following(svc)
	if f == nil {
		return eider.Caller{}, false
	}
	return t.caller(f), true
}

// KeptHold returns what is to be kept of a key's holding, false if nothing is.
func (t *Table) KeptHold(key eider.Key) (Mark, bool) {
	h := t.holds[key]
	if h == nil {
		return Mark{}, false
	}
	return Mark{Key: key, Count: h.count, Hold: h.word, Gone: h.gone}, true
}

// HoldTraces returns the names of all that is to be kept of holds, of whatever service.
func (t *Table) HoldTraces() []Trace {
	out := make([]Trace, 0, len(t.holds))
	for key := range t.holds {
		out = append(out, Trace{Service: key.Service, Held: key.ID})
	}
	return out
}

// KeptBefore returns how long this run waits for callers from before, false once that is over. A run that ends
// earlier leaves them to the next one.
func (t *Table) KeptBefore() (time.Duration, bool) { return t.before, t.clock < t.before }

// outwait tells when the wait for callers from before is over.
func (t *Table) outwait() {
	if t.cfg.Memory && !t.outwaited && t.clock >= t.before {
		t.outwaited = true
		t.noted(Trace{})
	}
}

// Traces returns the names of all that is to be kept of a service.
func (t *Table) Traces(service string) []Trace {
	svc := t.services[service]
	if svc == nil {
		return nil
	}
	out := make([]Trace, 0, len(svc.live)+len(svc.gone)+len(svc.followers))
	for id := range svc.live {
		out = append(out, Trace{Service: service, ID: id})
	}
	for id := range svc.gone {
		out = append(out, Trace{Service: service, ID: id})
	}
	for _, f := range svc.followers {
		out = append(out, Trace{Service: service, Caller: f.proc.name})
	}
	return out
}

// Names returns the names of all services of which anything is known.
func (t *Table) Names() []string {
	out := make([]string, 0, len(t.services))
	for name := range t.services {
		out = append(out, name)
	}
	return out
}

// Restore brings a table that has just been made back to what the run before knew.
//
// Instances come back as suspects, with a whole lease to attach again, which alone cures them. A port that refuses
// ends them: it is dialled where it could be reached before. One that was leaving goes on leaving. Tombstones have
// what is left of their retention; from memories older than that nothing comes back.
//
// Callers don't come back one by one: as of any run before, one member stands for them in every drain until the
// largest of their caps has passed. Unless the run before ended in order some may be missing, and the cap is at
// least the usual one. Whom that run hadn't waited for long enough is waited for by this one. Unknown callers, whom
// only their instance sees, come back with it: a drain or hold that goes on or begins before it has attached again
// gives them their pause, counted anew from the restart where it went on.
//
// Holds come back however old they are: what an operator has decided, only an operator or its end takes back.
func (t *Table) Restore(now time.Time, m Memory) Effects {
	t.begin(now)
	age := max(now.Sub(m.Written), 0)
	t.before = min(m.Before, maxLease)
	if !m.Closed {
		t.before = max(t.before, t.cfg.Cap)
	}
	for i := range m.Callers {
		t.before = max(t.before, min(m.Callers[i].Cap, maxLease))
	}
	lives, tombs := 0, 0
	if age < t.cfg.Retention {
		lives, tombs = t.restoreAll(now, m.Instances)
	}
	t.restoreHolds(now, m.Marks)
	t.event(eider.Event{Kind: eider.EventRestored, Detail: restored(lives, tombs, len(m.Callers), len(m.Instances), age)})
	return t.take()
}

func (t *Table) restoreHolds(now time.Time, marks []Mark) {
	marks = slices.Clone(marks)
	slices.SortFunc(marks, func(a, b Mark) int { return a.Key.Compare(b.Key) })
	for _, m := range marks {
		t.applyHold(now, m)
	}
}

func restored(lives, tombs, callers, all int, age time.Duration) string {
	text := fmt.Sprintf("%d instances, the ends of %d and %d callings of the run before, last heard of %s ago", lives, tombs, callers, age.Round(time.Millisecond))
	if rest := all - lives - tombs; rest > 0 {
		text += fmt.Sprintf("; %d more ended, or were written, too long ago", rest)
	}
	return text
}

// restoreAll restores instances in a fixed order, tombstones in that of their ends.
func (t *Table) restoreAll(now time.Time, all []Kept) (lives, tombs int) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Kept) int {
		return cmp.Or(a.Ended.Compare(b.Ended), strings.Compare(a.Record.Service, b.Record.Service), strings.Compare(a.Record.ID, b.Record.ID))
	})
	for i := range all {
		k := &all[i]
		rec := &k.Record
		ended := max(now.Sub(k.Ended), 0) // a clock that was set back makes nothing older
		switch {
		case rec.Incarnation.Nonce == 0 || rec.Attachment == 0 || rec.Service == "" || rec.ID == "" || t.find(rec.Key) != nil:
		case rec.Status.Live():
			t.restoreLive(k)
			lives++
		case rec.Status.Gone() && ended < t.cfg.Retention:
			e := &entry{svc: t.service(rec.Service), owned: true, secret: k.Secret}
			e.rec = t.words.pack(*rec, e.svc.name)
			t.restoreFormer(e, k)
			t.entomb(e, false)
			e.endedAt = t.clock - ended
			tombs++
		}
	}
	return lives, tombs
}

func (t *Table) restoreFormer(e *entry, k *Kept) {
	if k.Former != ([4]uint64{}) {
		former := k.Former
		e.former = &former
	}
}

func (t *Table) restoreLive(k *Kept) {
	e := &entry{svc: t.service(k.Record.Service), suspicion: eider.Restored, owned: true, dialable: k.Dialable, reachable: k.Reachable,
		secret: k.Secret, lease: t.cfg.lease(k.Lease), beat: t.clock}
	e.rec = t.words.pack(k.Record, e.svc.name)
	t.restoreFormer(e, k)
	if k.Caller != "" {
		e.proc = t.process(k.Caller)
	}
	if k.Unknown || k.Pause > 0 {
		t.works(e).pause = min(k.Pause, maxWait)
		t.strangers(e, k.Unknown)
	}
	t.enlist(e)
	t.moveIn(e)
	t.settle(e)
	t.changed(e)
	t.arm(e)
	if e.dialable && e.reachable {
		e.dialed = t.clock
		t.dial(e, 0, 1)
	}
	if e.rec.Status == eider.Draining {
		t.leaving(e)
	}
}
