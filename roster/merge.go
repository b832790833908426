package roster

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/balance"
	"github.com/eiderhq/eider/registry"
)

const (
	usualLease = 20 * time.Second // until a node has said otherwise
	remembered = 256              // kept of instances that are no longer listed
)

// apply takes an update. It is called by one goroutine; when it returns, pickers have switched. It tells
// whether that leaves the tender something to do.
func (r *Roster) apply(u registry.Update, now time.Duration) (tend bool) {
	if u.View != nil {
		u.View = ordered(u.View)
	}
	r.mu.Lock()
	var unborn []*member
	if u.View != nil && u.View != r.news.View && !r.closed {
		unborn = r.merge(u.View, now)
	}
	if u.View == nil {
		u.View = r.news.View // the last good one stays
		r.stays(&u)
	}
	r.news = u
	r.bearing = len(unborn) > 0 && r.config.Companion != nil
	if r.bearing {
		r.mu.Unlock()
		made := r.companions(unborn)
		r.mu.Lock()
		for i, m := range unborn {
			m.companion = made[i]
		}
		r.bearing = false
	}
	for _, m := range unborn {
		m.born = true
		if m.opened != 0 {
			r.judge(m) // whoever heard of it has forgotten it with its absence
		}
	}
	if r.closed { // meanwhile: what was just made isn't in the roster's books any more
		r.out = append(r.out, unborn...)
	} else if u.View != nil {
		r.publish(now)
	}
	tend = r.untended()
	r.mu.Unlock()
	return tend
}

// companions makes those of new members, outside the lock: the maker is a stranger.
func (r *Roster) companions(unborn []*member) []Companion {
	made := make([]Companion, len(unborn))
	for i, m := range unborn {
		made[i] = r.config.Companion(*m.first)
	}
	return made
}

// ordered returns the view with its instances ordered by id and each id once; a view that isn't is a
// fault of the node's, and no reason to lose anybody.
func ordered(v *eider.View) *eider.View {
	byID := func(a, b eider.Instance) int { return strings.Compare(a.ID, b.ID) }
	sorted := true
	for i := 1; sorted && i < len(v.Instances); i++ {
		sorted = v.Instances[i-1].ID < v.Instances[i].ID
	}
	if sorted {
		return v
	}
	again := *v
	again.Instances = slices.Clone(v.Instances)
	slices.SortStableFunc(again.Instances, func(a, b eider.Instance) int {
		if c := byID(a, b); c != 0 {
			return c
		}
		return b.Record.Compare(&a.Record)
	})
	again.Instances = slices.CompactFunc(again.Instances, func(a, b eider.Instance) bool { return a.ID == b.ID })
	return &again
}

// merge brings the members up to a view and returns those that need a companion.
func (r *Roster) merge(v *eider.View, now time.Duration) (unborn []*member) {
	first := r.news.View == nil || r.news.FromDisk
	sameRun := !first && v.Cursor.Run == r.news.View.Cursor.Run
	old := r.members
	next := make([]*member, 0, max(len(v.Instances), len(old)))
	i := 0
	for k := range v.Instances {
		in := &v.Instances[k]
		for ; i < len(old) && old[i].id < in.ID; i++ {
			next = r.missing(next, old[i], v, sameRun, now)
		}
		var m *member
		if i < len(old) && old[i].id == in.ID {
			m = r.present(old[i], in, sameRun, now)
			i++
		} else {
			m = r.join(in, now)
			if first {
				m.since = balance.Warm
			}
		}
		if !m.born && !m.settling {
			unborn = append(unborn, m)
		}
		next = append(next, m)
	}
	for ; i < len(old); i++ {
		next = r.missing(next, old[i], v, sameRun, now)
	}
	r.members = next
	return unborn
}

// join makes the member of an instance that the roster doesn't have.
func (r *Roster) join(in *eider.Instance, now time.Duration) *member {
	m := newMember(in, now)
	i := slices.IndexFunc(r.past, func(p past) bool { return p.nonce == m.nonce })
	if i < 0 {
		return m
	}
	p := r.past[i]
	r.past = slices.Delete(r.past, i, i+1)
	m.before = p.before
	if p.failing != nil && p.failing.first.Address == in.Address {
		m.inherit(p.failing)
	}
	if !p.renounced {
		return m
	}
	was := member{left: p.left}
	was.said.Store(p.said)
	if !was.back(in) {
		m.said.Store(p.said)
		if p.left.after(m.left) {
			m.left = p.left
		}
		m.settling, m.letGo, m.markedAt = p.letGo, p.letGo, now
		m.mark()
	}
	return m
}

// present brings a member up to what a view says of its id, and returns who has that place now.
func (r *Roster) present(m *member, in *eider.Instance, sameRun bool, now time.Duration) *member {
	if sameRun && in.Record.Compare(&m.in.Record) < 0 { // an older record never replaces a newer one
		if m.in.Suspicion.Has(eider.Absent) {
			cured := *m.in
			cured.Suspicion &^= eider.Absent
			m.in = &cured
		}
		return m
	}
	if in.Incarnation.Nonce != m.nonce {
		m.opened = 0 // nobody has it again
		r.bury(m, now)
		return r.join(in, now)
	}
	if m.marked && m.back(in) {
		// It is back. What was let go of stays closed, so another member takes its place.
		back := newMember(in, now)
		back.after(m, now)
		back.inherit(m)
		r.out = append(r.out, m)
		return back
	}
	if in.Address != m.in.Address || !maps.Equal(in.Ports, m.in.Ports) {
		m = r.moved(m, in, now)
	}
	if in.Status == eider.Up && m.in.Status != eider.Up {
		m.since = now
	}
	if newer := orderOf(&in.Record); in.Status == eider.Draining && newer.after(m.left) {
		m.left = newer
	}
	m.in = in
	return m
}

// moved makes the member of an incarnation that has another address now. Connections and failures
// belong to the address, the leaving to the incarnation.
func (r *Roster) moved(old *member, in *eider.Instance, now time.Duration) *member {
	m := newMember(old.in, now)
	m.first, m.since, m.left, m.settling, m.letGo = in, old.since, old.left, old.settling, old.letGo
	m.said.Store(old.said.Load())
	m.after(old, now)
	if old.marked {
		m.mark()
		m.markedAt = old.markedAt
	}
	r.out = append(r.out, old)
	return m
}

// missing keeps a member that isn't in a view, or drops it if the view says that it is gone.
func (r *Roster) missing(next []*member, m *member, v *eider.View, sameRun bool, now time.Duration) []*member {
	i, _ := slices.BinarySearchFunc(v.Gone, m.id, func(g eider.Gone, id string) int { return strings.Compare(g.ID, id) })
	for ; i < len(v.Gone) && v.Gone[i].ID == m.id; i++ {
		g := &v.Gone[i]
		revived := sameRun && orderOf(&m.in.Record).after(order{g.Attachment, g.Version})
		if g.Incarnation.Nonce == m.nonce && !revived {
			r.last = &ending{now, g.Status}
			if g.Status == eider.Left {
				m.opened = 0 // which is final, so that its breaker needn't be remembered
			}
			r.bury(m, now)
			return next
		}
	}
	if v.Complete && !m.in.Suspicion.Has(eider.Absent) {
		doubtful := *m.in
		doubtful.Suspicion |= eider.Absent
		m.in, m.absent = &doubtful, now
	}
	return append(next, m)
}

// past is what is kept of an instance that is no longer listed: another node may not have heard of its
// end yet, and list it again as it was.
type past struct {
	nonce     uint64
	left      order
	renounced bool
	said      bool
	letGo     bool
	before    *member // with picks that haven't settled, nil if all have
	failing   *member // whose breaker isn't closed, nil if it is
}

// bury takes a member out of the books. It is marked once pickers have switched, and its companion
// closed after that.
func (r *Roster) bury(m *member, now time.Duration) {
	r.out = append(r.out, m)
	p := past{nonce: m.nonce, left: m.left, renounced: m.marked || m.said.Load(), said: m.said.Load(), letGo: m.letGo}
	if done, _ := m.settled(now); !done {
		p.before = m
	}
	if m.opened != 0 {
		p.failing = m
	}
	if p.before != nil || p.failing != nil || p.renounced {
		r.remember(p)
	}
}

// remember keeps the last few; those whose breaker isn't closed go last.
func (r *Roster) remember(p past) {
	if len(r.past) >= remembered {
		oldest := max(slices.IndexFunc(r.past, func(p past) bool { return p.failing == nil }), 0)
		r.past = slices.Delete(r.past, oldest, oldest+1)
	}
	r.past = append(r.past, p)
}

// merged returns the view as this caller knows it: with those that the node's view lacks.
func (r *Roster) merged() *eider.View {
	v := r.news.View
	same := len(r.members) == len(v.Instances)
	for i := 0; same && i < len(r.members); i++ {
		same = r.members[i].in == &v.Instances[i]
	}
	if same {
		return v
	}
	own := *v
	own.Instances = make([]eider.Instance, len(r.members))
	for i, m := range r.members {
		own.Instances[i] = *m.in
	}
	return &own
}

// expire drops those that have been missing from complete views for a lease, and tells when the next
// is due; 0 for none. While the registry is away, or hasn't heard of everybody, nobody is dropped.
func (r *Roster) expire(now time.Duration) (dropped bool, due time.Duration) {
	if r.news.View == nil || !r.news.View.Complete || !r.news.Connected {
		return false, 0
	}
	lease := r.news.Lease
	if lease <= 0 {
		lease = usualLease
	}
	if !slices.ContainsFunc(r.members, func(m *member) bool { return m.in.Suspicion.Has(eider.Absent) }) {
		return false, 0
	}
	r.members = slices.DeleteFunc(slices.Clone(r.members), func(m *member) bool {
		if !m.in.Suspicion.Has(eider.Absent) {
			return false
		}
		if end := m.absent + lease; now < end {
			due = earlier(due, end)
			return false
		}
		r.bury(m, now)
		dropped = true
		return true
	})
	return dropped, due
}

// earlier returns the earlier of two times, 0 meaning never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
