package ledger

import (
	"slices"
	"strconv"
	"time"

	"github.com/eiderhq/eider"
)

// follower is one watch stream of a caller. A caller that reconnects may have two for a while.
type follower struct {
	proc  *process
	subs  []*following
	since time.Time
}

// following is one caller of one service: connected, or remembered for a while after its last stream
// ended without a goodbye, since it may go on calling whom it knows.
type following struct {
	proc    *process
	svc     *service
	streams int
	index   int // in svc.followers
	slot    int32
	since   time.Time
	at      uint64      // the last view applied: a number of the replica's
	letGo   []departure // as last named; of some the leave may not be known here yet
	stuck   int         // drains for which it has no alternative
	poll    *polling    // how it polls; nil for who has streams
}

func (f *following) place() *int32 { return &f.slot }

// due forgets a caller whose stream ended long ago.
func (f *following) due(t *Table) {
	if f.poll != nil {
		t.missed(f)
		return
	}
	t.unfollow(f, "its stream ended "+t.cfg.Remember.String()+" ago, without a goodbye")
	t.part(f.proc)
}

// departure is a Departure by which one can look up: equality is by nonce.
type departure struct {
	eider.Key
	nonce uint64
	hold  uint64 // the count of the hold that it is for; 0: it leaves
}

func departureOf(r *eider.Record) departure { return departure{Key: r.Key, nonce: r.Incarnation.Nonce} }

func keyOf(d *eider.Departure) departure { return departure{d.Key, d.Incarnation.Nonce, d.Hold} }

// of names the departure for a hold instead.
func (d departure) of(hold uint64) departure {
	d.hold = hold
	return d
}

// Follow opens a caller's watch stream; observers never get here.
func (t *Table) Follow(now time.Time, f Follower, p Peer) Effects {
	t.begin(now)
	if t.followers[f] == nil {
		if p.Caller == "" {
			p.Caller = "unnamed@" + strconv.FormatUint(uint64(f), 10)
		}
		proc := t.claim(p)
		proc.streams++
		proc.watches = append(proc.watches, f)
		t.followers[f] = &follower{proc: proc, since: now}
		t.reconnected(proc)
	}
	return t.take()
}

// reconnected shows drains that a member has a stream again, or none.
func (t *Table) reconnected(p *process) {
	for _, f := range p.follows {
		for _, d := range f.svc.running {
			t.progress(d)
		}
	}
}

// Subscribe makes the follower's caller a caller of the service, and a member of every drain of it whose
// barrier isn't reached. letGo names what it has let go of already, here or of another node.
//
// Errors: Invalid for a name that is none; Limited when there are too many callers or services, or the
// caller follows too many; Stale when its stream has ended.
func (t *Table) Subscribe(now time.Time, f Follower, service string, letGo []eider.Departure) (Effects, error) {
	t.begin(now)
	err := t.subscribe(now, f, service, letGo)
	return t.take(), err
}

func (t *Table) subscribe(now time.Time, id Follower, service string, letGo []eider.Departure) error {
	const op = "subscribe to"
	f := t.followers[id]
	if f == nil {
		return eider.Errorf(eider.Stale, op+" "+service, "this stream has ended; open another one")
	}
	if err := eider.CheckService(service); err != nil {
		return &eider.Error{Op: op, Kind: eider.Invalid, Err: err}
	}
	fl := f.proc.following(t.services[service])
	if fl == nil {
		var err error
		if fl, err = t.follow(now, f.proc, service); err != nil {
			return err
		}
	}
	if !slices.Contains(f.subs, fl) {
		f.subs = append(f.subs, fl)
		fl.streams++
		t.alarms.cancel(fl)
	}
	fl.name(letGo)
	for _, d := range fl.svc.running {
		t.join(d, fl)
	}
	t.honour(fl)
	return nil
}

// honour ends the caller's part in the drains that it has named.
func (t *Table) honour(f *following) {
	for _, dep := range f.letGo {
		if d := t.drains[dep]; d != nil {
			t.resolve(d, f.proc.name, eider.LetGo)
		}
	}
}

// follow makes a process a caller of a service that it didn't follow.
func (t *Table) follow(now time.Time, p *process, service string) (*following, error) {
	var what string
	var limit int
	switch {
	case len(p.follows) >= maxFollowed:
		what, limit = "services that this caller follows", maxFollowed
	case len(p.follows) == 0 && t.callers >= t.cfg.MaxCallers:
		what, limit = "callers", t.cfg.MaxCallers
	case t.unused(service) && t.used >= t.cfg.MaxServices:
		what, limit = "services", t.cfg.MaxServices
	default:
		svc := t.service(service)
		fl := &following{proc: p, svc: svc, since: now, index: len(svc.followers)}
		svc.followers = append(svc.followers, fl)
		if len(p.follows) == 0 {
			t.callers++
		}
		p.follows = append(p.follows, fl)
		t.use(svc)
		t.noteCaller(fl)
		t.event(eider.Event{Kind: eider.EventCallerJoined, Service: service, Caller: p.name})
		return fl, nil
	}
	err := eider.Errorf(eider.Limited, "subscribe to "+service, "this node already has %d %s, the most it takes", limit, what)
	err.RetryAfter = retryFull
	return nil, err
}

// unfollow undoes follow.
func (t *Table) unfollow(f *following, why string) {
	svc, p := f.svc, f.proc
	last := len(svc.followers) - 1
	svc.followers[f.index] = svc.followers[last]
	svc.followers[f.index].index = f.index
	svc.followers[last] = nil
	svc.followers = svc.followers[:last]
	p.follows = slices.DeleteFunc(p.follows, func(other *following) bool { return other == f })
	if len(p.follows) == 0 {
		t.callers--
	}
	t.pollsNoMore(f)
	t.retractAll(p, svc, 0)
	f.streams = 0
	t.noteCaller(f)
	t.alarms.cancel(f)
	t.use(svc)
	t.sweep(svc)
	t.event(eider.Event{Kind: eider.EventCallerLeft, Service: svc.name, Caller: p.name, Detail: why})
}

// following returns how the process follows a service, nil if it doesn't.
func (p *process) following(svc *service) *following {
	for _, f := range p.follows {
		if f.svc == svc {
			return f
		}
	}
	return nil
}

// name takes down what the caller says it has let go of.
func (f *following) name(deps []eider.Departure) {
	f.letGo = f.letGo[:0]
	for i := range deps {
		if i == maxNamed {
			break // a caller that renounces more is held up by its caps, not believed without end
		}
		f.letGo = append(f.letGo, f.departure(&deps[i]))
	}
}

// hasLetGo tells whether the caller says so. The nonce alone rules nearly every other one out.
func (f *following) hasLetGo(key departure) bool {
	for i := range f.letGo {
		if f.letGo[i].nonce == key.nonce && f.letGo[i] == key {
			return true
		}
	}
	return false
}

func (f *following) departure(d *eider.Departure) departure {
	return departure{eider.Key{Service: f.svc.name, ID: d.ID}, d.Incarnation.Nonce, d.Hold}
}

// Unsubscribe undoes Subscribe: drains of the service no longer wait for this caller, unless another
// stream of it still follows.
func (t *Table) Unsubscribe(now time.Time, f Follower, service string) Effects {
	t.begin(now)
	if follower := t.followers[f]; follower != nil {
		fl := follower.proc.following(t.services[service])
		if i := slices.Index(follower.subs, fl); fl != nil && i >= 0 {
			follower.subs = slices.Delete(follower.subs, i, i+1)
			t.retractAll(follower.proc, fl.svc, f)
			if fl.streams--; fl.streams == 0 {
				t.excuse(fl, eider.Unfollowed)
				t.unfollow(fl, "no longer follows")
			}
		}
	}
	return t.take()
}

// Ack tells that all pickers of the caller have switched to the view at a number, what it has let go of
// (which ends its part in those drains, also if their leave becomes known here only later), and what it
// can't let go of because it has nobody else to call.
func (t *Table) Ack(now time.Time, f Follower, service string, at uint64, letGo, noAlternative []eider.Departure) Effects {
	t.begin(now)
	follower := t.followers[f]
	if follower == nil {
		return t.take()
	}
	fl := follower.proc.following(t.services[service])
	if fl == nil || !slices.Contains(follower.subs, fl) {
		return t.take()
	}
	fl.at = max(fl.at, at)
	fl.name(letGo)
	t.honour(fl)
	if fl.stuck > 0 || len(noAlternative) > 0 {
		t.stick(fl, noAlternative)
	}
	return t.take()
}

// stick takes down for which drains the caller has no alternative: they wait, and show why.
func (t *Table) stick(f *following, noAlternative []eider.Departure) {
	named := make(map[departure]struct{}, len(noAlternative)) // a service that leaves as a whole has thousands of each
	for i := range noAlternative {
		named[f.departure(&noAlternative[i])] = struct{}{}
	}
	f.stuck = 0
	for _, d := range f.svc.running {
		state := eider.Waiting
		if _, stuck := named[d.key]; stuck {
			state = eider.NoAlternative
			f.stuck++
		}
		t.wait(d, f.proc.name, state)
	}
}

// Goodbye tells that the caller has stopped calling; its stream is over. Another stream of it that is
// still open doesn't make it a caller again: the word is the process', not the stream's.
func (t *Table) Goodbye(now time.Time, f Follower) Effects {
	t.begin(now)
	if follower := t.followers[f]; follower != nil {
		t.dismiss(follower.proc, eider.SaidGoodbye, "said goodbye")
		t.drop(f, follower)
	}
	return t.take()
}

// Unfollow tells that a caller's stream has ended without a goodbye, whichever way: also a move to
// another node is none, since it shows nothing of the picks that are under way.
func (t *Table) Unfollow(now time.Time, f Follower, how Ending) Effects {
	t.begin(now)
	if follower := t.followers[f]; follower != nil {
		t.drop(f, follower)
		if p := follower.proc; how == Lost && (p.ended == 0 || p.live > 0) { // else its process has ended, as is known
			t.streamLost()
		}
		t.ended(follower.proc)
		t.part(follower.proc)
	}
	return t.take()
}

// drop ends a watch stream; who followed by it alone is remembered.
func (t *Table) drop(id Follower, f *follower) {
	delete(t.followers, id)
	t.retractAll(f.proc, nil, id)
	f.proc.streams--
	f.proc.watches = slices.DeleteFunc(f.proc.watches, func(other Follower) bool { return other == id })
	for _, fl := range f.subs {
		if fl.streams == 0 {
			continue // dismissed
		}
		if fl.streams--; fl.streams == 0 {
			t.alarms.set(fl, max(t.clock, f.proc.wait)+t.cfg.Remember)
		}
	}
	t.reconnected(f.proc)
	t.part(f.proc)
}

// dismiss ends all following of a process, and its part in every drain.
func (t *Table) dismiss(p *process, state eider.MemberState, why string) {
	for _, f := range slices.Clone(p.follows) {
		t.excuse(f, state)
		t.unfollow(f, why)
	}
}

// ended dismisses a caller whose own instances have all left or died, when no stream of either kind says
// that it lives on. Silence and supersession don't count: they tell nothing of a process.
func (t *Table) ended(p *process) {
	if p != nil && p.ended > 0 && p.live == 0 && p.unknown == 0 && p.streams == 0 && p.sessions == 0 {
		t.dismiss(p, eider.Ended, "its own instance has ended")
	}
}

// ExtendCaller adds a retry-after that this node has handed out to a caller to its cap in every drain that
// runs, and in those that begin before it has waited. A caller that isn't known may be one from before.
// Who comes under another's name delays nobody but himself.
func (t *Table) ExtendCaller(now time.Time, caller Peer, d time.Duration) Effects {
	t.begin(now)
	d = min(max(d, 0), maxWait)
	p := t.claimed(caller)
	switch {
	case d == 0:
	case p != nil && len(p.follows) > 0 && !p.polls:
		p.wait = max(p.wait, t.clock+d)
		t.waits = max(t.waits, p.wait)
		for _, f := range p.follows {
			t.noteCaller(f)
			if f.streams == 0 {
				t.alarms.set(f, p.wait+t.cfg.Remember)
			}
			for _, run := range f.svc.running {
				t.extend(run, p.name, d)
			}
		}
	case t.clock < t.before:
		t.comeBack(d)
	}
	return t.take()
}

// comeBack has barriers wait until somebody from before, who was told to come back in d, has done so: callers
// spread that by up to a quarter, and then have to connect.
func (t *Table) comeBack(d moment) {
	if t.cfg.Memory {
		t.noted(Trace{})
	}
	t.before = max(t.before, min(max(t.cfg.Cap+d, t.clock+d+d/4+t.cfg.Reattach), t.cfg.Cap+maxWait))
	for _, run := range t.running() {
		if i, ok := run.index[string(eider.FromBefore)]; ok && run.from+run.members[i].cap < t.before {
			t.extend(run, string(eider.FromBefore), t.before-run.from-run.members[i].cap)
		}
	}
}
