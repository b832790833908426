package lab

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// plan is how a fleet is set up.
type plan struct {
	way              string
	instances        int
	callers          int
	work             time.Duration // a handler takes so long
	think            time.Duration
	header           time.Duration // of the callers: see role
	witness          bool
	pollers, unknown int           // of the callers: so many of these kinds; the others are of the way
	pinned           int           // likewise
	run              Starter       // of programs under eider run; nil means the lab's own
	keyed            int           // of the callers: see role
	persistent       bool          // the registry keeps its memory on disk
	rosters          bool          // callers keep their lists on disk, in one folder
	crowd            int           // callers in one process; 0 means one, which keeps no journal
	settle           time.Duration // between one restart and the next
	surge            bool
	seed             uint64
}

// crowds is how many processes the callers take.
func (p plan) crowds() int { return (p.callers + max(p.crowd, 1) - 1) / max(p.crowd, 1) }

// sentence describes the load for people.
func (p plan) sentence() string {
	text := fmt.Sprintf("%d instances, %d callers, each a process; POST, handler %s", p.instances, p.callers, p.work)
	if p.crowd > 0 {
		text = fmt.Sprintf("%d instances, each a process, %d callers in %d; POST, handler %s", p.instances, p.callers, p.crowds(), p.work)
	}
	if p.think > 0 {
		text += fmt.Sprintf(", think 0–%s", 2*p.think)
	}
	return strings.ReplaceAll(text, "µs", "us")
}

// shuffled returns a generator of this plan's choices.
func (p plan) shuffled() *rand.Rand { return rand.New(rand.NewPCG(p.seed, 7)) }
