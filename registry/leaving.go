package registry

import (
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

// Leaving is one planned departure under way.
type Leaving struct {
	l       *Listing
	since   time.Time
	barrier chan struct{}

	// Guarded by l.a.mu.
	drain   eider.Drain
	heard   bool
	unknown bool // somebody called, before or since, who doesn't say who he is
	changed chan struct{}
}

// Leave begins the planned departure; it is final and idempotent. The registry is told as soon as it
// can be, again and again until it has heard.
//
// An instance that no registry can have heard of yet never will: its barrier is reached at once.
func (l *Listing) Leave() *Leaving {
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	if l.leaving != nil {
		return l.leaving
	}
	g := &Leaving{l: l, since: time.Now(), barrier: make(chan struct{}), changed: make(chan struct{})}
	g.drain = eider.Drain{Departure: l.rec.Departure(), Kind: eider.LeaveDrain, Since: g.since, Bound: l.state.Bound, Status: eider.Draining}
	l.leaving = g
	if !l.uttered {
		g.reach()
		l.set(false, eider.Errorf(eider.Closed, "", "it is leaving and was never listed"))
	}
	l.a.ring()
	return g
}

// Barrier is closed when every caller has let go or is covered by a named cap, as the registry says.
// It stays open while the registry is away: wait beside it for Bound.
func (g *Leaving) Barrier() <-chan struct{} { return g.barrier }

// Drain returns where the departure stands, as last heard; heard tells whether the registry has heard of it.
func (g *Leaving) Drain() (drain eider.Drain, heard bool) {
	g.l.a.mu.Lock()
	defer g.l.a.mu.Unlock()
	return g.drain, g.heard
}

// Changed returns a channel that is closed at the next change of Drain.
func (g *Leaving) Changed() <-chan struct{} {
	g.l.a.mu.Lock()
	defer g.l.a.mu.Unlock()
	return g.changed
}

// Bound is the longest pause, counted from Leave: the last one pushed, 8s if none ever was.
func (g *Leaving) Bound() time.Duration {
	g.l.a.mu.Lock()
	defer g.l.a.mu.Unlock()
	return g.drain.Bound
}

// unknowns is how long the departure waits for callers that don't say who they are, 0 if there are none. Once there
// are it stays so. Called with a.mu held.
func (g *Leaving) unknowns() time.Duration {
	if g.unknown = g.unknown || g.l.work.Read().Unknown; g.unknown {
		return g.l.unknown
	}
	return 0
}

// progress takes the node's word. Called with a.mu held.
func (g *Leaving) progress(m *pb.Progress) {
	members := m.GetMembers()
	d := &g.drain
	d.Departure = g.l.rec.Departure()
	d.Bound = wire.ToDuration(m.GetBoundMs())
	d.Total, d.Open = int(m.GetTotal()), int(m.GetOpen())
	d.Members = make([]eider.Member, 0, min(len(members), eider.MaxMembers))
	for _, member := range members[:min(len(members), eider.MaxMembers)] {
		d.Members = append(d.Members, wire.ToMember(member))
	}
	g.heard = true
	if m.GetBarrier() {
		g.reach()
		return
	}
	g.announce()
}

// bound takes a bound that was pushed. Called with a.mu held.
func (g *Leaving) bound(d time.Duration) {
	if g.drain.Bound != d {
		g.drain.Bound = d
		g.announce()
	}
}

// reach opens the barrier, once: a node that knows less, after a restart, doesn't close it again. Called with a.mu held.
func (g *Leaving) reach() {
	if !g.drain.Reached {
		g.drain.Reached, g.drain.Barrier = true, time.Since(g.since)
		close(g.barrier)
	}
	g.announce()
}

// ended tells that the departure is over. Called with a.mu held.
func (g *Leaving) ended() {
	g.drain.Status, g.drain.Over = eider.Left, true
	g.announce()
}

func (g *Leaving) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}
