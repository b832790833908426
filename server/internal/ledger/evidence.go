package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/eiderhq/eider"
)

// Evidence: the end of a process closes its sockets, so a port that refuses after the stream has ended is
// taken as the end of the process. A live process that was judged wrongly revives itself by attaching.

// dialTimes is when an address is dialled after its stream ended: a dying process' port still accepts for
// a while.
var dialTimes = [...]time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}

const (
	massWindow  = 10 * time.Second // refusals within it are counted together
	stormWindow = time.Second      // and ends of streams
	dialEvery   = time.Second      // at most, of one address, because callers doubt it
)

// probe asks once whether the address of an instance that became UP can be reached from here at all; a
// port that never accepted proves nothing by refusing.
func (t *Table) probe(e *entry) {
	if e.dialable && !e.reachable {
		t.dial(e, 0, 0)
	}
}

func (t *Table) dial(e *entry, after time.Duration, try int) {
	t.fx.Dials = append(t.fx.Dials, Dial{Departure: e.rec.Departure(), Attachment: e.rec.Attachment,
		Address: e.rec.Address, After: after, Try: try})
}

// lose is the end of an instance's stream without a word.
func (t *Table) lose(e *entry) {
	e.lost, e.lostAt = true, t.clock
	if !t.storm.covers(t.clock) {
		t.tell(eider.EventStreamEnded, e, "")
	}
	t.seek(e)
}

// seek asks for evidence.
func (t *Table) seek(e *entry) {
	if !e.reachable || !e.dialable {
		return
	}
	e.dialed = t.clock
	for i, after := range dialTimes {
		t.dial(e, after, i+1)
	}
}

// Dialed tells what a dial met. Only a refusal after the end of the stream is evidence, and only if the
// process hasn't attached again since the dial was asked for: then that attach has the higher number.
func (t *Table) Dialed(now time.Time, d Dial, a Answer) Effects {
	t.begin(now)
	e := t.find(d.Departure.Key)
	switch {
	case e == nil || !e.live() || !e.owned || !e.rec.Incarnation.Is(d.Departure.Incarnation) || e.rec.Address != d.Address:
	case d.Try == 0:
		if a == Accepted && !e.reachable {
			e.reachable = true
			t.note(e)
			if e.sess == nil && e.lost {
				t.seek(e) // its stream ended while the first answer was under way
			}
		}
	case a == Refused && e.sess == nil && e.rec.Attachment == d.Attachment:
		t.refusal(e)
	}
	return t.take()
}

// refusal is a refused dial after the end of the stream.
type refusal struct {
	at   moment
	dead bool // it ended the instance, which was expected then
}

func (t *Table) refusal(e *entry) {
	const why = "its stream ended and its port refuses"
	switch {
	case e.rec.Status == eider.Draining:
		t.refuted(e, why) // was leaving: nothing can be learned from it about the others
		return
	case e.refused:
		return
	}
	t.forgetRefusals()
	known := t.massive(0)
	if t.massive(1) && !(e.doubted > 0 && e.doubted+massWindow >= t.clock && t.mayConfirm(e, e.doubter)) {
		t.refusals = append(t.refusals, refusal{t.clock, false})
		e.refused = true
		if !known {
			t.event(eider.Event{Kind: eider.EventMassRefusal, Detail: t.massSentence()})
		}
		t.suspect(e, eider.StreamEnded, "its port refuses, as too many do")
		return
	}
	t.refusals = append(t.refusals, refusal{t.clock, true})
	t.refusedDead++
	t.refuted(e, why)
}

func (t *Table) refuted(e *entry, why string) {
	t.end(e, eider.Dead, eider.EventDead, why)
	t.fx.Flush = true
}

// massive tells whether too many instances have been refused lately, with so many more: then this node's
// own network is as good an explanation.
func (t *Table) massive(more int) bool {
	return len(t.refusals)+more > max(2, (t.node.expected+t.refusedDead)*tolerated/100)
}

func (t *Table) massSentence() string {
	return fmt.Sprintf("%d instances refused dials within %s: a refusal only makes a suspect now, until a caller sees the same", len(t.refusals), massWindow)
}

func (t *Table) forgetRefusals() {
	i := 0
	for i < len(t.refusals) && t.refusals[i].at+massWindow <= t.clock {
		t.refusedDead -= toInt(t.refusals[i].dead)
		i++
	}
	t.refusals = t.refusals[i:]
}

// Doubt tells that a caller without a recent success there had a dial of the instance refused. That
// confirms a refusal which this node didn't trust alone; else it only makes the node look for itself,
// once its stream has ended. It is never taken for more: a caller sees its own network.
func (t *Table) Doubt(now time.Time, f Follower, d eider.Departure) Effects {
	t.begin(now)
	e := t.find(d.Key)
	if t.followers[f] == nil || e == nil || !e.live() || !e.owned || e.sess != nil || !e.rec.Incarnation.Is(d.Incarnation) {
		return t.take()
	}
	e.doubted, e.doubter = max(t.clock, 1), t.followers[f].proc.witness()
	switch {
	case e.refused && !t.mayConfirm(e, e.doubter):
	case e.refused:
		t.refuted(e, "its stream ended, its port refuses, and callers see the same")
	default:
		t.redial(e)
	}
	return t.take()
}

// redial asks anew whether somebody is there, because callers give reason to: once in a while, whoever asks for it.
func (t *Table) redial(e *entry) {
	if e.reachable && e.dialable && (e.dialed == 0 || e.dialed+dialEvery <= t.clock) {
		e.dialed = t.clock
		t.dial(e, 0, 1)
	}
}

// storm is a time in which so many streams ended that this node's network explains it.
type storm struct{ from, until moment }

func (s *storm) covers(at moment) bool { return s.until > 0 && at >= s.from && at <= s.until }

// streamLost counts the end of a stream, of either kind, which is no longer among the open ones. When at
// least five and thirty percent of all end within a second, one event replaces the storm of suspicions;
// who then doesn't beat elsewhere is suspect by silence.
func (t *Table) streamLost() {
	t.ends = append(t.ends, t.clock)
	i, _ := slices.BinarySearch(t.ends, t.clock-stormWindow)
	t.ends = t.ends[i:]
	all := len(t.sessions) + len(t.followers) + len(t.ends)
	if len(t.ends) < 5 || len(t.ends)*100 < 30*all {
		return
	}
	if t.storm.until == 0 || t.storm.until+stormWindow < t.clock {
		t.storm.from = t.ends[0]
		t.event(eider.Event{Kind: eider.EventDegraded, Detail: fmt.Sprintf(
			"%d of %d streams ended within %s: this node's network explains that; nobody is suspected for it", len(t.ends), all, stormWindow)})
	}
	t.storm.until = max(t.clock, 1)
}
