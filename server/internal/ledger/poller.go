package ledger

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/eiderhq/eider"
)

// A poller fetches the list now and then and keeps it for a while. It never says that it has let go, but its timers
// do: it uses nothing older than what it last fetched for longer than every + cache. So a drain waits for it until
// its timers say so by themselves, or until its cache has run out since it has shown that it has a list made after
// the leave. That it was sent one shows nothing: an answer may be lost on its way.
//
// Each answer has a number, and whoever comes back with it has had that answer. A process shows the number that it
// showed last or, if what it was sent then has arrived, that one. Whatever else is shown under a name was given to
// another process of that name, or is nobody's.

const (
	pollMargin = time.Second      // for an answer on its way, or for a call that has been picked and has yet to arrive
	maxPoll    = 10 * time.Minute // of either timer
	pollsKept  = 3                // times every + cache: a poller that stays away for longer is forgotten
)

// Polling is a caller's word on how it polls.
type Polling struct {
	Caller  string // its name, one for each process
	Service string
	Every   time.Duration // the longest time from one fetched list to the next
	Cache   time.Duration // for how long it may use an older list than the one that it fetched last
	Has     uint64        // the answer that it shows to have, by its number; 0: none
	Run     uint64        // of the node, when it gave that answer

	Identity string     // who it has shown to be; "" where nobody is asked
	Addr     netip.Addr // where it comes from; not valid when that isn't IP
}

// Check holds the word to its bounds, all faults at once.
func (p *Polling) Check() error {
	var errs []error
	if p.Caller == "" {
		errs = append(errs, errors.New("caller: the name is missing; use one for each process, as in checkout@host-1"))
	}
	if p.Every <= 0 || p.Every > maxPoll {
		errs = append(errs, fmt.Errorf("every: %s must be more than 0s and at most %s", p.Every, maxPoll))
	}
	if p.Cache < 0 || p.Cache > maxPoll {
		errs = append(errs, fmt.Errorf("cache: %s must be from 0s to %s", p.Cache, maxPoll))
	}
	if err := errors.Join(errs...); err != nil {
		return &eider.Error{Op: "poll " + p.Service, Kind: eider.Invalid, Err: err}
	}
	return nil
}

// timers are a caller's word on how it polls.
type timers struct{ every, cache moment }

// cap is for how long may still be used what was fetched before a leave.
func (w timers) cap() moment { return w.every + w.cache + pollMargin }

// or is the word that is true of two.
func (w timers) or(other timers) timers {
	return timers{max(w.every, other.every), max(w.cache, other.cache)}
}

// polling is how a caller of a service polls. Its timers are the longest of what was said while that may still count:
// a name that several processes share has words of different length, and the shorter isn't true of all.
type polling struct {
	timers              // that count: word.or(later)
	word, later  timers // the word in force, and the longest said since
	said         moment // when word came in force
	at           moment // its last poll
	several      moment // until then it is taken for several processes under one name
	shown, given uint64 // answers: the one that it showed at its last poll, and the one that it got
}

func (p *polling) kept() moment { return pollsKept*(p.every+p.cache) + pollMargin }

// Poll counts a poll of a service, and numbers its answer, which must hold what the table knows now, or later. at is
// the number of the view in it. Errors: NotFound for a service that nobody knows; Invalid for a word out of bounds;
// Conflict when a process of that name has a stream; Limited when there are too many callers.
func (t *Table) Poll(now time.Time, p Polling, at uint64) (answer uint64, fx Effects, err error) {
	t.begin(now)
	if err = p.Check(); err == nil {
		err = t.poll(now, &p, at)
	}
	return t.answers, t.take(), err
}

func (t *Table) poll(now time.Time, said *Polling, at uint64) error {
	op := "poll " + said.Service
	svc := t.services[said.Service]
	if svc == nil {
		return eider.Errorf(eider.NotFound, op, "nobody has ever registered there")
	}
	name, who, err := t.pollerName(op, said)
	if err != nil {
		return err
	}
	var f *following
	if proc := t.processes[name]; proc != nil {
		f = proc.following(svc)
	}
	if f == nil {
		if f, err = t.followByPolls(now, name, who, svc); err != nil {
			return err
		}
	}
	has := t.shown(f, said)
	t.heardPoll(f, said)
	f.at = at
	t.alarms.set(f, t.clock+f.poll.kept())
	for _, d := range svc.running {
		t.fetched(d, f, has)
	}
	return nil
}

// pollerName returns the name under which polls count, and who stands behind it. As with streams, a name is one
// principal's: who polls under that of another one is a caller of his own, and settles nobody else.
func (t *Table) pollerName(op string, said *Polling) (name, who string, err error) {
	who = Peer{Identity: said.Identity, Addr: said.Addr}.principal()
	name = own(plain(said.Caller))
	if proc := t.processes[name]; proc != nil && who != "" && proc.who != "" && proc.who != who {
		name += " polling from " + who
	}
	if proc := t.processes[name]; proc != nil && !proc.polls {
		err = eider.Errorf(eider.Conflict, op, "a process called %.40q has a stream here and counts by its acknowledgements; poll under another name", name)
	}
	return name, who, err
}

// followByPolls makes a process that polls a caller of a service. Half of the callers may be such, and a fifth may be
// one principal's: who acknowledges isn't turned away for those who only say when they ask.
func (t *Table) followByPolls(now time.Time, name, who string, svc *service) (*following, error) {
	if t.processes[name] == nil {
		var err *eider.Error
		if all, own := t.cfg.MaxCallers/2, t.cfg.MaxCallers/5; t.pollers >= all {
			err = eider.Errorf(eider.Limited, "poll "+svc.name, "this node already has %d callers that poll, the most it takes; raise --max-callers, of which they may be half, or use another node", all)
		} else if who != "" && who != local && t.pollersOf[who] >= own {
			err = eider.Errorf(eider.Limited, "poll "+svc.name, "%s already has %d callers that poll, the most that one may have here; use fewer names, raise --max-callers, of which that is a fifth, or use another node", who, own)
		}
		if err != nil {
			err.RetryAfter = retryFull
			return nil, err
		}
	}
	p := t.named(name)
	f, err := t.follow(now, p, svc.name)
	if err != nil {
		t.part(p)
		return nil, err
	}
	if !p.polls {
		p.polls, p.who = true, who
		t.pollers++
		t.pollersOf[who]++
	}
	f.poll = &polling{at: -maxPoll}
	return f, nil
}

// shown returns the answer that a caller shows to have, 0 if it shows none, and numbers the next one. A name under
// which anything is shown but what one process would show is taken for several that share it, for as long as any of
// them is kept in mind: what one of them has says nothing of the others. So is a name that comes back with nothing,
// which one process does that has started anew, or that shows nothing ever. In doubt its timers count.
func (t *Table) shown(f *following, said *Polling) (has uint64) {
	p := f.poll
	known := said.Run == t.cfg.Run && said.Has > 0 && said.Has <= t.answers
	if known {
		has = said.Has
	}
	follows := known && (has == p.shown || has == p.given)
	if !follows && p.every > 0 {
		p.several = t.clock + max(p.kept(), pollsKept*(said.Every+said.Cache)+pollMargin)
	}
	t.answers++
	p.shown, p.given = has, t.answers
	if follows {
		return has
	}
	return 0
}

// heardPoll takes down how a caller polls. A shorter word counts once the time of the longer one has passed, since what
// was fetched under that is still in use; and then the longest that was said meanwhile counts, for its own time from
// there. So no word counts for less than its time, however many share the name.
func (t *Table) heardPoll(f *following, said *Polling) {
	p, was := f.poll, f.poll.cap()
	if p.every > 0 {
		t.countCap(f, -1)
	}
	switch word := (timers{said.Every, said.Cache}); {
	case word == p.or(word):
		p.word, p.later, p.said = word, timers{}, t.clock
	case t.clock >= p.said+p.word.cap():
		p.word, p.later, p.said = p.later.or(word), timers{}, t.clock
	default:
		p.later = p.later.or(word)
	}
	p.timers = p.word.or(p.later)
	p.at = t.clock
	t.countCap(f, +1)
	if p.cap() != was {
		t.noteCaller(f)
	}
}

func (t *Table) countCap(f *following, by int) {
	f.svc.polled.count(f.poll.cap(), by)
	t.polled.count(f.poll.cap(), by)
}

// fetched tells a drain that a caller has fetched the list, and shows to have what it got with an earlier answer. The
// first that was given since the leave counts. It arrived before this poll was sent, so that nothing older is picked
// from once the cache has run out since; the margin is for whoever was picked a moment before that.
func (t *Table) fetched(d *drain, f *following, has uint64) {
	if d.reached {
		return
	}
	t.join(d, f)
	m := &d.members[d.index[f.proc.name]]
	if m.state.Settled() {
		return
	}
	if c := f.poll.cap(); c > m.cap {
		m.cap, m.polled.every, m.polled.cache = c, f.poll.every, f.poll.cache
		d.bound = max(d.bound, c)
		t.progress(d)
	}
	if m.polled.fresh == 0 && has > d.answers && t.clock >= f.poll.several {
		m.polled.fresh = t.clock - d.from + f.poll.cache + pollMargin
		t.alarms.soon(d, d.from+m.until())
	}
}

// missed forgets a poller that stayed away. Drains that wait for it wait for its cap, which has mostly passed.
func (t *Table) missed(f *following) {
	t.unfollow(f, "has not polled for "+(t.clock-f.poll.at).Round(time.Millisecond).String())
	t.part(f.proc)
}

// pollsNoMore undoes what followByPolls and heardPoll have counted.
func (t *Table) pollsNoMore(f *following) {
	if f.poll == nil {
		return
	}
	t.countCap(f, -1)
	if len(f.proc.follows) == 0 {
		t.pollers--
		if t.pollersOf[f.proc.who]--; t.pollersOf[f.proc.who] == 0 {
			delete(t.pollersOf, f.proc.who)
		}
	}
}

// kind, capOf and timers tell how a caller counts.
func (f *following) kind() eider.CallerKind {
	if f.poll != nil {
		return eider.Poller
	}
	return eider.Native
}

func (t *Table) capOf(f *following) time.Duration {
	if f.poll != nil {
		return f.poll.cap()
	}
	return t.cfg.Cap + max(f.proc.wait-t.clock, 0)
}

// polled is what a drain knows of a poller.
type polled struct {
	every, cache time.Duration
	fresh        moment // after the leave: what it had fetched before is out of use; 0 as long as it hasn't shown a later list
}

func (f *following) timers() polled {
	if f.poll == nil {
		return polled{}
	}
	return polled{every: f.poll.every, cache: f.poll.cache}
}

// until is when a member is settled if nothing more is heard of it, counted from the leave.
func (m *member) until() moment {
	if m.polled.fresh > 0 {
		return min(m.cap, m.polled.fresh)
	}
	return m.cap
}

// overdue says why a member is covered by its cap.
func (m *member) overdue() string {
	switch {
	case m.state == eider.NoAlternative:
		return "had no alternative within " + m.cap.String()
	case m.kind == eider.Poller:
		return fmt.Sprintf("polls: what it had fetched before is out of use after %s (fetch %s + cache %s)", m.cap, m.polled.every, m.polled.cache)
	case m.kind == eider.UnknownCallers:
		return "their pause of " + m.cap.String() + " is over"
	}
	return "has not let go within " + m.cap.String()
}

// elsewhere is a caller that another node reports. Who counts by time brings his own; a poller's counts from the report,
// since until that node had applied the leave it has handed out the older list.
func (t *Table) elsewhere(d *drain, node, name string, m *eider.Member) member {
	out := member{caller: name, kind: m.Kind, cap: t.cfg.Cap, nodes: []string{node}}
	if m.Kind == eider.Poller {
		out.cap = t.clock - d.from + min(m.Cap, 2*maxPoll+pollMargin)
		out.polled = polled{every: m.Every, cache: m.Cache}
	}
	return out
}

// caps counts the caps of pollers in whole seconds, rounded up, so that the longest is at hand among many: a bound may
// be told too long, never too short.
type caps map[int32]int

func (c *caps) count(cap moment, by int) {
	if *c == nil {
		*c = caps{}
	}
	seconds := int32((cap + time.Second - 1) / time.Second)
	if (*c)[seconds] += by; (*c)[seconds] == 0 {
		delete(*c, seconds)
	}
}

func (c caps) longest() (longest moment) {
	for seconds := range c {
		longest = max(longest, time.Duration(seconds)*time.Second)
	}
	return longest
}
