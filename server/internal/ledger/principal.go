package ledger

import (
	"strings"

	"github.com/eiderhq/eider"
)

// A caller's name is chosen by itself, and stands on every page. So a name alone joins nothing: the streams of a
// process are those of one name *and* of one identity, or one address where nobody is asked who he is. Who comes under
// a name that another holds is a caller of his own: what he says counts for him alone.

// local is every address of this machine: a process may reach the node by several.
const local = "this machine"

// principal is who a peer is, other than by his own word; "" when that isn't known.
func (p Peer) principal() string {
	switch {
	case p.Identity != "":
		return p.Identity
	case !p.Addr.IsValid():
		return ""
	case p.Addr.Unmap().IsLoopback():
		return local
	}
	return p.Addr.Unmap().WithZone("").String()
}

// claim returns the process of a peer: of his name, unless that is another's.
func (t *Table) claim(p Peer) *process {
	p.Caller = plain(p.Caller)
	who := p.principal()
	apart := p.Caller + " from " + who
	if proc := t.processes[apart]; who != "" && proc != nil && !proc.polls {
		return proc
	}
	proc := t.process(p.Caller)
	if proc.who == "" {
		proc.who = who
	}
	if who == "" || proc.who == who {
		return proc
	}
	t.event(eider.Event{Kind: eider.EventDenied, Caller: p.Caller,
		Detail: who + " comes under the name " + p.Caller + ", which is that of " + proc.who + ": it is taken for another caller"})
	proc = t.process(apart)
	proc.who = who
	return proc
}

// claimed returns the process that claim would, nil if there is none yet.
func (t *Table) claimed(p Peer) *process {
	name, who := plain(p.Caller), p.principal()
	if proc := t.processes[name+" from "+who]; who != "" && proc != nil && !proc.polls {
		return proc
	}
	proc := t.processes[t.streaming(name)]
	if proc != nil && who != "" && proc.who != "" && proc.who != who {
		return nil
	}
	return proc
}

// plain is a name that a process may give itself: none that this node composes for somebody who comes under
// another's. Else whoever came first under a composed name would speak for him whom it is meant for.
func plain(name string) string {
	for strings.Contains(name, " from ") { // again, since what is left may make one anew
		name = strings.ReplaceAll(name, " from ", " from: ")
	}
	return name
}

// mayConfirm tells whether a witness may still end instances by his word alone: as many within ten seconds as a node
// would by its own dials. Beyond that it takes a second one, of another identity or address; names that people give
// themselves don't count, but on this machine there is nothing else.
func (t *Table) mayConfirm(e *entry, witness string) bool {
	for len(t.confirmed) > 0 && t.confirmed[0].at+massWindow <= t.clock {
		t.confirmed = t.confirmed[1:]
	}
	n := 0
	for _, w := range t.confirmed {
		n += toInt(w.by == witness)
	}
	if n >= max(2, t.node.expected*tolerated/100) && (e.witness == "" || e.witness == witness) {
		e.witness = witness
		return false
	}
	t.confirmed = append(t.confirmed, confirmation{t.clock, witness})
	return true
}

// confirmation is a refusal that a witness has confirmed within the last ten seconds.
type confirmation struct {
	at moment
	by string
}

// witness is who a process is as a witness.
func (p *process) witness() string {
	if p.who == "" || p.who == local {
		return p.name
	}
	return p.who
}
