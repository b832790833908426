package ledger

import "github.com/eiderhq/eider"

// line is where an instance counts in its service's summary.
type line uint8

const (
	nowhere line = iota
	lineUp
	lineSuspect
	lineStarting
	lineDown
	lineDraining
	lines
)

// standing is where an instance counts in its process.
type standing uint8

const (
	noStanding  standing = iota
	standsLive           // listed
	standsEnded          // LEFT, or DEAD by evidence
	standsOpen           // ended by silence or superseded: nothing is known of its process
)

// tally is how an entry is counted everywhere. Counts are kept, never taken, so that no operation costs
// more where there are more instances; they change in settle alone, so that they can't drift.
type tally struct {
	line     line
	standing standing
	doubted  bool
	held     bool
	expected bool // should beat here, and isn't leaving: a planned leave lowers the expectation at once (R2)
	silent   bool // is expected to, and doesn't
}

func (e *entry) tally() tally {
	c := tally{doubted: e.live() && e.suspicion != 0, held: e.live() && e.hold != nil}
	switch e.rec.Status {
	case eider.Starting:
		c.line = lineStarting
	case eider.Up:
		c.line = lineUp
		if e.suspicion != 0 {
			c.line = lineSuspect
		}
	case eider.Down:
		c.line = lineDown
	case eider.Draining:
		c.line = lineDraining
	}
	c.expected = e.owned && e.live() && e.rec.Status != eider.Draining
	c.silent = c.expected && e.suspicion.Has(eider.BeatsMissed)
	if e.proc == nil {
		return c
	}
	switch e.rec.Status {
	case eider.Left, eider.Dead:
		c.standing = standsEnded
	case eider.Lapsed:
		c.standing = standsOpen
	default:
		c.standing = standsLive
	}
	return c
}

// settle counts an entry as it now is. To be called after every change of its status, its suspicion or
// its owner; before a change of its process or its zone, unsettle is.
func (t *Table) settle(e *entry) { t.recount(e, e.tally()) }

func (t *Table) unsettle(e *entry) { t.recount(e, tally{}) }

func (t *Table) recount(e *entry, c tally) {
	was := e.counted
	if was == c {
		return
	}
	e.counted = c
	if was.line != c.line {
		t.line(e.svc, was.line, -1)
		t.line(e.svc, c.line, +1)
	}
	e.svc.held += toInt(c.held) - toInt(was.held)
	t.suspects += toInt(c.doubted) - toInt(was.doubted)
	expected, silent := toInt(c.expected)-toInt(was.expected), toInt(c.silent)-toInt(was.silent)
	if expected != 0 || silent != 0 {
		if e.grp == nil {
			e.grp = t.group(e.svc.name, e.rec.Zone)
		}
		for _, s := range [...]*scope{&t.node, &e.grp.scope} {
			s.expected += expected
			s.silent += silent
		}
		t.touch(e.grp)
		if !c.expected {
			e.grp = nil
		}
	}
	if was.standing != c.standing {
		t.stand(e.proc, was.standing, -1)
		t.stand(e.proc, c.standing, +1)
	}
}

func (t *Table) line(svc *service, l line, by int) {
	if l != nowhere {
		svc.count[l] += by
	}
}

func (t *Table) stand(p *process, s standing, by int) {
	if p == nil {
		return
	}
	switch s {
	case standsLive:
		p.live += by
	case standsEnded:
		p.ended += by
	case standsOpen:
		p.unknown += by
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
