package ledger

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// world is what is around a table in these tests: a clock, processes that beat, ports that answer dials.
// It does what a replica does with effects, and writes down what happened.
type world struct {
	t         testing.TB
	now       time.Time
	tb        *Table
	processes map[string]*actor
	ports     map[string]Answer
	dials     []pending
	events    []eider.Event
	last      Effects // of the last call
	log       strings.Builder
	streams   uint64
	nonces    uint64
	answers   map[string]uint64 // that pollers have, by caller and service
}

// actor is one process: its streams, and what it knows of its instances.
type actor struct {
	name      string
	addr      netip.Addr
	session   Session
	follower  Follower
	beats     bool
	beaten    time.Time
	instances map[eider.Key]*eider.Record
}

type pending struct {
	at time.Time
	d  Dial
}

func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, now: time.Unix(1000, 0), processes: map[string]*actor{}, ports: map[string]Answer{}, answers: map[string]uint64{}}
	w.tb = New(cfg, w.now)
	return w
}

// fresh is a world in which nobody came before.
func fresh(t testing.TB) *world { return newWorld(t, Config{Node: "a", Fresh: true}) }

func (w *world) actor(name string) *actor {
	a := w.processes[name]
	if a == nil {
		a = &actor{name: name, addr: netip.MustParseAddr("10.0.0.1"), instances: map[eider.Key]*eider.Record{}}
		w.processes[name] = a
	}
	return a
}

func key(text string) eider.Key {
	service, id, _ := strings.Cut(text, "/")
	return eider.Key{Service: service, ID: id}
}

// saw takes effects in.
func (w *world) saw(fx Effects) {
	w.last = fx
	w.events = append(w.events, fx.Events...)
	for _, d := range fx.Dials {
		w.dials = append(w.dials, pending{w.now.Add(d.After), d})
	}
	w.write(fx)
}

func (w *world) write(fx Effects) {
	for _, e := range fx.Events {
		fmt.Fprintf(&w.log, "  %s\n", e)
	}
	for _, d := range fx.Dials {
		fmt.Fprintf(&w.log, "  dial %s after %s, try %d\n", d.Address, d.After, d.Try)
	}
	if fx.Flush {
		fmt.Fprintf(&w.log, "  publish at once: %s\n", joined(fx.Changed))
	}
	for _, t := range fx.Trials {
		fmt.Fprintf(&w.log, "  trial of %s by stream %d\n", t.Departure.Key, t.Follower)
	}
	for _, s := range fx.End {
		fmt.Fprintf(&w.log, "  end stream %d\n", s)
	}
}

func joined(keys []eider.Key) string {
	var out []string
	for _, k := range keys {
		out = append(out, k.String())
	}
	return strings.Join(out, " ")
}

func (w *world) attach(name string) *actor {
	a := w.actor(name)
	w.streams++
	a.session, a.beats, a.beaten = Session(w.streams), true, w.now
	w.saw(w.tb.Attach(w.now, a.session, Peer{Caller: name, Addr: a.addr}))
	return a
}

// register registers an instance as its process would: the same nonce and the next attachment for one
// that it knows. Its port accepts from then on.
func (w *world) register(name, k, address string, change ...func(*eider.Record)) (Grant, error) {
	a := w.actor(name)
	if a.session == 0 {
		w.attach(name)
	}
	rec := a.instances[key(k)]
	if rec == nil {
		w.nonces++
		rec = a.record(k, address)
		rec.Incarnation.Nonce += w.nonces
	}
	rec.Attachment++
	sent := *rec
	for _, c := range change {
		c(&sent)
	}
	if _, ok := w.ports[address]; !ok {
		w.ports[address] = Accepted
	}
	grant, fx, err := w.tb.Register(w.now, a.session, sent, 0, Proof{})
	w.saw(fx)
	if err == nil {
		rec.Incarnation, rec.Attachment = grant.Record.Incarnation, grant.Record.Attachment
	}
	return grant, err
}

// record makes what the process will say of a new instance.
func (a *actor) record(k, address string) *eider.Record {
	rec := &eider.Record{Key: key(k), Incarnation: eider.Incarnation{Nonce: 0xa0}, Status: eider.Up, Address: address}
	a.instances[rec.Key] = rec
	return rec
}

func (w *world) mustRegister(name, k, address string, change ...func(*eider.Record)) Grant {
	w.t.Helper()
	grant, err := w.register(name, k, address, change...)
	if err != nil {
		w.t.Fatalf("register %s: %v", k, err)
	}
	return grant
}

// fleet registers n instances of orders: p0 is orders/0 at 10.0.0.1:100, and so on.
func (w *world) fleet(n int) {
	w.t.Helper()
	for i := range n {
		w.mustRegister(fmt.Sprint("p", i), fmt.Sprint("orders/", i), fmt.Sprint("10.0.0.1:", 100+i))
	}
}

// silence stops the beats of the fleet's first n.
func (w *world) silence(n int) {
	for i := range n {
		w.actor(fmt.Sprint("p", i)).beats = false
	}
}

func (w *world) leave(name, k string) {
	w.t.Helper()
	fx, err := w.tb.Leave(w.now, w.actor(name).session, key(k), 0)
	w.saw(fx)
	if err != nil {
		w.t.Fatalf("leave %s: %v", k, err)
	}
}

func (w *world) left(name, k string) {
	w.t.Helper()
	fx, err := w.tb.Left(w.now, w.actor(name).session, key(k))
	w.saw(fx)
	if err != nil {
		w.t.Fatalf("left %s: %v", k, err)
	}
}

func (w *world) detach(name string, how Ending) {
	a := w.actor(name)
	w.saw(w.tb.Detach(w.now, a.session, how))
	a.session, a.beats = 0, false
}

// kill is kill -9: ports close, streams end.
func (w *world) kill(name string) {
	a := w.actor(name)
	for _, rec := range a.instances {
		w.ports[rec.Address] = Refused
	}
	if a.session != 0 {
		w.detach(name, Lost)
	}
	if a.follower != 0 {
		w.unfollow(name, Lost)
	}
}

func (w *world) follow(name string, services ...string) *actor {
	w.t.Helper()
	a := w.actor(name)
	w.streams++
	a.follower = Follower(w.streams)
	w.saw(w.tb.Follow(w.now, a.follower, Peer{Caller: name, Addr: a.addr}))
	for _, s := range services {
		w.subscribe(name, s)
	}
	return a
}

func (w *world) subscribe(name, service string, letGo ...eider.Departure) {
	w.t.Helper()
	fx, err := w.tb.Subscribe(w.now, w.actor(name).follower, service, letGo)
	w.saw(fx)
	if err != nil {
		w.t.Fatalf("subscribe to %s: %v", service, err)
	}
}

func (w *world) unfollow(name string, how Ending) {
	a := w.actor(name)
	w.saw(w.tb.Unfollow(w.now, a.follower, how))
	a.follower = 0
}

// departure names the leaving of what is known of a key now, live or gone.
func (w *world) departure(k string) eider.Departure {
	e := w.tb.find(key(k))
	if e == nil {
		w.t.Fatalf("%s isn't known", k)
	}
	return e.rec.Departure()
}

func (w *world) letGo(name string, keys ...string) {
	var deps []eider.Departure
	for _, k := range keys {
		deps = append(deps, w.departure(k))
	}
	w.saw(w.tb.Ack(w.now, w.actor(name).follower, key(keys[0]).Service, 1, deps, nil))
}

// advance lets time pass as a replica does: it looks when Next says, answers dials, and processes beat
// every two seconds.
func (w *world) advance(d time.Duration) {
	end := w.now.Add(d)
	for {
		next := w.tb.Next()
		for _, p := range w.dials {
			next = sooner(next, p.at)
		}
		for _, a := range w.processes {
			if a.beats {
				next = sooner(next, a.beaten.Add(2*time.Second))
			}
		}
		if next.After(end) {
			break
		}
		w.step(later(next, w.now))
	}
	w.step(end)
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (w *world) step(to time.Time) {
	w.now = to
	from := w.log.Len()
	for _, name := range slices.Sorted(maps.Keys(w.processes)) {
		if a := w.processes[name]; a.beats && !w.now.Before(a.beaten.Add(2*time.Second)) {
			a.beaten = w.now
			w.saw(w.tb.Beat(w.now, a.session))
		}
	}
	var rest, due []pending
	for _, p := range w.dials {
		if p.at.After(w.now) {
			rest = append(rest, p)
		} else {
			due = append(due, p)
		}
	}
	w.dials = rest
	for _, p := range due {
		w.saw(w.tb.Dialed(w.now, p.d, w.ports[p.d.Address]))
	}
	w.saw(w.tb.Look(w.now))
	if w.log.Len() > from {
		text := w.log.String()
		w.log.Reset()
		w.log.WriteString(text[:from] + fmt.Sprintf(" at %s\n", w.now.Sub(time.Unix(1000, 0))) + text[from:])
	}
}

func (w *world) status(k string) eider.Status {
	if in, ok := w.tb.Instance(key(k)); ok {
		return in.Status
	}
	if gone, ok := w.tb.GoneOf(key(k)); ok {
		return gone.Status
	}
	return eider.StatusUnknown
}

func (w *world) want(k string, status eider.Status, suspicion eider.Suspicion) {
	w.t.Helper()
	in, _ := w.tb.Instance(key(k))
	if got := w.status(k); got != status || in.Suspicion != suspicion {
		w.t.Errorf("%s after %s: %s (%s), want %s (%s)", k, w.now.Sub(time.Unix(1000, 0)), got, in.Suspicion, status, suspicion)
	}
}

func (w *world) drain(k string) eider.Drain {
	w.t.Helper()
	d, ok := w.tb.Drain(w.departure(k))
	if !ok {
		w.t.Fatalf("no drain of %s", k)
	}
	return d
}

// member returns where a caller stands in a drain; "" if it isn't a member.
func (w *world) member(k, caller string) eider.MemberState {
	for _, m := range w.drain(k).Members {
		if m.Caller == caller {
			return m.State
		}
	}
	return ""
}

// count counts the events of a kind so far.
func (w *world) count(kind eider.EventKind) int {
	n := 0
	for _, e := range w.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// services are those that the table lists, by name.
func (w *world) services() (out []eider.Summary) {
	names := w.tb.Services()
	slices.Sort(names)
	for _, name := range names {
		out = append(out, w.tb.Summary(name))
	}
	return out
}

// callers are those of a service, by name.
func (w *world) callers(service string) []eider.Caller {
	out := w.tb.Callers(service)
	slices.SortFunc(out, func(a, b eider.Caller) int { return strings.Compare(a.ID, b.ID) })
	return out
}
