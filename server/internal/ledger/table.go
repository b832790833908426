package ledger

import (
	"time"

	"github.com/eiderhq/eider"
)

// Table is one node's knowledge. It isn't safe for use by several goroutines: its replica has a lock.
//
// One entry is kept for each key, live or a tombstone. What needs to be known at once is counted as it
// changes (tally.go), what falls due is in one heap (alarm.go), what is forgotten after a fixed time is in
// a queue; so no operation costs more where there are more instances, and each is bounded by Config.
type Table struct {
	cfg Config

	start  time.Time // by the wall's clock
	last   time.Time // of the last call
	clock  moment
	grace  moment // until then silence ends nobody
	before moment // until then there may be callers from before this run that haven't come back

	outwaited bool // the memory says that this is over
	work      int  // what this Look may still do

	services  map[string]*service
	sessions  map[Session]*pulse
	followers map[Follower]*follower
	processes map[string]*process
	addresses map[string]*entry // the latest at each, others linked behind it
	drains    map[departure]*drain
	holds     map[eider.Key]*hold
	finished  []*drain       // the latest last
	begun     uint64         // drains, ever
	reports   uint64         // made of drains, ever
	callers   int            // processes that follow something
	pollers   int            // of those, the ones that poll
	pollersOf map[string]int // by principal
	polled    caps           // of all of them
	answers   uint64         // to polls, ever
	held      int            // keys
	freed     []*hold        // released, the latest last
	counted   uint64         // the highest count of a hold or a release that is known
	counting  bool           // this run has given one
	ofHolds   int            // of the running drains
	used      int            // services with an instance or a caller
	waits     moment         // some caller was told to come back by then
	peers     []peer

	words   words
	alarms  alarms
	endings alarms // of holds, by the wall's clock
	rounds  rounds
	pulses  pulses
	tombs   list
	live    int // instances

	groups     map[groupKey]*group
	node       scope
	kept       []*group // with overdue instances
	touched    []*group
	lapses     []lapse // of the last lease
	preserving int     // scopes that are
	suspects   int

	refusals    []refusal      // of the last ten seconds
	refusedDead int            // of those, that ended an instance
	confirmed   []confirmation // of the last ten seconds, by callers
	ends        []moment       // streams lost within the last second
	storm       storm

	verdicts     int    // of all callers
	verdictsFrom moment // of the time in which events of them are counted …
	verdictsTold int    // … and how many there were

	fx Effects // of the method at work
}

// New returns an empty table of a node that starts now.
func New(cfg Config, now time.Time) *Table {
	cfg = cfg.withDefaults()
	t := &Table{
		cfg: cfg, start: now.Round(0), last: now, node: scope{floor: 2},
		services: map[string]*service{}, sessions: map[Session]*pulse{}, followers: map[Follower]*follower{},
		processes: map[string]*process{}, addresses: map[string]*entry{}, drains: map[departure]*drain{}, holds: map[eider.Key]*hold{}, pollersOf: map[string]int{},
		groups: map[groupKey]*group{}, words: words{}, rounds: newRounds(cfg.SuspectAfter),
	}
	if !cfg.Fresh {
		t.before = cfg.Cap
	}
	return t
}

// Counts are the sizes of a table.
type Counts struct {
	Services   int // with an instance, a tombstone or a caller
	Instances  int // live
	Callers    int // that follow something, connected or remembered
	Tombstones int
	Sessions   int // attach streams
	Followers  int // watch streams of callers
	Suspects   int // live and doubted
	Draining   int // running drains of who leaves
	Holds      int // keys that are held
}

// Running are the drains that run, in numbers.
type Running struct {
	Waiting   int // for callers
	Finishing int // what is in flight: their barrier is reached
	Open      int // callers that both wait for
	Holding   int // callers that haven't let go of who is held
}

// Counts tells the table's sizes.
func (t *Table) Counts() Counts {
	return Counts{Services: len(t.services), Instances: t.live, Callers: t.callers, Tombstones: t.tombs.length,
		Sessions: len(t.sessions), Followers: len(t.followers), Suspects: t.suspects, Draining: len(t.drains) - t.ofHolds, Holds: t.held}
}

// event tells that something happened.
func (t *Table) event(e eider.Event) { t.fx.Events = append(t.fx.Events, e) }

// tell tells what happened to an instance.
func (t *Table) tell(kind eider.EventKind, e *entry, detail string) {
	t.event(eider.Event{Kind: kind, Service: e.svc.name, ID: e.rec.ID, Incarnation: e.rec.Incarnation,
		Status: e.rec.Status, Suspicion: e.suspicion, Detail: detail})
}

// changed tells that an instance's line in the view has changed.
func (t *Table) changed(e *entry) {
	key := e.rec.Key
	if n := len(t.fx.Changed); n == 0 || t.fx.Changed[n-1] != key {
		t.fx.Changed = append(t.fx.Changed, key)
	}
}

// progress tells that a drain has moved.
func (t *Table) progress(d *drain) {
	if n := len(t.fx.Drains); n == 0 || t.fx.Drains[n-1] != d.dep {
		t.fx.Drains = append(t.fx.Drains, d.dep)
	}
}
