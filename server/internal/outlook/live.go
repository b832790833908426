package outlook

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/window"
)

// Bounds on what one answer lists; counts count all.
const (
	maxGroups = 16
	maxPauses = 16
)

// Live is the window of one service, derived from what its registry has set and knows now, beside what its departures
// have taken.
type Live struct {
	Outlook
	Service  string    `json:"service"`
	Node     string    `json:"node"`
	Complete bool      `json:"complete"`       // the node has heard of everybody
	Void     []string  `json:"void,omitempty"` // what voids the node's bounds now, in sentences
	Bound    Seconds   `json:"bound_s"`        // a drain begun now pauses no longer, whoever its callers are then
	Killed   Path      `json:"killed"`         // a process that ends on a host that lives: its port refuses
	Suspect  Path      `json:"suspect"`        // a silent one, until callers prefer others
	Callers  []Callers `json:"callers"`        // by how they let go, the longest window first; at most 16
	Measured Measured  `json:"measured"`
}

// Callers are those of a service that let go in the same way.
type Callers struct {
	Kind  string  `json:"kind"`
	Count int     `json:"count,omitempty"` // 0: nobody knows how many they are
	Worst Seconds `json:"worst_s"`
	Terms []Term  `json:"terms"`
}

// Measured is what the last departures of a service took, as far as its node keeps them, by the node's own clock: time in
// which the node didn't run isn't in it, as it is in no lease and no cap. Events of kind paused tell of that.
type Measured struct {
	Drains   int     `json:"drains"` // whose barrier was reached
	P50      Seconds `json:"p50_s"`
	P99      Seconds `json:"p99_s"`
	Max      Seconds `json:"max_s"`
	Capped   int     `json:"capped"`   // a cap ended them, not the last caller
	Exceeded int     `json:"exceeded"` // over a second longer than their bound
	Pauses   []Pause `json:"pauses"`   // the newest first, at most 16
}

// Pause is the lame-duck pause of one departure.
type Pause struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	Took  Seconds   `json:"took_s"`  // by the node's own clock: without the time in which it didn't run
	Bound Seconds   `json:"bound_s"` // it could last no longer, whoever called
	Ended string    `json:"ended"`   // "let go", "capped", "nobody called"
}

// windowSlack is what a pause may take beyond its bound before it counts as exceeded: one that a cap ends is over when
// the node looks, a little after the cap.
const windowSlack = time.Second

// Exceeded tells whether a pause took longer than its bound.
func Exceeded(d *eider.Drain) bool { return d.Reached && d.Barrier > d.Bound+windowSlack }

// Capped tells whether a cap ended a pause, and not the last caller.
func Capped(d *eider.Drain) bool {
	return slices.ContainsFunc(d.Members, func(m eider.Member) bool { return m.State == eider.Capped })
}

// Known is what a registry knows of one service.
type Known struct {
	Timing    eider.Timing
	Node      eider.Node
	Instances int
	Callers   []eider.Caller
	Drains    []eider.Drain // the newest first
}

// OfService derives the windows of one service.
func OfService(k Known) Live {
	groups := k.groups()
	forecast := window.Forecast{Planned: window.Window{Terms: longest(groups)}, Crash: k.silence(), Load: k.load()}
	l := Live{Outlook: Of(forecast, window.Fleet{Callers: len(k.Callers), Instances: k.Instances, Lost: 1}, 0),
		Service: k.Timing.Service, Node: k.Node.Name, Complete: k.Node.Complete, Void: k.Node.Void, Bound: Seconds(k.Timing.Bound),
		Killed: path(k.killed()), Suspect: path(k.suspect()), Measured: k.measured()}
	l.Title, l.Recommend, l.Callers = "service "+k.Timing.Service, k.advice(), []Callers{}
	for _, g := range groups[:min(len(groups), maxGroups)] {
		l.Callers = append(l.Callers, Callers{g.kind, g.count, Seconds(g.sum.Worst()), terms(g.sum)})
	}
	return l
}

// advice is what to set: the pause is no guess here, since its end is told, and its bound is the node's.
func (k *Known) advice() Advice {
	bound := window.Sum{window.Fixed("bound", k.Timing.Bound, "of the node")}
	return adviceOf(window.Forecast{Planned: window.Window{Terms: bound}, Told: true}, 0)
}

func longest(groups []group) window.Sum {
	if len(groups) == 0 {
		return nil
	}
	return groups[0].sum
}

// group is the callers of one window.
type group struct {
	kind  string
	count int
	sum   window.Sum
}

// groups sorts callers by how they let go, the longest window first. Nobody calls: there is nothing to wait for.
func (k *Known) groups() []group {
	type way struct {
		kind         eider.CallerKind
		every, cache time.Duration
	}
	count := map[way]int{}
	for _, c := range k.Callers {
		count[way{c.Kind, c.Every, c.Cache}]++
	}
	if k.Timing.Before > 0 {
		count[way{kind: eider.FromBefore}] = 0
	}
	var out []group
	for w, n := range count {
		g := group{kind: string(w.kind), count: n}
		switch w.kind {
		case eider.Poller:
			g.kind = fmt.Sprintf("%s: every %s, cache %s", w.kind, w.every, w.cache)
			g.sum = window.Sum{window.Uniform("poll", 0, w.every, "every = "+w.every.String()+", by its own word"),
				window.Uniform("its cache", 0, w.cache, "cache = "+w.cache.String()+", by its own word"),
				window.Uniform("an answer on its way", 0, time.Second, "docs/callers.md")}
		case eider.UnknownCallers:
			g.count = 0
			g.sum = window.Sum{window.Fixed("pause for unknown callers", k.Timing.Unknown, "Unknown of the instance; the node expects its default")}
		case eider.FromBefore:
			g.sum = window.Sum{window.Uniform("callers from before", 0, k.Timing.Before, "the node began a moment ago: its callers' caps")}
		default:
			g.sum = window.Sum{k.letGo()}
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.sum.Worst(), a.sum.Worst()), strings.Compare(a.kind, b.kind))
	})
	return out
}

// letGo is how long callers that acknowledge take: as they did in the departures that the node remembers, and at
// most their cap.
func (k *Known) letGo() window.Term {
	count, n, longest := map[time.Duration]float64{}, 0, k.Timing.Cap
	for i := range k.Drains {
		for _, m := range k.Drains[i].Members {
			if m.Kind == eider.Native && (m.State == eider.LetGo || m.State == eider.Capped) {
				n++
				count[min(m.Settled.Round(time.Millisecond), longest)]++
			}
		}
	}
	if n == 0 {
		return window.Uniform("callers let go", 0, longest, fmt.Sprintf("cap = %s, of the node; nothing measured yet", longest))
	}
	var shape []window.Bucket
	for _, took := range slices.Sorted(maps.Keys(count)) {
		shape = append(shape, window.Bucket{From: took, To: took, Weight: count[took]})
	}
	term := window.Histogram("callers let go", shape, fmt.Sprintf("cap = %s, of the node; spread as %d measured", longest, n))
	term.Min, term.Max = 0, longest // a bound isn't a likelihood
	return term
}

// push is what it takes to publish a change.
func (k *Known) push() window.Term {
	return window.Uniform("push", 0, k.Timing.Batch, "changes within "+k.Timing.Batch.String()+" travel together")
}

// silence is the window of a lost host: its lease since its last beat.
func (k *Known) silence() window.Window {
	t := &k.Timing
	return window.Window{Void: strings.Join(k.Timing.Void, "; "), Terms: window.Sum{
		window.Uniform("lease", max(t.Lease-t.Beat, 0), t.Lease, fmt.Sprintf("lease = %s, beat = %s", t.Lease, t.Beat)), k.push()},
		VoidWhen: []string{"more instances silent at once than preservation lets go", "the node is away: callers keep their lists"}}
}

// killed is the window of a process that ends on a host that lives. Where refusals aren't trusted its lease ends it, unless a
// caller sees the same before.
func (k *Known) killed() window.Window {
	if len(k.Timing.Refused) > 0 {
		w := k.silence()
		w.Terms[0] = window.Uniform("lease", 0, k.Timing.Lease, fmt.Sprintf("lease = %s; %s", k.Timing.Lease, strings.Join(k.Timing.Refused, "; ")))
		return w
	}
	return window.Window{Terms: window.Sum{window.Uniform("its port refuses", 0, k.Timing.Evidence, "dialled once its stream has ended, for the last time after "+k.Timing.Evidence.String()), k.push()},
		VoidWhen: []string{"the node can't dial it: its address isn't that of its connection", "many refuse at once: they are suspect, until a caller sees the same"}}
}

func (k *Known) suspect() window.Window {
	t := &k.Timing
	return window.Window{Terms: window.Sum{window.Uniform("silence", max(t.SuspectAfter-t.Beat, 0), t.SuspectAfter, fmt.Sprintf("suspect after %s, beat = %s", t.SuspectAfter, t.Beat)), k.push()},
		VoidWhen: []string{"more than half of the service is suspect: callers pick from all"}}
}

// load is what the window costs now: only those who poll read.
func (k *Known) load() window.Load {
	l := window.Load{BeatsPerSecond: window.Fleet{Instances: max(k.Instances, 1)}.Beats(k.Timing.Beat)}
	if k.Instances == 0 {
		l.BeatsPerSecond = 0
	}
	for _, c := range k.Callers {
		if c.Every > 0 {
			l.ReadsPerSecond += 1 / c.Every.Seconds()
		}
	}
	l.FalseEvictionsPerDay = float64(k.Instances) * window.Pauses{}.Beyond(max(k.Timing.Lease-k.Timing.Beat, 0))
	l.Assumed = "pauses of a living process as package window assumes them; beats, reads and leases as the node knows them now"
	return l
}

func (k *Known) measured() Measured {
	m := Measured{Pauses: []Pause{}}
	var took []time.Duration
	for i := range k.Drains {
		d := &k.Drains[i]
		if !d.Reached || d.Kind == eider.HoldDrain {
			continue
		}
		ended := "let go"
		switch {
		case Capped(d):
			ended = "capped"
			m.Capped++
		case d.Total == 0:
			ended = "nobody called"
		}
		if Exceeded(d) {
			m.Exceeded++
		}
		took = append(took, d.Barrier)
		if len(m.Pauses) < maxPauses {
			m.Pauses = append(m.Pauses, Pause{d.ID, d.Since, Seconds(d.Barrier), Seconds(d.Bound), ended})
		}
	}
	if m.Drains = len(took); m.Drains == 0 {
		return m
	}
	slices.Sort(took)
	at := func(q float64) Seconds { return Seconds(took[min(int(q*float64(len(took))), len(took)-1)]) }
	m.P50, m.P99, m.Max = at(0.5), at(0.99), Seconds(took[len(took)-1])
	return m
}
