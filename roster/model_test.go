package roster

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/registry"
	"pgregory.net/rapid"
)

// model is what must hold whatever comes in which order: views of several nodes, old and new, complete
// or not, outages, picks in every state, time.
type model struct {
	script []int
	fault  string
	w      *world
	truth  map[string]*eider.Instance // the registry's newest, by id
	holds  []*pick
	let    map[uint64]bool            // nonces acknowledged as let go, and not back since
	counts uint64                     // of holds
	said   map[uint64]bool            // left in band
	news   map[string]*eider.Instance // the newest record applied, by id
}

// pick is one choice that hasn't ended.
type pick struct {
	c                 Choice
	written, answered bool
	at                time.Time // of Wrote
}

// counts tells whether it holds up letting go; slack is what a clock of eighths may add.
func (p *pick) counts() bool {
	if p.written && p.answered {
		return false
	}
	return !p.written || time.Since(p.at) <= time.Second
}

func TestLawsOfPickingAndLettingGo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// Everything is drawn before the bubble, in which time is not rapid's.
		script := rapid.SliceOfN(rapid.IntRange(0, 1<<16), 100, 1000).Draw(rt, "script")
		var fault string
		synctest.Test(t, func(t *testing.T) { fault = play(t, script) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

func play(t *testing.T, script []int) string {
	src := newFake()
	w := &world{t: t, src: src, run: 1}
	// Picks are held for as long as it likes, and say nothing: no breaker is to take them for hanging.
	w.Roster = Config{Breaker: breaker.Config{SlowLimit: -1}}.follow("orders", "", func() (source, error) { return src, nil })
	defer w.Close()
	w.View()
	m := &model{script: script, w: w, truth: map[string]*eider.Instance{}, let: map[uint64]bool{},
		said: map[uint64]bool{}, news: map[string]*eider.Instance{}}
	src.onAck = m.acked
	defer func() {
		for _, p := range m.holds {
			p.c.Done(Neutral)
		}
	}()
	for m.push(); len(m.script) > 0 && m.fault == ""; m.check() {
		switch m.draw(10) {
		case 0, 1:
			m.change()
			m.push()
		case 2:
			m.change()
		case 3:
			m.push()
		case 4, 5, 6:
			m.pick()
		case 7, 8:
			m.advance()
		case 9:
			time.Sleep([]time.Duration{time.Millisecond, 400 * time.Millisecond, time.Second + tick, 21 * time.Second}[m.draw(4)])
		}
		synctest.Wait()
	}
	return m.fault
}

// draw takes the next number of the script, below n; 0 at its end.
func (m *model) draw(n int) int {
	if len(m.script) == 0 {
		return 0
	}
	next := m.script[0]
	m.script = m.script[1:]
	return next % n
}

// fail keeps the first fault.
func (m *model) fail(format string, args ...any) {
	if m.fault == "" {
		m.fault = fmt.Sprintf(format, args...)
	}
}

// change lets something happen to an instance.
func (m *model) change() {
	id := []string{"a", "b", "c"}[m.draw(3)]
	in := m.truth[id]
	status := []eider.Status{eider.Up, eider.Up, eider.Down, eider.Draining, eider.Draining, eider.Left, eider.Dead}[m.draw(7)]
	if in == nil || in.Status.Gone() || in.Status == eider.Draining && status.Live() {
		next := eider.Instance{Record: eider.Record{Key: eider.Key{Service: "orders", ID: id}, Attachment: 1, Version: 1,
			Status: eider.Up, Address: id + ":80", Incarnation: eider.Incarnation{Number: 1}}}
		if in != nil {
			next.Incarnation.Number = in.Incarnation.Number + 1
			next.Hold = in.Hold // it is the key's
		}
		next.Incarnation.Nonce = nonceOf(id, next.Incarnation.Number)
		m.truth[id] = &next
		return
	}
	next := *in
	m.truth[id] = &next
	if m.draw(3) == 0 { // held, held again, released: the record stays what it is
		next.Hold = nil
		if m.draw(2) == 0 {
			m.counts++
			next.Hold = &eider.Hold{Count: m.counts}
		}
		return
	}
	next.Version++
	next.Status = status
	next.Suspicion = []eider.Suspicion{0, 0, eider.BeatsMissed}[m.draw(3)]
}

// push sends what some node knows: all, a part, an older state of it; or that the registry is away.
func (m *model) push() {
	if m.draw(10) == 1 {
		m.w.src.updates <- registry.Update{Connected: false}
		return
	}
	if m.draw(6) == 1 {
		m.w.run++
	}
	m.w.n++
	v := &eider.View{Service: "orders", Cursor: eider.Cursor{Run: m.w.run, Number: m.w.n},
		Complete: m.draw(2) == 0}
	for _, id := range []string{"a", "b", "c"} {
		in := m.truth[id]
		switch {
		case in == nil || m.draw(8) == 1:
		case in.Status.Gone():
			v.Gone = append(v.Gone, eider.Gone{ID: id, Incarnation: in.Incarnation, Attachment: 1, Version: in.Version, Status: in.Status})
		default:
			v.Instances = append(v.Instances, *in)
			if old := m.news[id]; old == nil || in.Record.Compare(&old.Record) > 0 {
				m.news[id] = in
			}
			if in.Status == eider.Up && in.Hold == nil && !m.said[in.Incarnation.Nonce] {
				delete(m.let, in.Incarnation.Nonce)
			}
		}
	}
	m.w.src.updates <- updateOf(v)
}

// acked holds each acknowledgement to its promise.
func (m *model) acked(w word) {
	for _, d := range w.letGo {
		for _, p := range m.holds {
			if p.c.Instance().Incarnation.Is(d.Incarnation) && p.counts() {
				m.fail("%s is let go of while a pick of it counts (written %v, answered %v)", d.ID, p.written, p.answered)
			}
		}
		m.let[d.Incarnation.Nonce] = true
		m.named(d)
	}
	for _, d := range w.noAlternative {
		if m.let[d.Incarnation.Nonce] {
			m.fail("%s was let go of, and is now said to have no alternative", d.ID)
		}
	}
}

// named holds what an instance is let go of for to what this caller has heard of it: a leave that nobody has begun must
// never be, since a hold can be released, and then the leave would find nobody to wait for.
func (m *model) named(d eider.Departure) {
	in := m.news[d.ID]
	switch {
	case in == nil || !in.Incarnation.Is(d.Incarnation):
	case d.Hold == 0 && in.Status != eider.Draining && !m.said[d.Incarnation.Nonce]:
		m.fail("%s is let go of for a leave, and is %s", d.ID, in.Status)
	case d.Hold > m.counts:
		m.fail("%s is let go of for hold %d, which there never was", d.ID, d.Hold)
	}
}

// pick picks, and holds the pick to the view that the roster shows.
func (m *model) pick() {
	v := m.w.View().View
	if v == nil {
		return
	}
	var sound, doubted, last []string
	for i := range v.Instances {
		in := &v.Instances[i]
		leaves := in.Status == eider.Draining || in.Hold != nil || m.said[in.Incarnation.Nonce] || m.let[in.Incarnation.Nonce]
		switch {
		case leaves && !m.let[in.Incarnation.Nonce]:
			if in.Status == eider.Up || in.Status == eider.Draining || m.said[in.Incarnation.Nonce] {
				last = append(last, in.ID)
			}
		case leaves || in.Status != eider.Up:
		case in.Suspicion != 0:
			doubted = append(doubted, in.ID)
		default:
			sound = append(sound, in.ID)
		}
	}
	may := sound
	switch {
	case 2*len(sound) < len(sound)+len(doubted):
		may = append(may, doubted...)
	case len(sound) == 0:
		may = last
	}
	c, err := m.w.Take(m.w.t.Context(), nil)
	if err != nil && eider.KindOf(err) != eider.NoInstance || err != nil && len(may) > 0 {
		m.fail("%v, but %s may be picked", err, may)
	}
	if err == nil {
		if id := c.Instance().ID; !slices.Contains(may, id) || m.let[c.Instance().Incarnation.Nonce] {
			m.fail("%s %s is picked; %v may be", id, c.Instance().Status, may)
		}
		c.Done(Neutral)
	}
	if m.fault == "" && len(may) > 0 {
		m.hold(v, may)
	}
}

// hold picks one of those and keeps it. Which one is drawn, not chance, so that a failure repeats.
func (m *model) hold(v *eider.View, may []string) {
	id := may[m.draw(len(may))]
	var not Excluded
	for i := range v.Instances {
		if v.Instances[i].ID != id {
			not.Add(v.Instances[i].Incarnation)
		}
	}
	c, err := m.w.Take(m.w.t.Context(), &not)
	if err != nil {
		m.fail("%s may be picked: %v", id, err)
		return
	}
	m.holds = append(m.holds, &pick{c: c})
}

// advance takes one pick a step on.
func (m *model) advance() {
	if len(m.holds) == 0 {
		return
	}
	i := m.draw(len(m.holds))
	p := m.holds[i]
	switch m.draw(4) {
	case 0:
		if !p.written {
			p.at = time.Now()
		}
		p.written = true
		p.c.Wrote()
	case 1:
		p.answered = true
		p.c.Answered()
	case 2:
		m.said[p.c.Instance().Incarnation.Nonce] = true
		p.c.Leaving(p.c.Instance().Incarnation)
	case 3:
		m.holds = slices.Delete(m.holds, i, i+1)
		p.c.Done([]Outcome{Neutral, Success}[m.draw(2)])
	}
}

// check holds the whole to what must be true between steps.
func (m *model) check() {
	v := m.w.View().View
	if v == nil {
		return
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, x := range m.w.members {
		if x.letGo {
			continue
		}
		waiting := slices.ContainsFunc(m.holds, func(p *pick) bool { return p.c.in.Incarnation.Nonce == x.nonce })
		if x.marked && !waiting {
			m.fail("%s is marked, nothing waits, and it isn't let go of: %s", x.id, fmt.Sprint(x.settled(m.w.now())))
		}
	}
}
