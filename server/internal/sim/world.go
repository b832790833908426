package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// settings are the ledger's, an eighth to a quarter of their defaults, so that a minute has many leases.
func settings(name string, run uint64, fresh bool) ledger.Config {
	return ledger.Config{Node: name, Run: run, Fresh: fresh, Memory: true, Lease: lease, Beat: beat, Cap: maxPause, Remember: remember,
		Reattach: 500 * time.Millisecond, Retention: time.Hour}
}

const (
	lease    = 5 * time.Second
	beat     = time.Second
	maxPause = 3 * time.Second
	remember = 15 * time.Second

	chaosTime = 45 * time.Second // faults begin within it
	quietTime = 20 * time.Second // then all is healed
)

// world is one run.
type world struct {
	seed    uint64
	rng     *rand.Rand
	now     time.Duration
	queue   queue
	order   uint64
	nodes   []*node
	procs   []*proc
	callers []*caller
	pollers []*poller
	cuts    map[[2]int]int // between places, counted
	places  int
	quiet   bool
	drop    float64 // of messages between nodes
	dup     float64
	slow    time.Duration // the longest delay between nodes
	nonces  uint64
	left    map[uint64]bool // nonces of processes that have said Left
	broken  []string        // what did not hold
	trace   *strings.Builder
	steps   int
}

// Result tells how a run went.
type Result struct {
	Seed     uint64
	Steps    int
	Barriers int
	Capped   int
	Lapses   int
	Deaths   int
	Polled   int      // drains that a poller's own timers ended
	Wedged   int      // suspicions
	Held     int      // barriers of holds
	Restored int      // nodes that came back with what they knew
	Broken   []string // what did not hold; empty is good
	Trace    string   // what happened, if asked for
}

// Run plays one seed.
func Run(seed uint64, trace bool) Result {
	w := newWorld(seed)
	if trace {
		w.trace = &strings.Builder{}
	}
	w.populate()
	w.plan()
	w.until(chaosTime)
	w.heal()
	w.until(chaosTime + quietTime)
	w.finalCheck()
	r := Result{Seed: seed, Steps: w.steps, Broken: w.broken}
	for _, n := range w.nodes {
		r.Barriers += n.seen[eider.EventBarrier]
		r.Capped += n.seen[eider.EventCapped]
		r.Lapses += n.seen[eider.EventLapsed]
		r.Deaths += n.seen[eider.EventDead]
		r.Polled += n.polled
		r.Wedged += n.wedged
		r.Held += n.heldBarriers
		r.Restored += n.seen[eider.EventRestored]
	}
	if w.trace != nil {
		r.Trace = w.trace.String()
	}
	return r
}

func newWorld(seed uint64) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 0xe1de5)), cuts: map[[2]int]int{}, left: map[uint64]bool{}}
	w.drop = w.rng.Float64() * 0.3
	w.dup = w.rng.Float64() * 0.3
	w.slow = time.Duration(1+w.rng.IntN(1000)) * time.Millisecond
	return w
}

// populate draws who takes part.
func (w *world) populate() {
	nodes := 1 + w.rng.IntN(4)
	for i := range nodes {
		w.nodes = append(w.nodes, w.newNode(i))
	}
	for _, n := range w.nodes {
		n.meet()
	}
	services := 1 + w.rng.IntN(2)
	for i := range 2 + w.rng.IntN(5) {
		k := eider.Key{Service: fmt.Sprint("s", i%services), ID: fmt.Sprint(i)}
		w.start(k, fmt.Sprintf("10.0.0.1:%d", 100+i))
		if w.chance(0.15) { // a second process claims the same key, from another address
			w.start(k, fmt.Sprintf("10.0.0.2:%d", 100+i))
		}
	}
	for i := range 1 + w.rng.IntN(5) {
		service := fmt.Sprint("s", i%services)
		if p := w.procs[w.rng.IntN(len(w.procs))]; w.chance(0.4) && p.caller == nil {
			p.caller = w.startCaller(p.name, service, p.place)
			continue
		}
		w.startCaller(fmt.Sprint("c", i), service, w.place())
	}
	for i := range w.rng.IntN(3) {
		w.startPoller(fmt.Sprint("o", i), fmt.Sprint("s", i%services))
	}
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// between draws a time.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)+1))
}

// place is one more spot in the network, from which cuts are counted.
func (w *world) place() int { w.places++; return w.places }

func (w *world) cut(a, b int) bool { return w.cuts[link(a, b)] > 0 }

func link(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%8.3f ", w.now.Seconds())
		fmt.Fprintf(w.trace, format+"\n", args...)
	}
}

// broke writes down what did not hold.
func (w *world) broke(format string, args ...any) {
	text := fmt.Sprintf("at %s: ", w.now) + fmt.Sprintf(format, args...)
	w.log("BROKEN %s", text)
	if len(w.broken) < 10 {
		w.broken = append(w.broken, text)
	}
}

// event is something that will happen.
type event struct {
	at    time.Duration
	order uint64
	do    func()
}

// queue is a heap of events; those of one moment happen in the order in which they were planned.
type queue []event

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// after plans something.
func (w *world) after(d time.Duration, do func()) { w.atTime(w.now+d, do) }

func (w *world) atTime(at time.Duration, do func()) {
	w.order++
	q := append(w.queue, event{at, w.order, do})
	for i := len(q) - 1; i > 0 && q[i].before(&q[(i-1)/2]); i = (i - 1) / 2 {
		q[i], q[(i-1)/2] = q[(i-1)/2], q[i]
	}
	w.queue = q
}

func (w *world) next() event {
	q := w.queue
	first, last := q[0], len(q)-1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1].before(&q[child]) {
			child++
		}
		if !q[child].before(&q[i]) {
			break
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
	w.queue = q
	return first
}

func (w *world) until(end time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= end {
		e := w.next()
		w.now = e.at
		e.do()
		w.steps++
	}
	w.now = end
}

// mailbox is where what is stopped finds later what came meanwhile.
type mailbox struct {
	stopped bool
	waiting []func()
}

func (m *mailbox) do(f func()) {
	if m.stopped {
		m.waiting = append(m.waiting, f)
		return
	}
	f()
}

func (m *mailbox) resume() {
	m.stopped = false
	waiting := m.waiting
	m.waiting = nil
	for i, f := range waiting {
		if m.stopped { // by one of them
			m.waiting = append(m.waiting, waiting[i:]...)
			return
		}
		f()
	}
}

// clock is what a node's wall clock says.
func clock(now time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(now) }
