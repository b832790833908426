package ledger

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// Verdicts: what callers say of their breakers. They are kept for people to see, beside the records and outside of
// everything that is decided here: one that opens makes this node dial for itself, as a doubt does, and no number of
// them changes a status or confirms a refusal. A caller sees its own network, and may say anything.

const (
	maxVerdicts  = 200_000          // of all callers; a caller has eider.MaxVerdicts
	verdictsCalm = 2 * time.Second  // that all breakers of an instance are closed is told once it has been so for so long: a reconnect is none
	verdictEvery = 10 * time.Second // of one instance one event at most within it, the first at once
	verdictBurst = 64               // events of all instances within it; the others are told later, if it is still so
)

// verdict is what one caller's breaker says of one instance.
type verdict struct {
	by           *process
	on           *tripped
	said         Follower // the stream that said so last; it ends with that
	since, retry int64    // by the wall's clock, in ms; retry 0: none
	count, of    uint32   // more is the most that fits
	state        eider.BreakerState
	rule         eider.BreakerRule
	index        int32 // in by.verdicts
}

// tripped is one run of an instance on which verdicts are kept. It may not be listed: after a restart callers come
// back before it does.
type tripped struct {
	svc      *service
	id       string
	nonce    uint64
	verdicts map[*process]*verdict
	states   [eider.BreakerStates]int
	open     bool   // as was last told
	told     moment // when; 0 never
	slot     int32
}

func (x *tripped) place() *int32 { return &x.slot }

// rejecting counts the callers whose breaker turns calls away.
func (x *tripped) rejecting() (n int) {
	for s, k := range x.states {
		if eider.BreakerState(s).Rejects() {
			n += k
		}
	}
	return n
}

// listed returns the instance, nil if another run of it is listed, or none.
func (x *tripped) listed() *entry {
	if e := x.svc.live[x.id]; e != nil && e.rec.Incarnation.Nonce == x.nonce {
		return e
	}
	return nil
}

// Verdicts takes what a caller's breakers say of instances of a service that it follows by this stream.
func (t *Table) Verdicts(now time.Time, f Follower, service string, verdicts []eider.Verdict) Effects {
	t.begin(now)
	follower := t.followers[f]
	if follower == nil {
		return t.take()
	}
	fl := follower.proc.following(t.services[service])
	if fl == nil || !slices.Contains(follower.subs, fl) {
		return t.take()
	}
	for i := range verdicts[:min(len(verdicts), eider.MaxVerdicts)] {
		t.judge(f, fl, &verdicts[i])
	}
	return t.take()
}

// judge takes one verdict.
func (t *Table) judge(f Follower, fl *following, said *eider.Verdict) {
	x := fl.svc.tripped[said.ID]
	var v *verdict
	if x != nil && x.nonce == said.Incarnation.Nonce {
		v = x.verdicts[fl.proc]
	}
	if said.State == eider.BreakerClosed {
		if v != nil {
			t.retract(v)
		}
		return
	}
	was := eider.BreakerClosed
	if v != nil {
		was = v.state
	} else if v = t.begins(fl, said); v == nil {
		return
	}
	v.on.states[v.state]--
	v.on.states[said.State]++
	v.said, v.state, v.rule, v.since, v.retry = f, said.State, said.Rule, said.Since.UnixMilli(), 0
	v.count, v.of = uint32(min(said.Count, math.MaxUint32)), uint32(min(said.Of, math.MaxUint32))
	if !said.Retry.IsZero() {
		v.retry = said.Retry.UnixMilli()
	}
	if said.State.Rejects() && !was.Rejects() && !said.Since.Before(t.followers[f].since) {
		fl.svc.opened++ // else it had opened before the caller came here
	}
	if said.State.Rejects() && said.State != was && said.State != eider.BreakerHalfOpen {
		if e := v.on.listed(); e != nil && e.owned && e.sess == nil {
			t.redial(e)
		}
	}
	t.weigh(v.on)
}

// begins makes room for a caller's first word on an instance; nil if it may say none, or there is none. One who isn't
// listed is believed to exist, within the same bounds: the callers of a node that has just started come back first.
func (t *Table) begins(fl *following, said *eider.Verdict) *verdict {
	nonce := said.Incarnation.Nonce
	if e := fl.svc.find(said.ID); e != nil && (e.rec.Incarnation.Nonce == nonce) != e.live() || e != nil && e.isFormer(nonce) {
		return nil
	}
	if len(fl.proc.verdicts) >= eider.MaxVerdicts || t.verdicts >= maxVerdicts {
		return nil
	}
	x := fl.svc.tripped[said.ID]
	switch {
	case x == nil:
		x = &tripped{svc: fl.svc, id: strings.Clone(said.ID), nonce: nonce, verdicts: make(map[*process]*verdict, 1)}
		if fl.svc.tripped == nil {
			fl.svc.tripped = make(map[string]*tripped)
		}
		fl.svc.tripped[x.id] = x
	case x.nonce != nonce:
		return nil
	}
	v := &verdict{by: fl.proc, on: x, index: int32(len(fl.proc.verdicts))}
	fl.proc.verdicts = append(fl.proc.verdicts, v)
	x.verdicts[fl.proc] = v
	x.states[v.state]++
	t.verdicts++
	return v
}

// retract takes a verdict away.
func (t *Table) retract(v *verdict) {
	p, x := v.by, v.on
	last := len(p.verdicts) - 1
	p.verdicts[v.index] = p.verdicts[last]
	p.verdicts[v.index].index = v.index
	p.verdicts[last] = nil
	p.verdicts = p.verdicts[:last]
	if last == 0 {
		p.verdicts = nil
	}
	delete(x.verdicts, p)
	x.states[v.state]--
	t.verdicts--
	t.weigh(x)
}

// retractAll takes away what a caller has said of the service (nil means any) by a stream (0 means any).
func (t *Table) retractAll(p *process, svc *service, f Follower) {
	for i := len(p.verdicts) - 1; i >= 0; i-- {
		if v := p.verdicts[i]; (svc == nil || v.on.svc == svc) && (f == 0 || v.said == f) {
			t.retract(v) // the last one takes its place, and has been looked at
		}
	}
}

// reconsider forgets what was said of another run of an instance, or of one that has ended.
func (t *Table) reconsider(e *entry) {
	x := e.svc.tripped[e.rec.ID]
	if x == nil {
		return
	}
	if x.listed() == e {
		t.weigh(x)
		return
	}
	x.open = false // its end is told, so that it isn't to be told that its breakers are closed
	for _, v := range x.verdicts {
		t.retract(v)
	}
	t.alarms.cancel(x)
	delete(x.svc.tripped, x.id)
}

// weigh tells that the first caller's breaker of an instance has opened, or the last one's closed: now, or when it
// may be told. Two thousand callers that open at once are one event, and one that flaps is one now and then.
func (t *Table) weigh(x *tripped) {
	open, at := x.rejecting() > 0, t.clock
	if x.told > 0 {
		at = max(at, x.told+verdictEvery)
	}
	switch {
	case x.listed() == nil || open == x.open:
		t.alarms.cancel(x)
		if open || x.open || len(x.verdicts) > 0 {
			return
		}
		if at > t.clock {
			t.alarms.set(x, at) // only then to be forgotten
			return
		}
		delete(x.svc.tripped, x.id)
	case !open:
		t.alarms.soon(x, max(at, t.clock+verdictsCalm))
	case at > t.clock:
		t.alarms.soon(x, at)
	default:
		x.due(t)
	}
}

// due tells what has come to be, unless too much is told already.
func (x *tripped) due(t *Table) {
	e, open := x.listed(), x.rejecting() > 0
	if e == nil || open == x.open {
		t.weigh(x)
		return
	}
	if t.clock >= t.verdictsFrom+verdictEvery {
		t.verdictsFrom, t.verdictsTold = t.clock, 0
	}
	if t.verdictsTold >= verdictBurst {
		t.alarms.set(x, t.verdictsFrom+verdictEvery)
		return
	}
	t.verdictsTold++
	x.open, x.told = open, max(t.clock, 1)
	told := eider.Event{Kind: eider.EventBreakersClosed, Service: x.svc.name, ID: x.id, Incarnation: e.rec.Incarnation, Status: e.rec.Status}
	if open {
		first := x.first()
		told.Kind, told.Caller, told.Detail = eider.EventBreakerOpen, first.by.name, first.breaker().Why()
	}
	t.event(told)
	t.weigh(x)
}

// first is the caller whose breaker has been open for the longest.
func (x *tripped) first() (first *verdict) {
	for _, v := range x.verdicts {
		if v.state.Rejects() && (first == nil || cmp.Or(cmp.Compare(v.since, first.since), cmp.Compare(v.by.name, first.by.name)) < 0) {
			first = v
		}
	}
	return first
}

func (v *verdict) breaker() eider.Breaker {
	b := eider.Breaker{State: v.state, Rule: v.rule, Count: uint64(v.count), Of: uint64(v.of), Since: time.UnixMilli(v.since).UTC()}
	if v.retry != 0 {
		b.Retry = time.UnixMilli(v.retry).UTC()
	}
	return b
}

// Breakers returns what callers' breakers say of the instances of a service, ordered by id. Nothing is returned of who
// isn't listed.
func (t *Table) Breakers(service string) (out []eider.Breakers) {
	svc := t.services[service]
	if svc == nil || len(svc.tripped) == 0 {
		return nil
	}
	callers := svc.reporting()
	for _, x := range svc.tripped {
		if e := x.listed(); e != nil && len(x.verdicts) > 0 {
			out = append(out, x.word(e, callers))
		}
	}
	slices.SortFunc(out, func(a, b eider.Breakers) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (x *tripped) word(e *entry, callers int) eider.Breakers {
	graver := func(a, b *verdict) int {
		switch {
		case a.state.Graver(b.state):
			return -1
		case b.state.Graver(a.state):
			return 1
		}
		return cmp.Or(cmp.Compare(a.since, b.since), strings.Compare(a.by.name, b.by.name))
	}
	var top []*verdict // of thousands only the first are put into order
	for _, v := range x.verdicts {
		if len(top) == eider.MaxSeen {
			if graver(v, top[len(top)-1]) > 0 {
				continue
			}
			top = top[:len(top)-1]
		}
		i, _ := slices.BinarySearchFunc(top, v, graver)
		top = slices.Insert(top, i, v)
	}
	b := eider.Breakers{Key: e.rec.Key, Incarnation: e.rec.Incarnation, State: top[0].state, Rejecting: x.rejecting(),
		Told: len(x.verdicts), Callers: callers, LeftOut: len(x.verdicts) - len(top)}
	for _, v := range top {
		b.Seen = append(b.Seen, eider.Seen{Caller: v.by.name, Breaker: v.breaker()})
	}
	return b
}

// Reporting counts the callers that have a stream, by which they could tell of their breakers: those of a service, or
// of any.
func (t *Table) Reporting(service string) (n int) {
	if svc := t.services[service]; svc != nil {
		return svc.reporting()
	}
	if service == "" {
		for _, p := range t.processes {
			n += toInt(p.streams > 0 && len(p.follows) > 0)
		}
	}
	return n
}

func (s *service) reporting() (n int) {
	for _, f := range s.followers {
		n += toInt(f.streams > 0)
	}
	return n
}

// Tripped is what callers' breakers say of the instances of one service, in numbers.
type Tripped struct {
	States    [eider.BreakerStates]int // breakers, by their state; how many are closed isn't known
	Instances int                      // of which some caller's breaker turns calls away
	Opened    uint64                   // times that a caller has told that one has opened
}

// Tripped counts the breakers of a service.
func (t *Table) Tripped(service string) (n Tripped) {
	svc := t.services[service]
	if svc == nil {
		return n
	}
	n.Opened = svc.opened
	for _, x := range svc.tripped {
		if x.listed() == nil {
			continue
		}
		for s, k := range x.states {
			n.States[s] += k
		}
		n.Instances += toInt(x.rejecting() > 0)
	}
	return n
}
