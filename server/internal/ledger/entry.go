package ledger

import (
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// entry is what the table knows of one key: a live instance, or the tombstone of one. There is one for
// each key, so the highest incarnation that is known of a key is always at hand.
type entry struct {
	rec       eider.Record // of a tombstone: what orders it, and how it ended
	suspicion eider.Suspicion
	svc       *service

	// Only for what is attached here, or was when last heard of:
	owned     bool // this node writes its record and keeps its lease
	dialable  bool // its address may be dialled
	reachable bool // and accepted a dial when it became UP
	lost      bool // its stream ended without a word
	refused   bool // refused a dial, but too many did
	past      bool // its lease has run out, and preservation keeps it: it is in grp.overdue
	ordered   bool // it is in svc.order

	counted tally
	sess    *session // nil when detached
	home    Session  // the last session it was attached on
	proc    *process
	grp     *group
	index   int32 // in sess.entries
	slot    int32 // in the alarms
	lease   moment
	extra   moment // retry-afters handed out since its last attach
	beat    moment // of its last beat, when detached
	lostAt  moment
	doubted moment // when a caller last had a dial refused; 0 never
	dialed  moment // when evidence was last asked for; 0 never
	endedAt moment // of a tombstone
	lapse   moment // the lapse that counts in its group as recent; 0 none
	secret  Secret // digest of the incarnation's; zero: none is known here
	doubter string // who had that dial refused
	witness string // who alone has confirmed that its port refuses, and was not enough; "" nobody
	hold    *hold  // on its key; nil: none

	owner  string // another node that wrote the record; "" when attached here
	prev   *entry // in overdue while live, among the tombstones when gone
	next   *entry
	ahead  *entry // at the same address
	after  *entry
	work   *work      // what it says of its requests; nil as long as it says nothing
	former *[4]uint64 // nonces of superseded incarnations, the latest first
}

func (e *entry) place() *int32 { return &e.slot }

func (e *entry) live() bool { return e.rec.Status.Live() }

func (e *entry) instance() eider.Instance {
	return eider.Instance{Record: e.rec, Suspicion: e.suspicion, Hold: e.hold.said()}
}

// held tells whether a second process that claims the key must be refused: as far as this node knows, its
// holder lives. Of one that is attached elsewhere, another node knows better, and will say so.
func (e *entry) held() bool {
	return e.live() && e.suspicion == 0 && (e.sess != nil || !e.owned)
}

func (e *entry) isFormer(nonce uint64) bool {
	return e.former != nil && slices.Contains(e.former[:], nonce)
}

// supersede remembers the nonce of the incarnation that another one replaces, so that its late messages
// are told from those of a new process, also if it never learned its number.
func (e *entry) supersede() {
	if e.former == nil {
		e.former = new([4]uint64)
	}
	copy(e.former[1:], e.former[:3])
	e.former[0] = e.rec.Incarnation.Nonce
}

// lastBeat is when it was last heard of.
func (e *entry) lastBeat() moment {
	if e.sess != nil {
		return e.sess.beat
	}
	return e.beat
}

// session is one attach stream. Beats are a process', so they are kept here, once for all its instances.
type session struct {
	*pulse
	anew    moment // see told
	id      Session
	peer    Peer
	proc    *process
	entries []*entry
}

// attachAnew has the process told with its first beat from then on.
func (s *session) attachAnew(at moment) {
	if !s.told || at < s.anew {
		s.told, s.anew = true, at
	}
}

// session returns an open session, nil if there is none of that number.
func (t *Table) session(s Session) *session {
	if p := t.sessions[s]; p != nil {
		return p.of
	}
	return nil
}

func (s *session) place() *int32 { return &s.slot }

func (s *session) add(e *entry) {
	e.sess, e.home, e.index = s, s.id, int32(len(s.entries))
	s.entries = append(s.entries, e)
}

func (s *session) drop(e *entry) {
	last := len(s.entries) - 1
	s.entries[e.index] = s.entries[last]
	s.entries[e.index].index = e.index
	s.entries[last] = nil
	s.entries = s.entries[:last]
	e.sess = nil
}

// process is one peer by its name, which joins its two streams.
type process struct {
	name                 string
	who                  string     // the principal of its streams; "" isn't known
	sessions, streams    int        // attach streams, watch streams
	watches              []Follower // those watch streams
	live, ended, unknown int        // its instances: listed; LEFT or DEAD; ended by silence or superseded
	follows              []*following
	polls                bool   // has no streams: it asks now and then
	wait                 moment // it was told to come back by then
	verdicts             []*verdict
}

// service is one name with its instances and its callers.
type service struct {
	name      string
	live      map[string]*entry
	gone      map[string]*entry
	order     []*entry // live, by id, unless stale: then unordered, and some may be gone
	stale     bool
	recent    []*entry // who ended lately, the latest last; some may have come back
	followers []*following
	running   []*drain
	strangers int                 // instances with unknown callers
	strange   time.Time           // the first of them said so
	polled    caps                // of its pollers
	tripped   map[string]*tripped // by id
	opened    uint64              // times that a breaker was told to have opened
	used      bool                // counts towards the limit: has an instance or a caller
	count     [lines]int
	held      int // live ones that are held
}

func (s *service) find(id string) *entry {
	if e := s.live[id]; e != nil {
		return e
	}
	return s.gone[id]
}

// list adds a live entry.
func (s *service) list(e *entry) {
	s.live[e.rec.ID] = e
	if !e.ordered {
		e.ordered = true
		s.order = append(s.order, e)
	}
	s.stale = true
	if len(s.order) > 2*len(s.live)+64 {
		s.sort() // nobody looks, and the gone would pile up
	}
}

// sort makes order what it says.
func (s *service) sort() {
	if !s.stale {
		return
	}
	s.stale = false
	s.order = slices.DeleteFunc(s.order, func(e *entry) bool {
		e.ordered = e.live() && s.live[e.rec.ID] == e
		return !e.ordered
	})
	slices.SortFunc(s.order, func(a, b *entry) int { return strings.Compare(a.rec.ID, b.rec.ID) })
}

func (s *service) empty() bool {
	return len(s.live) == 0 && len(s.gone) == 0 && len(s.followers) == 0 && len(s.running) == 0
}

// find returns what is known of a key, nil if nothing is.
func (t *Table) find(key eider.Key) *entry {
	if svc := t.services[key.Service]; svc != nil {
		return svc.find(key.ID)
	}
	return nil
}

// service returns the service of a name, a new one if need be.
func (t *Table) service(name string) *service {
	svc := t.services[name]
	if svc == nil {
		svc = &service{name: strings.Clone(name), live: map[string]*entry{}}
		t.services[svc.name] = svc
	}
	return svc
}

// use follows whether a service has an instance or a caller. Those of which only tombstones are left are
// bounded by these.
func (t *Table) use(svc *service) {
	if used := len(svc.live) > 0 || len(svc.followers) > 0; used != svc.used {
		svc.used = used
		t.used += toInt(used) - toInt(!used)
	}
}

// sweep forgets a service of which nothing is left.
func (t *Table) sweep(svc *service) {
	if svc.empty() {
		delete(t.services, svc.name)
	}
}

// process returns the process that a stream belongs to, a new one if need be. One that polls is another's.
func (t *Table) process(name string) *process {
	return t.named(t.streaming(name))
}

// streaming is the name under which the streams of a process that calls itself so are, or would be.
func (t *Table) streaming(name string) string {
	name = own(name)
	for p := t.processes[name]; p != nil && p.polls; p = t.processes[name] {
		name = "@" + name
	}
	return name
}

// own is the name that a process gets which calls itself so. None is called like the members that stand for many:
// a drain's members are known by their names.
func own(name string) string {
	if strings.HasPrefix(name, "callers ") || name == string(eider.UnknownCallers) {
		return "@" + name
	}
	return name
}

func (t *Table) named(name string) *process {
	p := t.processes[name]
	if p == nil {
		p = &process{name: strings.Clone(name)}
		t.processes[p.name] = p
	}
	return p
}

// part forgets a process of which nothing is left.
func (t *Table) part(p *process) {
	if p != nil && p.sessions == 0 && p.streams == 0 && p.live == 0 && len(p.follows) == 0 {
		delete(t.processes, p.name)
	}
}
