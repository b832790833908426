package drain

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// depart is the whole departure, from the leave to the report.
func (d *drainer) depart(ctx context.Context) Report {
	hear := listen(ctx, d.log)
	defer hear.end()
	ctx = context.WithoutCancel(ctx)
	l := d.beginLeave()
	begun := d.leave.Load().at
	bye := newTeller(d.set.Progress)
	defer bye.end()

	r := Report{Service: d.set.Service}
	r.EndedBy, r.Bound = d.pause(l, hear.enough, bye)
	barrier := d.now()
	r.Pause = barrier - begun
	picked := r.EndedBy != NeverListed && r.EndedBy != ByNoCallers // by anybody, ever
	if l != nil {
		dr, heard := l.Drain()
		if picked {
			d.unknown(&dr)
		}
		r.Heard, r.Waited, r.Open, r.Members = heard, dr.Total, dr.Open, dr.Members
	}
	if picked && r.Open > 0 {
		d.log.Warn("the pause has ended before every caller let go: their next call may fail", "service", d.set.Service,
			"ended_by", r.EndedBy, "open", r.Open, "waited", r.Waited, "members", named(r.Members))
	}
	d.hooked.leaves(r)
	if p := cmp.Or(d.beside, d.before); p != nil && p.Paused != nil {
		p.Paused(r)
	}
	d.finish(barrier, hear.enough)
	if d.before != nil {
		d.finishProgram(d.before, barrier, hear.enough)
	}
	if d.listing != nil {
		limit := time.Second
		if hear.now() {
			limit = 200 * time.Millisecond
		}
		lctx, cancel := context.WithTimeout(ctx, limit)
		err := d.listing.Left(lctx)
		cancel()
		if r.Left = err == nil; err != nil {
			d.log.Warn("the registry couldn't be told LEFT; its lease or the closed port will tell it", "service", d.set.Service, "err", err)
		}
		i := d.learn()
		r.ID, r.Incarnation = i.id, d.listing.State().In
	}
	r = d.tally.into(r)
	r.Took = d.now() - begun
	switch {
	case hear.now():
		r.Exit = ExitInterrupted
	case r.CutCount+r.OverranCount+r.UnansweredCount > 0 || r.Killed:
		r.Exit = ExitLoss
	}
	return r
}

// beginLeave marks the leave everywhere at once: in answers, for handlers, at the registry.
func (d *drainer) beginLeave() leaving {
	l := &leave{at: d.now()}
	if d.listing != nil {
		l.incarnation = d.listing.State().In.String()
	}
	d.leave.Store(l)
	close(d.started)
	if d.other != nil {
		d.other.Leave()
	}
	if d.listing == nil {
		d.log.Info("leaving", "service", d.set.Service, "registry", "none")
		return nil
	}
	out := d.listing.Leave()
	if closed(out.Barrier()) {
		d.log.Info("leaving; no registry had listed it, so nobody is waited for", "service", d.set.Service)
		return out
	}
	d.log.Info("leaving; it serves on until its callers have let go", "service", d.set.Service, "incarnation", l.incarnation,
		"bound", out.Bound(), "room", d.set.room.String())
	return out
}

// pause serves on until the barrier, the bound, or the end of what the grace allows.
func (d *drainer) pause(l leaving, enough <-chan struct{}, bye *teller) (EndedBy, time.Duration) {
	begun := d.leave.Load().at
	lines := time.NewTicker(time.Second)
	defer lines.Stop()
	for said := ""; ; {
		if d.gone || d.ended && !d.unborn && d.book.empty() {
			return ByServer, 0
		}
		o := d.outlook(l)
		bye.tell(o.drain)
		now := d.now()
		if o.over || now >= begun+o.limit {
			return o.by, o.limit
		}
		t := time.NewTimer(earliest(begun+o.limit, o.again) - now)
		select {
		case <-o.barrier:
		case <-o.changed:
		case <-t.C:
		case <-d.book.changed: // of interest if the server has ended
		case <-lines.C:
			if text := o.String(); text != said {
				said = text
				d.log.Info(text, "service", d.set.Service, "room", d.set.room.String())
			}
		case err := <-d.unserved():
			d.ended = true
			d.log.Error("the server stopped serving by itself while leaving", "service", d.set.Service, "err", err)
		case <-d.lost():
			d.gone = true
		case <-enough:
			t.Stop()
			return BySecondInt, o.limit
		}
		t.Stop()
	}
}

// unserved yields once, when the accept loop ends, or the program that serves.
func (d *drainer) unserved() <-chan error {
	switch {
	case d.ended:
		return nil
	case d.beside != nil:
		return d.beside.Ended
	}
	return d.served
}

// outlook is what a pause waits for, as it stands.
type outlook struct {
	limit            time.Duration // counted from the leave
	by               EndedBy       // what ends it then
	over             bool          // it has ended
	again            time.Duration // when to look again though nobody says anything, by the drain's clock; 0: never
	barrier, changed <-chan struct{}
	drain            eider.Drain
}

func (d *drainer) outlook(l leaving) (o outlook) {
	switch {
	case d.unborn:
		return outlook{by: ByNoCallers, over: true}
	case d.reg == nil:
		o.limit, o.by = d.set.Pause, NoRegistry
	case !d.up || l == nil:
		return outlook{by: ByNoCallers, over: true}
	default:
		if d.await(l, &o); o.over {
			return o
		}
	}
	if room := d.set.room.Worst(); room < o.limit {
		o.limit, o.by = room, ByGrace
	}
	return o
}

// await fills in what the callers need.
func (d *drainer) await(l leaving, o *outlook) {
	o.changed, o.barrier = l.Changed(), l.Barrier() // Changed before Drain: a change in between shows in one of them
	o.limit, o.by = l.Bound(), ByBound
	var heard bool
	o.drain, heard = l.Drain()
	reached := heard && o.drain.Reached || closed(o.barrier)
	if reached && d.listing.State().In.Number == 0 { // no registry has heard of this instance, and none ever will
		o.by, o.limit, o.over = NeverListed, 0, true
		return
	}
	unknown := d.unknown(&o.drain)
	if until := d.leave.Load().at + unknown; d.now() < until {
		o.again = until
	}
	switch {
	case o.again == 0 && (reached || unknown > 0 && heard && o.drain.Open == 0): // the node's own word of the unknown may be on its way
		o.by, o.over = ByBarrier, true
	case reached: // for those that it knew of
		o.limit, o.by, o.barrier, o.drain.Reached = unknown, ByBarrier, nil, false
	default:
		o.limit = max(o.limit, unknown)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// String is the line of progress: "waiting for 1 of 14: checkout@b2 (native, ≤ 8s); at most 8s in all (bound)".
func (o outlook) String() string {
	if o.drain.Total == 0 {
		return fmt.Sprintf("waiting %s at most (%s)", o.limit, o.by)
	}
	return fmt.Sprintf("waiting for %d of %d: %s; %s at most (%s)", o.drain.Open, o.drain.Total, named(o.drain.Members), o.limit, o.by)
}

// named lists the members that are still waited for.
func named(members []eider.Member) string {
	var out []string
	for _, m := range members {
		if !m.State.Settled() {
			out = append(out, m.String())
		}
	}
	return strings.Join(out, ", ")
}
