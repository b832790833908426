package check

import "time"

// Phase is how a program stands.
type Phase int

// The phases; the drawing is in the package's doc.
const (
	Starting Phase = iota // it hasn't answered yet
	Ready                 // it answers
	Ill                   // it did, and doesn't any more
	Overdue               // it should have by now; it is asked on
)

func (p Phase) String() string { return [...]string{"starting", "ready", "ill", "overdue"}[p] }

// State is what Run tells.
type State struct {
	Phase Phase
	Why   error // what the last check ran into; nil when Ready
}

// machine decides by what was heard and when; it is only arithmetic. Times count from the program's start.
type machine struct {
	cfg   Config // with its defaults
	state State
	run   int           // answers in a row that speak against the phase
	next  time.Duration // when to ask again
}

// ask is what to ask next.
func (m *machine) ask() Check {
	if m.starting() {
		return m.cfg.Ready
	}
	return m.cfg.Live
}

func (m *machine) starting() bool { return m.state.Phase == Starting || m.state.Phase == Overdue }

// heard takes one answer in: asked and answered are when, err what was wrong. It tells whether the phase changed.
func (m *machine) heard(asked, answered time.Duration, err error) bool {
	before := m.state.Phase
	need, to := m.cfg.Rise, Ready
	if before == Ready {
		need, to = m.cfg.Fall, Ill
	}
	if against := (err == nil) == (to == Ready); !against {
		m.run = 0
	} else if m.run++; m.run >= need {
		m.state.Phase, m.run = to, 0
	}
	m.state.Why = err
	if m.state.Phase == Starting && answered >= m.cfg.Start {
		m.state.Phase = Overdue
	}
	every := m.cfg.Every
	if m.starting() {
		every = min(every, whileStarting)
	}
	m.next = max(asked+every, answered)
	return m.state.Phase != before
}
