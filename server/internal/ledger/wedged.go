package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/eiderhq/eider"
)

// A live lease is no health check: beats may come while every request hangs (U3). So an instance that counts its
// requests is also judged by them:
//
//	   ┌──────────────── a completion; nothing under way ────────────────┐
//	   ▼                                                                 │
//	at work ── something arrived, nothing completed since ──► stuck ─────┤
//	                                                            │        │
//	            max(2 beats, 4 × the slowest of a minute) later │        │
//	                                                            ▼        │
//	                       wedged ◄── nothing arrives for a beat: a trial┘
//
// It is judged by its own word alone, so it can only talk itself out of traffic. Silence is no part of it: time
// in which nothing is heard of it doesn't count.

const (
	stuckBeats   = 2  // without a completion
	stuckSlowest = 4  // times the slowest of the last minute
	trialBeats   = 3  // from one trial to the next
	trialSearch  = 64 // callers that are looked at for one that can try
)

// work is what an instance says of its requests.
type work struct {
	e       *entry
	said    eider.Work
	stuck   bool
	since   moment // stuck since
	came    moment // when something last arrived
	tried   moment // the last trial; 0 none
	tries   int
	unknown bool          // counted in svc.strangers
	pause   time.Duration // for unknown callers, as its leave says
	slot    int32
}

func (w *work) place() *int32 { return &w.slot }

// works returns what an instance says of its requests, which begins with this.
func (t *Table) works(e *entry) *work {
	if e.work == nil {
		e.work = &work{e: e}
	}
	return e.work
}

// Work tells what an instance on the session has done since its process began. It comes with a beat; what
// hasn't changed may be left out. One of another instance says nothing.
func (t *Table) Work(now time.Time, s Session, key eider.Key, said eider.Work) Effects {
	t.begin(now)
	if e := t.find(key); e != nil && e.sess != nil && e.sess.id == s {
		t.worked(e, said)
	}
	return t.take()
}

func (t *Table) worked(e *entry, said eider.Work) {
	first := e.work == nil
	w := t.works(e)
	was := w.said
	if said.Arrived < was.Arrived || said.Completed < was.Completed {
		was = eider.Work{} // another count has begun
	}
	t.strangers(e, said.Unknown)
	w.said = said
	completed, arrived := said.Completed > was.Completed, said.Arrived > was.Arrived
	if arrived || first {
		w.came = t.clock
	}
	switch {
	case completed:
		t.cure(e, eider.Wedged)
		w.stuck, w.since = w.underWay() > 0, t.clock
	case w.underWay() == 0 && !arrived:
		w.stuck = false
	case !w.stuck:
		w.stuck, w.since = true, t.clock
	}
	if w.stuck && !e.suspicion.Has(eider.Wedged) {
		t.alarms.soon(w, w.since+t.stuckFor(w))
	}
}

// underWay counts the requests that have arrived and aren't over.
func (w *work) underWay() uint64 {
	if w.said.Ended > w.said.Arrived {
		return 0
	}
	return w.said.Arrived - w.said.Ended
}

// stuckFor is how long nothing may complete.
func (t *Table) stuckFor(w *work) time.Duration {
	return max(stuckBeats*t.cfg.Beat, stuckSlowest*min(w.said.Slowest, maxLease))
}

// due judges an instance, or has a wedged one tried.
func (w *work) due(t *Table) {
	e := w.e
	switch {
	case e.work != w || e.sess == nil || e.sess.silent || e.rec.Status != eider.Up:
	case e.suspicion.Has(eider.Wedged):
		t.try(w)
	case !w.stuck:
	case t.clock < t.grace:
		t.alarms.set(w, t.grace)
	case t.clock < w.since+t.stuckFor(w):
		t.alarms.set(w, w.since+t.stuckFor(w))
	case t.clock > e.sess.beat+t.cfg.Beat+t.cfg.Beat/4: // a beat is late: what hangs may be the process, and silence tells that
		t.alarms.set(w, max(e.sess.beat+t.cfg.SuspectAfter, t.clock)+t.cfg.Beat/4)
	case w.underWay() == 0 && t.clock >= w.came+stuckBeats*t.cfg.Beat:
		w.stuck = false // a caller or two gave up, and nobody has come since: that is no evidence
	default:
		t.suspect(e, eider.Wedged, fmt.Sprintf("%s under way, none completed for %s (the slowest of the last minute took %s)",
			requests(w.underWay()), (t.clock-w.since).Round(time.Millisecond), w.said.Slowest.Round(time.Millisecond)))
		t.try(w)
	}
}

func requests(n uint64) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// try has one caller send its next request to a wedged instance at which nothing has arrived for a beat: callers
// avoid it, so it would never complete anything again. One trial at a time, and the next one is another caller's.
func (t *Table) try(w *work) {
	at := w.came + t.cfg.Beat + t.cfg.Beat/4
	if w.tries > 0 {
		at = max(at, w.tried+trialBeats*t.cfg.Beat)
	}
	e := w.e
	if e.hold.held() { // nobody is to call it, and somebody looks at it anyway
		at = max(at, t.clock+trialBeats*t.cfg.Beat)
	}
	if t.clock < at {
		t.alarms.set(w, at)
		return
	}
	if f, name, any := t.trier(e, w.tries); any {
		t.fx.Trials = append(t.fx.Trials, Trial{Follower: f, Departure: e.rec.Departure()})
		t.event(eider.Event{Kind: eider.EventTrial, Service: e.svc.name, ID: e.rec.ID, Incarnation: e.rec.Incarnation,
			Status: e.rec.Status, Suspicion: e.suspicion, Caller: name, Detail: "is asked to send its next request there"})
	}
	w.tried = t.clock
	w.tries++
	t.alarms.set(w, t.clock+trialBeats*t.cfg.Beat)
}

// trier picks a connected caller of the instance's service: each time another one, and of each instance from
// another one on.
func (t *Table) trier(e *entry, tries int) (f Follower, name string, any bool) {
	all := e.svc.followers
	if len(all) == 0 {
		return 0, "", false
	}
	from := int(e.rec.Incarnation.Nonce%uint64(len(all))) + tries
	for i := range min(len(all), trialSearch) {
		fl := all[(from+i)%len(all)]
		if fl.proc == e.proc {
			continue // what hangs there may be the whole process
		}
		for _, id := range fl.proc.watches {
			if slices.Contains(t.followers[id].subs, fl) {
				return id, fl.proc.name, true
			}
		}
	}
	return 0, "", false
}

// resume has what an instance says of its requests judged again, once its process is heard of again. What it
// hasn't completed meanwhile is no evidence: it may have been stopped.
func (t *Table) resume(e *entry) {
	if w := e.work; w != nil && e.sess != nil && (w.stuck || e.suspicion.Has(eider.Wedged)) {
		w.since = t.clock
		t.alarms.set(w, t.clock+t.stuckFor(w))
	}
}

// idle forgets what an instance has said of its requests: it has ended, or this node no longer hears it.
func (t *Table) idle(e *entry) {
	if e.work != nil {
		t.strangers(e, false)
		t.alarms.cancel(e.work)
		e.work = nil
	}
}
