// Package stage is a registry's Reader that tests set by hand.
package stage

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// Registry says what it has been told to. Its methods may be called from any goroutine.
type Registry struct {
	mu       sync.Mutex
	node     eider.Node
	services []eider.Summary
	views    map[string]*eider.View
	callers  []eider.Caller
	drains   []eider.Drain
	breakers []eider.Breakers
	timings  map[string]eider.Timing
	events   []eider.Event
	kept     int // of events
	ended    error
	polls    []replica.Poll
	inexact  bool
	refusal  error
	changed  chan struct{}
}

// New returns a registry that knows nobody.
func New(node eider.Node) *Registry {
	return &Registry{node: node, views: map[string]*eider.View{}, timings: map[string]eider.Timing{}, kept: 4096, changed: make(chan struct{})}
}

// SetNode replaces how the node describes itself.
func (r *Registry) SetNode(node eider.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = node
}

// SetView publishes a view and sums it up as a service.
func (r *Registry) SetView(v *eider.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views[v.Service] = v
	sum := eider.Summary{Service: v.Service, Cursor: v.Cursor, Gone: len(v.Gone)}
	for i := range v.Instances {
		if v.Instances[i].Hold != nil {
			sum.Held++
		}
		switch in := &v.Instances[i]; in.Status {
		case eider.Up:
			if in.Suspicion != 0 {
				sum.Suspect++
			} else {
				sum.Up++
			}
		case eider.Starting:
			sum.Starting++
		case eider.Down:
			sum.Down++
		case eider.Draining:
			sum.Draining++
		}
	}
	for _, c := range r.callers {
		if c.Service == v.Service {
			sum.Callers++
			if c.Behind > 0 {
				sum.Behind++
			}
		}
	}
	i, known := slices.BinarySearchFunc(r.services, v.Service, func(s eider.Summary, name string) int { return strings.Compare(s.Service, name) })
	if !known {
		r.services = slices.Insert(r.services, i, sum)
	}
	r.services[i] = sum
}

// SetCallers replaces the callers; tell them before the views that they follow.
func (r *Registry) SetCallers(callers ...eider.Caller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callers = callers
}

// SetDrains replaces the drains.
func (r *Registry) SetDrains(drains ...eider.Drain) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drains = drains
}

// SetBreakers replaces what callers' breakers say; how many callers could is as many as SetCallers gave a stream.
func (r *Registry) SetBreakers(breakers ...eider.Breakers) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breakers = breakers
}

// Breakers implements the Reader.
func (r *Registry) Breakers(service string) (out []eider.Breakers, callers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.breakers {
		if service == "" || b.Service == service {
			out = append(out, b)
		}
	}
	for _, c := range r.callers {
		if c.Stream && (service == "" || c.Service == service) {
			callers++
		}
	}
	return out, callers
}

// SetTiming replaces the timing of its service.
func (r *Registry) SetTiming(t eider.Timing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timings[t.Service] = t
}

// Keep bounds the events kept.
func (r *Registry) Keep(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = n
}

// Tell lets something happen now.
func (r *Registry) Tell(e eider.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = 1
	if len(r.events) > 0 {
		e.Seq = r.events[len(r.events)-1].Seq + 1
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	r.events = append(r.events, e)
	if over := len(r.events) - r.kept; over > 0 {
		r.events = slices.Clone(r.events[over:])
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// End makes every EventsWait return the error, as a node does when its Run has ended.
func (r *Registry) End(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = err
	close(r.changed)
	r.changed = make(chan struct{})
}

// Node implements the Reader.
func (r *Registry) Node() eider.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// Services implements the Reader.
func (r *Registry) Services() []eider.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.services)
}

// Summary implements the Reader.
func (r *Registry) Summary(service string) (eider.Summary, bool) {
	for _, s := range r.Services() {
		if s.Service == service {
			return s, true
		}
	}
	return eider.Summary{}, false
}

// Glances implements the Reader.
func (r *Registry) Glances() iter.Seq[replica.Glance] {
	return func(yield func(replica.Glance) bool) {
		for _, s := range r.Services() {
			g := replica.Glance{Summary: s}
			g.Timing, _ = r.Timing(s.Service)
			g.Timing.Void = nil
			breakers, _ := r.Breakers(s.Service)
			for i := range breakers {
				g.Tripped.Opened += uint64(breakers[i].Told)
				if breakers[i].Rejecting > 0 {
					g.Tripped.Instances++
				}
				for _, seen := range breakers[i].Seen {
					g.Tripped.States[seen.State]++
				}
			}
			for _, c := range r.Callers(s.Service) {
				if !c.Stream && c.Kind == eider.Native {
					g.Away++
				}
			}
			if !yield(g) {
				return
			}
		}
	}
}

// Running implements the Reader.
func (r *Registry) Running() (n replica.Running) {
	for _, d := range r.Drains("") {
		switch {
		case d.Over:
		case d.Kind == eider.HoldDrain:
			n.Holding += d.Open
		case d.Reached:
			n.Finishing++
			n.Open += d.Open
		default:
			n.Waiting++
			n.Open += d.Open
		}
	}
	return n
}

// View implements the Reader.
func (r *Registry) View(service string) (*eider.View, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.views[service]
	return v, ok
}

// Poll implements the Poller: it notes the poll, and answers with the view, or with what [Registry.RefusePolls] says.
func (r *Registry) Poll(p replica.Poll) (replica.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polls = append(r.polls, p)
	v, ok := r.views[p.Service]
	switch {
	case r.refusal != nil:
		return replica.Answer{}, r.refusal
	case !ok:
		return replica.Answer{}, eider.Errorf(eider.NotFound, "poll "+p.Service, "nobody has ever registered there")
	}
	return replica.Answer{Number: uint64(len(r.polls)), View: v, Exact: !r.inexact}, nil
}

// Polls returns the polls so far.
func (r *Registry) Polls() []replica.Poll {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.polls)
}

// Inexact makes views hold what has no number yet.
func (r *Registry) Inexact(inexact bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inexact = inexact
}

// RefusePolls makes polls fail.
func (r *Registry) RefusePolls(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = err
}

// Callers implements the Reader.
func (r *Registry) Callers(service string) (out []eider.Caller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.callers {
		if service == "" || c.Service == service {
			out = append(out, c)
		}
	}
	return out
}

// Timing implements the Reader.
func (r *Registry) Timing(service string) (eider.Timing, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.views[service]
	t := r.timings[service]
	t.Service = service
	return t, known
}

// Drains implements the Reader.
func (r *Registry) Drains(service string) (out []eider.Drain) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.drains {
		if service == "" || d.Service == service {
			out = append(out, d)
		}
	}
	return out
}

// Events implements the Reader.
func (r *Registry) Events(after uint64) ([]eider.Event, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		return nil, true
	}
	first := r.events[0].Seq
	i := slices.IndexFunc(r.events, func(e eider.Event) bool { return e.Seq > after })
	if i < 0 {
		return nil, true
	}
	return slices.Clone(r.events[i:]), after+1 >= first
}

// EventsWait implements the Reader.
func (r *Registry) EventsWait(ctx context.Context, after uint64) error {
	for {
		r.mu.Lock()
		changed, ended := r.changed, r.ended
		there := len(r.events) > 0 && r.events[len(r.events)-1].Seq > after
		r.mu.Unlock()
		if ended != nil || there {
			return ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
