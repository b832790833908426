package lab

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
)

// departure is how an instance's process says that it has left.
type departure struct {
	To       string   `json:"to"`                // see nameOf
	PauseEnd int64    `json:"pause_end"`         // Unix ns
	By       string   `json:"by"`                // what ended the pause
	Waited   int      `json:"waited"`            // callers that it counted
	Covered  []string `json:"covered,omitempty"` // of those, who hadn't let go: their cap or the grace covers them
	Anyone   bool     `json:"anyone,omitempty"`  // among them is one that stands for many
	Exit     int      `json:"exit"`

	Members []eider.Member `json:"members,omitempty"` // as the pause left them, at most eider.MaxMembers
}

// departed sums a report up. The pause's end is told from the report's end backwards, so it is rather too late, by what
// returning from Serve takes, than too early.
func departed(r drain.Report, now time.Time) *departure {
	d := &departure{To: nameOf(r.ID, r.Incarnation), PauseEnd: now.Add(r.Pause - r.Took).UnixNano(), By: string(r.EndedBy), Waited: r.Waited, Exit: r.Exit, Members: r.Members}
	for _, m := range r.Members {
		if m.State.Settled() && m.State != eider.Capped {
			continue
		}
		d.Covered = append(d.Covered, m.Caller)
		d.Anyone = d.Anyone || m.Kind != eider.Native
	}
	d.Anyone = d.Anyone || len(d.Covered) >= eider.MaxMembers // who else isn't listed
	return d
}

// excuses tells whether the departure itself says that this caller may not have let go.
func (d *departure) excuses(caller string) bool {
	if d.By != string(drain.ByBarrier) || d.Anyone {
		return true
	}
	for _, covered := range d.Covered {
		if covered == caller {
			return true
		}
	}
	return false
}

// nameOf names one incarnation of an instance: id@nonce. Its number isn't in it: a process whose first node was killed
// before it could say the number gets another one from the next, and is the same.
func nameOf(id string, in eider.Incarnation) string { return fmt.Sprintf("%s@%016x", id, in.Nonce) }

// nameOfHeader makes it of Eider-To, which is id@number-nonce.
func nameOfHeader(to string) string {
	at := strings.LastIndexByte(to, '@') + 1
	return to[:at] + to[max(at, strings.LastIndexByte(to, '-')+1):]
}

// life is one incarnation, from when its process said that it was listed.
type life struct {
	id      string
	leaving int64 // when its process was told to leave; 0 not yet
	left    *departure
}

// audit holds what callers have written down against what instances say. It asks the registry nothing.
type audit struct {
	mu    sync.Mutex
	lives map[string]*life
	tries map[string]map[string]int64 // by incarnation, by caller: when the last try began
	lost  map[string]map[string]loss  // the same: when the roster no longer had it
	last  *departure
	taken []string // ended by the registry while their process lived
}

func newAudit() *audit {
	return &audit{lives: map[string]*life{}, tries: map[string]map[string]int64{}, lost: map[string]map[string]loss{}}
}

func (a *audit) born(id, to string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lives[to] == nil {
		a.lives[to] = &life{id: id}
	}
}

// told notes that the process of an id's living incarnations has been told to leave, or killed.
func (a *audit) told(id string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lives {
		if l.id == id && l.leaving == 0 {
			l.leaving = at.UnixNano()
		}
	}
}

// ended notes that the registry says that it has ended an incarnation.
func (a *audit) ended(to string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.lives[to]; l != nil && (l.leaving == 0 || at.UnixNano() < l.leaving) {
		a.taken = append(a.taken, fmt.Sprintf("the registry ended %s, whose process lived on", to))
	}
}

func (a *audit) hear(l line) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.Left != nil && a.lives[l.Left.To] != nil {
		a.lives[l.Left.To].left = l.Left
		a.last = l.Left
	}
	for to, at := range l.Tries {
		if a.tries[to] == nil {
			a.tries[to] = map[string]int64{}
		}
		a.tries[to][l.Who] = max(a.tries[to][l.Who], at)
	}
	for to, lost := range l.Lost {
		if a.lost[to] == nil {
			a.lost[to] = map[string]loss{}
		}
		if _, known := a.lost[to][l.Who]; !known { // the first one tells
			a.lost[to][l.Who] = lost
		}
	}
}

// lastLeft returns the departure that was told of last.
func (a *audit) lastLeft() *departure {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// findings are what an audit finds.
type findings struct {
	evicted []string       // incarnations that a roster lost before their process was told to leave
	vacuous []string       // barriers that were said to be reached while a caller still picked
	covered int            // tries after a pause that a named cap, the bound or the grace had ended
	by      map[string]int // departures by what ended their pause
	unclean []string       // departures that say themselves that they lost something
}

func (a *audit) find() findings {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := findings{by: map[string]int{}}
	f.evicted = append(f.evicted, a.taken...)
	for to, l := range a.lives {
		for who, lost := range a.lost[to] {
			if l.leaving == 0 || lost.At < l.leaving {
				f.evicted = append(f.evicted, fmt.Sprintf("%s no longer had %s, which was told to leave %s later (0 s: never); its %s", who, to, time.Duration(max(0, l.leaving-lost.At)), lost.Text))
				break
			}
		}
		if l.left == nil {
			continue
		}
		f.by[l.left.By]++
		if l.left.Exit != drain.ExitClean {
			f.unclean = append(f.unclean, fmt.Sprintf("%s ended with exit code %d", to, l.left.Exit))
		}
		if l.left.By == string(drain.ByBarrier) && l.left.Waited == 0 && len(a.tries[to]) > 0 {
			f.vacuous = append(f.vacuous, fmt.Sprintf("%s waited for nobody, and %d callers had called it", to, len(a.tries[to])))
		}
		for who, at := range a.tries[to] {
			late := time.Duration(at - l.left.PauseEnd)
			switch {
			case late <= 0:
			case l.left.excuses(who):
				f.covered++
			default:
				f.vacuous = append(f.vacuous, fmt.Sprintf("%s called %s %s after its barrier, for which it had let go", who, to, late.Round(time.Microsecond)))
			}
		}
	}
	return f
}
